"""Workers come, go and change their credentials while 500 jobs are in flight: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of, status_of, uid_of
from corral.decide.dispatch.model import ALL_AT_ONCE, LATE_BINDING
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet, kubeconfig_data
from corral.store.stored import Event

WORKERS = ("worker1", "worker2", "worker3", "worker4")
JOB_LABEL = "batch.kubernetes.io/job-name"


def job(number: int) -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {
            "annotations": {"corral.dev/run-seconds": str(5 + number % 20), "corral.dev/stop-seconds": "4"},
        },
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": f"j{number:03}", "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"suspend": True, "backoffLimit": 100, "template": template}}


class Watcher:
    """Sees every state of every pod, and which jobs ran on two clusters at once."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self.running: dict[str, dict[str, str]] = {name: {} for name in fleet.workers}
        self.twice: list[str] = []
        for name, worker in fleet.workers.items():
            worker.store.observe(partial(self._changed, name))

    def _changed(self, cluster: str, event: Event) -> None:
        pod = event.stored.obj
        if event.stored.key.resource != PODS.group_resource:
            return
        held = self.running[cluster]
        held.pop(uid_of(pod), None)
        if event.type != "DELETED" and status_of(pod).get("phase") == "Running":
            name = held[uid_of(pod)] = labels_of(pod)[JOB_LABEL]
            where = [other for other, pods in self.running.items() if name in pods.values()]
            if len(where) > 1:
                self.twice.append(f"{name} on {where}")


async def change_the_fleet(fleet: SimulatedFleet) -> None:
    """Everything an operator does to a fleet, in the middle of it."""
    client = fleet.manager.client
    await asyncio.sleep(6)
    await fleet.introduce_worker("worker4")
    await client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": list(WORKERS)}})
    for number in range(5):
        await asyncio.sleep(1)
        data = {"kubeconfig": kubeconfig_data("worker2", token=f"rotated-{number}")}
        await client.patch(SECRETS, "worker2-secret", "kueue-system", {"data": data})
    left = [name for name in WORKERS if name != "worker1"]
    await client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": left}})
    await client.delete(MULTI_KUEUE_CLUSTERS, "worker1")
    await client.delete(SECRETS, "worker1-secret", "kueue-system")


async def all_ended(fleet: SimulatedFleet, count: int) -> bool:
    jobs = (await fleet.manager.client.list(JOBS)).items
    return len(jobs) == count and all(conditions.is_true(held, "Complete") for held in jobs)


@pytest.mark.parametrize(("dispatcher", "count"), [(ALL_AT_ONCE, 500), (LATE_BINDING, 150)])
def test_workers_come_and_go_while_jobs_are_in_flight(dispatcher: str, count: int) -> None:
    async def main() -> None:
        multikueue = {"workerLostTimeout": "60s", "gcInterval": "20s", "dispatcherName": dispatcher}
        configuration = {"integrations": {"frameworks": ["batch/job"]}, "multiKueue": multikueue}
        latency = partial(Random(7).uniform, 0.001, 0.1)
        async with SimulatedFleet(WORKERS, configuration=configuration, cpu="100", latency=latency) as fleet:
            for name in WORKERS[:3]:
                await fleet.introduce_worker(name)
            await fleet.introduce_config(WORKERS[:3])
            await fleet.set_up_queues(manager_cpu="200", worker_cpu="60")
            await asyncio.sleep(1)
            watcher = Watcher(fleet)
            changing = asyncio.ensure_future(change_the_fleet(fleet))
            for number in range(count):
                await fleet.manager.client.create(JOBS, job(number))
                await asyncio.sleep(0.03)
            await changing
            for _ in range(60):
                await asyncio.sleep(10)
                if await all_ended(fleet, count):
                    break
            await asyncio.sleep(60)
            unfinished = [
                (name_of(held), status_of(held))
                for held in (await fleet.manager.client.list(JOBS)).items
                if not conditions.is_true(held, "Complete")
            ]
            assert await all_ended(fleet, count), unfinished[:3]
            assert watcher.twice == []
            for name, worker in fleet.workers.items():
                left = [name_of(copy) for copy in (await worker.client.list(WORKLOADS)).items]
                assert (name, left) == (name, [])
            queue = await fleet.manager.client.get(CLUSTER_QUEUES, "cluster-queue")
            assert (status_of(queue)["reservingWorkloads"], status_of(queue)["pendingWorkloads"]) == (0, 0)

    run_virtual(main)
