"""Jobs as a simulation submits them: how one of a kind is made, and which label of its pods names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import names

RESTARTS = 1000
STOP_S = "3"
"""How long a pod lives on after it was told to stop."""


@dataclass(frozen=True, slots=True)
class SimulatedKind:
    """One kind of job. `make(name, cpu, seconds)` asks for `cpu` CPUs and runs for so long."""

    framework: str
    resource: Resource
    make: Callable[[str, int, int], Obj]
    done: str
    """The condition that says it has ended well."""
    name_label: str
    """The label of a pod that names its job."""


def pod_template(cpu: int, seconds: int, policy: str, container: str = "main") -> Obj:
    requests = {"requests": {"cpu": str(cpu)}}
    return {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds), "corral.dev/stop-seconds": STOP_S}},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": container, "image": "busybox", "resources": requests}],
        },
    }


def queued_job(name: str, spec: Obj) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}},
        "spec": spec,
    }
