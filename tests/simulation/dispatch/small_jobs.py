"""A fleet of two workers, jobs small enough for either, and what is asked about them."""

from __future__ import annotations

from tests.dispatching import Script, run_on_fleet

from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
FOREVER = 100_000


def job(name: str = "a", *, cpu: str = "1", seconds: int = FOREVER, queue: str = "user-queue", **spec: object) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sleep"], "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"suspend": True, "backoffLimit": 0, "template": template, **spec},
    }


def on_fleet(test: Script, multikueue: Obj | None = None, *, frameworks: tuple[str, ...] = ("batch/job",)) -> None:
    configuration = {
        "integrations": {"frameworks": list(frameworks)},
        "multiKueue": {"workerLostTimeout": "30s", "gcInterval": "15s", **(multikueue or {})},
    }
    run_on_fleet(test, configuration)


async def the_workload(cluster: SimulatedCluster) -> Obj:
    (found,) = (await cluster.client.list(WORKLOADS)).items
    return found


async def where(fleet: SimulatedFleet) -> str:
    return str(status_of(await the_workload(fleet.manager)).get("clusterName") or "")


async def holds(cluster: SimulatedCluster) -> tuple[int, int]:
    """How many copies and jobs a worker has."""
    return len((await cluster.client.list(WORKLOADS)).items), len((await cluster.client.list(JOBS)).items)


def runtime(name: str) -> Obj:
    node = {"containers": [{"name": "node", "image": "pytorch"}]}
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    replicated = {"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": {"spec": node}}}}
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [replicated]}}}
    return {"metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}}, "spec": spec}
