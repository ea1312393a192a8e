"""A suite's cluster as a real one: kube-apiserver, etcd and kube-controller-manager, and Corral's controllers and webhooks over them as a
process under the account that is shipped. Nodes, pods and operators of job kinds are played (`nodes.py`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "kubernetes"))

from accounts import OUTSIDE, account_of, kubectl, start_corral
from cluster import ControlPlane, programs
from tests import waiting

from corral.client.sync import SyncClient
from corral.clusters.kueue_installation.objects import DEPLOYMENT_NAME, POD_LABELS, WEBHOOK_SERVICE, roles
from corral.clusters.process.configuration_in_force import CONFIG_KEY, CONFIG_MAP
from corral.clusters.webhooks.configurations import MUTATING_NAME
from corral.core.errors import ApiError
from corral.jobs.framework.registry import shipped_frameworks
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kubernetes.admissionregistration.kinds import MUTATING_WEBHOOK_CONFIGURATIONS
from corral.kinds.kubernetes.core.kinds import NODES

HERE = Path(__file__).parent
NAMESPACE = "kueue-system"


def is_here() -> bool:
    return programs() is not None


@contextmanager
def real_cluster(folder: Path, name: str, fleet: Path) -> Iterator[Path]:
    """The administrator's kubeconfig of a cluster that is ready for a suite."""
    binaries = programs()
    assert binaries is not None
    plane = ControlPlane(name, folder / name, binaries)
    with ExitStack() as stack:
        stack.callback(plane.stop)
        plane.start()
        groups = dict.fromkeys(kind.group for kind in native_kinds())
        options = [part for group in groups for part in ("--group", group)]
        install = [
            sys.executable,
            "-m",
            "corral",
            "controllers",
            "install",
            f"--kubeconfig={plane.kubeconfig}",
            *options,
        ]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        account = account_of(plane, "worker", folder / "account")
        kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all([*OUTSIDE, *installation(fleet)]))
        arguments = [
            "controllers", "run", "--roles=queueing,webhooks", f"--kubeconfig={account}", "--webhook-host=localhost",
            "--webhook-port=0", "--take-over",
        ]  # fmt: skip
        _keep(stack, start_corral(folder / "corral.log", *arguments))
        with (folder / "nodes.log").open("wb") as output:
            play = [sys.executable, "-m", "tools.acceptance.nodes", str(plane.kubeconfig), str(fleet)]
            _keep(stack, subprocess.Popen(play, stdout=output, stderr=output, cwd=HERE.parents[1]))
        waiting.eventually(
            lambda: _is_ready(plane), what="readiness of the cluster", failing=(ApiError, AssertionError)
        )
        yield plane.kubeconfig


def _keep(stack: ExitStack, process: subprocess.Popen[bytes]) -> None:
    """Let a process run until the cluster is taken down."""
    stack.callback(process.wait, 60)
    stack.callback(process.terminate)


def _is_ready(plane: ControlPlane) -> bool:
    client = SyncClient.from_kubeconfig(plane.kubeconfig)
    client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
    return bool(client.list(NODES)["items"])


def installation(fleet: Path) -> list[dict[str, Any]]:
    """What the suites look for of an installation of Kueue: its configuration, its roles for people, and a Deployment that is
    available, whose pods stand for Corral's process."""
    (cluster,) = yaml.safe_load(fleet.read_text())["clusters"]
    document = yaml.safe_load((fleet.parent / cluster["config"]).read_text())
    document["integrations"] = {"frameworks": list(shipped_frameworks())}
    metadata = {"name": DEPLOYMENT_NAME, "namespace": NAMESPACE}
    unprivileged = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    template = {
        "metadata": {"labels": POD_LABELS},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "manager", "image": "corral", "args": ["pause"], "securityContext": unprivileged}],
        },
    }
    spec = {"selector": {"matchLabels": POD_LABELS}, "template": template}
    service = {"selector": POD_LABELS, "ports": [{"port": 443, "targetPort": 9443}]}
    people = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        }
        for name, rules in roles().items()
    ]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {CONFIG_KEY: yaml.safe_dump(document)},
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "name": WEBHOOK_SERVICE}, "spec": service},
        *people,
    ]
