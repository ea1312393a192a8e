"""The priority class of a running job changes on the manager: its copy follows, and the worker leaves it so."""

from __future__ import annotations

import asyncio

from tests.dispatching import run_on_fleet

from corral.core.meta import Obj, spec_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from corral.simulate.fleet import SimulatedFleet

CLASSES = {"low": 10, "high": 1000}


def job() -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "100000"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/priority-class": "low"}
    return {
        "metadata": {"name": "a", "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


def test_a_changed_priority_stays_changed_on_the_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for cluster in (fleet.manager, *fleet.workers.values()):
            for name, value in CLASSES.items():
                await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(4)
        labels = {"kueue.x-k8s.io/priority-class": "high"}
        await fleet.manager.client.patch(JOBS, "a", "default", {"metadata": {"labels": labels}})
        await asyncio.sleep(2)
        (worker,) = [one for one in fleet.workers.values() if (await one.client.list(WORKLOADS)).items]
        seen = []
        for _ in range(10):
            (copy,) = (await worker.client.list(WORKLOADS)).items
            seen.append((spec_of(copy)["priority"], copy["metadata"]["resourceVersion"]))
            await asyncio.sleep(1)
        assert set(seen) == {(1000, seen[0][1])}

    run_on_fleet(check, {"integrations": {"frameworks": ["batch/job"]}})
