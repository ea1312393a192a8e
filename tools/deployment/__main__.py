"""Writes what is generated under deploy/: `make deploy`. Roles come from the code, plain manifests from the chart.

`python -m tools.deployment` needs helm for the manifests; without it only roles and board are written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from tools.deployment import rights
from tools.deployment.board import board

from corral.clusters.placement_identities import hub, member
from corral.core.identity import Rules
from corral.core.meta import Obj

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "charts" / "corral"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
HEAD = "# Generated: `make deploy`.\n"
RBAC = "rbac.authorization.k8s.io"
NAMESPACES = {"manager": "kueue-system", "worker": "kueue-system", "hub": "fleet-system", "member": "fleet-system"}
SETTINGS = {"member": ["--set", "member.name=member-1"]}


def granted(name: str, account: str, home: str, everywhere: Rules, inside: dict[str, Rules]) -> list[Obj]:
    """Roles called `name`, and their bindings to an account of the namespace `home`."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
    found: list[Obj] = []
    for namespace, rules in (("", everywhere), *inside.items()):
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        reference = {"apiGroup": RBAC, "kind": kind, "name": name}
        found.append({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)})
        binding = {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": metadata}
        found.append({**binding, "roleRef": reference, "subjects": [subject]})
    return found


def roles() -> dict[str, list[Obj]]:
    """The roles of each deployment, and those that come with webhooks and with what jobs take along."""
    home, fleet = NAMESPACES["manager"], NAMESPACES["member"]
    system, front_proxy = rights.webhooks_in_kube_system()
    asked = {home: rights.webhooks_in_own_namespace(), system: front_proxy}
    parts = {
        "worker": ("corral", home, [rights.queueing()]),
        "manager": ("corral", home, [rights.queueing(), rights.dispatch()]),
        "hub": ("corral-hub", fleet, [hub()]),
        "member": ("corral-member", fleet, [member()]),
    }
    return {
        **{
            role: granted(name, name, where, rights.everywhere(*held), {where: rights.inside(where, *held)})
            for role, (name, where, held) in parts.items()
        },
        "webhooks": granted("corral-webhooks", "corral", home, rights.webhooks(), asked),
        "hub-webhooks": granted(
            "corral-hub-webhooks",
            "corral-hub",
            fleet,
            rights.hub_webhooks(),
            {fleet: rights.hub_webhooks_in_own_namespace()},
        ),
        "dependencies": granted("corral-dependencies", "corral", home, rights.dependencies(), {}),
    }


def chart_files() -> dict[Path, str]:
    """What is generated inside of the chart."""
    texts = {name: _yaml(documents) for name, documents in roles().items()}
    return {
        **{CHART / "files" / "roles" / f"{name}.yaml": text for name, text in texts.items()},
        CHART / "files" / "board.json": board(),
    }


def plain_manifests(helm: str) -> dict[Path, str]:
    """The chart as it is rendered for each role, for those who do without helm."""
    found = {}
    for role, namespace in NAMESPACES.items():
        command = [helm, "template", "corral", str(CHART), "--namespace", namespace, "--set", f"role={role}"]
        done = subprocess.run([*command, *SETTINGS.get(role, [])], capture_output=True, text=True, check=True)
        documents = [document for document in yaml.safe_load_all(done.stdout) if document]
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": RESTRICTED}}
        found[KUSTOMIZE / role / "corral.yaml"] = _yaml([space, *documents])
    return found


RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def find_helm() -> str | None:
    """Where helm is: beside the real Kubernetes programs, or on the path."""
    places = (os.environ.get("KUBE_TOOLS", ""), os.environ.get("PATH", ""))
    return next((found for place in places if place and (found := shutil.which("helm", path=place))), None)


def _yaml(documents: list[Obj]) -> str:
    # References between documents would be YAML that few tools read.
    dumper = yaml.SafeDumper
    dumper.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]
    return HEAD + yaml.dump_all(documents, Dumper=dumper, sort_keys=False, width=120)


def main() -> int:
    files = chart_files()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    helm = find_helm()
    if helm is None:
        print("helm is not here, so the plain manifests stay as they are; `make helm` builds it", file=sys.stderr)
        return 1
    for path, text in plain_manifests(helm).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
