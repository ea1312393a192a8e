"""Running the controllers as their pods would: with the account of the shipped manifests and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml
from cluster import ControlPlane, programs

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.deployment.held import held_by

from corral.client import kubeconfig
from corral.core.meta import Obj

ROOT = Path(__file__).parents[2]
OUTSIDE: list[Obj] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "outside", "namespace": "kueue-system"},
        **content,
    }
    for kind, content in (
        ("Role", {"rules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["create", "patch"]}]}),
        (
            "RoleBinding",
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "outside"},
                "subjects": [{"kind": "ServiceAccount", "name": "corral", "namespace": "kueue-system"}],
            },
        ),
    )
]
"""A process outside of the cluster also makes the Service that leads to it; one in a pod finds that of the manifests."""


def kubectl(plane: ControlPlane, *arguments: str, given: str = "") -> str:
    binaries = programs()
    assert binaries is not None
    command = [str(binaries / "kubectl"), f"--kubeconfig={plane.kubeconfig}", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
    return done.stdout


def shipped(role: str) -> list[Obj]:
    """What is deployed for a role, but for the pods and the Services that lead to them."""
    text = (ROOT / "deploy" / "kustomize" / role / "corral.yaml").read_text()
    found = [each for each in yaml.safe_load_all(text) if each["kind"] not in ("Deployment", "Service")]
    return _without(found, os.environ["CORRAL_WITHOUT"]) if "CORRAL_WITHOUT" in os.environ else found


def _without(manifests: list[Obj], rule: str) -> list[Obj]:
    """The same without one rule, named as `python -m tools.deployment.proof` does."""
    role, _, number = rule.partition(":")
    gone = held_by(role)[int(number)]
    for each in manifests:
        if each["kind"] in ("Role", "ClusterRole") and each["metadata"].get("namespace", "") == gone.namespace:
            each["rules"] = [kept for kept in each["rules"] if kept != gone.rule]
    return manifests


def account_of(plane: ControlPlane, role: str, path: Path) -> Path:
    """Apply what is shipped for a role; the kubeconfig of its account."""
    manifests = shipped(role)
    kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all(manifests))
    (account,) = (each["metadata"] for each in manifests if each["kind"] == "ServiceAccount")
    token = kubectl(plane, "create", "token", account["name"], f"--namespace={account['namespace']}").strip()
    authority = (plane.folder / "ca.crt").read_bytes()
    kubeconfig.write(kubeconfig.document_for("account", plane.server, authority, token=token), path)
    return path


def start_corral(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, "-m", "corral", *arguments], stdout=output, stderr=output)
