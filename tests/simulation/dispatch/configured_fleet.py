"""A fleet with Corral's own dispatch options set, and jobs for it."""

from __future__ import annotations

from tests.dispatching import Script, run_on_fleet

from corral.core.meta import Obj
from corral.kinds.kueue import WORKLOADS
from corral.simulate.cluster import SimulatedCluster


def job(name: str = "a", *, cpu: str = "1", seconds: int = 100_000, **pod: object) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sleep"], "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container], **pod},
    }
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


def on_fleet(test: Script, *frameworks: str, **own: object) -> None:
    configuration = {
        "integrations": {"frameworks": ["batch/job", *frameworks]},
        "multiKueue": {"workerLostTimeout": "60s", "gcInterval": "15s"},
        "corral": own,
    }
    run_on_fleet(test, configuration)


async def the_workload(cluster: SimulatedCluster) -> Obj:
    (found,) = (await cluster.client.list(WORKLOADS)).items
    return found
