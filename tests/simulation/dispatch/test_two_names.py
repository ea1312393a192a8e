"""One worker described by two MultiKueueClusters: a job still has one copy there, runs once, and nobody takes it away."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from corral.core import conditions
from corral.core.meta import Obj, name_of, status_of
from corral.decide.dispatch.model import ALL_AT_ONCE, INCREMENTAL, LATE_BINDING
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet
from corral.store.stored import Event

WORKERS = ("worker1", "worker2")
AGAIN = {"again1": "worker1", "again2": "worker2"}
"""Further names of the workers."""


def job(name: str, seconds: int = 20) -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    annotations = {"corral.dev/run-seconds": str(seconds), "corral.dev/stop-seconds": "1"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"suspend": True, "backoffLimit": 0, "template": template}}


class Made:
    """Counts the copies and jobs made on each worker."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self.copies: Counter[tuple[str, str]] = Counter()
        self.jobs: Counter[str] = Counter()
        for name, worker in fleet.workers.items():
            worker.store.observe(lambda event, name=name: self._changed(name, event))

    def _changed(self, cluster: str, event: Event) -> None:
        if event.type != "ADDED":
            return
        if event.stored.key.resource == WORKLOADS.group_resource:
            self.copies[cluster, name_of(event.stored.obj)] += 1
        elif event.stored.key.resource == JOBS.group_resource:
            self.jobs[name_of(event.stored.obj)] += 1


def fleet_of(workers: Sequence[str] = WORKERS, dispatcher: str = ALL_AT_ONCE) -> SimulatedFleet:
    multikueue = {"workerLostTimeout": "60s", "gcInterval": "15s", "dispatcherName": dispatcher}
    configuration = {"integrations": {"frameworks": ["batch/job"]}, "multiKueue": multikueue}
    return SimulatedFleet(workers, configuration=configuration)


async def name_again(fleet: SimulatedFleet) -> None:
    for name, worker in AGAIN.items():
        source = {"kubeConfig": {"location": f"{worker}-secret", "locationType": "Secret"}}
        cluster: Obj = {"metadata": {"name": name}, "spec": {"clusterSource": source}}
        await fleet.manager.client.create(MULTI_KUEUE_CLUSTERS, cluster)


async def forget_again(fleet: SimulatedFleet) -> None:
    for name in AGAIN:
        await fleet.manager.client.delete(MULTI_KUEUE_CLUSTERS, name)


async def set_config(fleet: SimulatedFleet, clusters: Sequence[str]) -> None:
    await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": list(clusters)}})


async def submit(fleet: SimulatedFleet, count: int = 3, seconds: int = 20) -> None:
    for number in range(count):
        await fleet.manager.client.create(JOBS, job(f"j{number}", seconds))


async def unfinished(fleet: SimulatedFleet) -> list[Obj]:
    jobs = (await fleet.manager.client.list(JOBS)).items
    return [status_of(held) for held in jobs if not conditions.is_true(held, "Complete")]


@pytest.mark.parametrize("dispatcher", [ALL_AT_ONCE, INCREMENTAL, LATE_BINDING])
@pytest.mark.parametrize("config", [WORKERS, (*WORKERS, *AGAIN), (*AGAIN, *WORKERS), tuple(AGAIN)])
def test_a_worker_with_two_names_gets_one_copy_and_the_job_runs_once(config: Sequence[str], dispatcher: str) -> None:
    async def main() -> None:
        async with fleet_of(dispatcher=dispatcher) as fleet:
            await fleet.introduce()
            await name_again(fleet)
            await set_config(fleet, config)
            await fleet.set_up_queues()
            await asyncio.sleep(5)
            made = Made(fleet)
            await submit(fleet)
            await asyncio.sleep(60)
            assert await unfinished(fleet) == []
            assert set(made.copies.values()) == {1}
            assert made.jobs == {"j0": 1, "j1": 1, "j2": 1}
            for worker in fleet.workers.values():
                assert (await worker.client.list(WORKLOADS)).items == []

    run_virtual(main)


@pytest.mark.parametrize("config", [WORKERS, (*WORKERS, *AGAIN)])
def test_jobs_that_run_go_on_when_the_second_names_come_and_go(config: Sequence[str]) -> None:
    async def main() -> None:
        async with fleet_of() as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(5)
            made = Made(fleet)
            await submit(fleet, seconds=100)
            await asyncio.sleep(10)
            await name_again(fleet)
            await set_config(fleet, config)
            await asyncio.sleep(20)
            await set_config(fleet, WORKERS)
            await forget_again(fleet)
            await asyncio.sleep(120)
            assert await unfinished(fleet) == []
            assert made.jobs == {"j0": 1, "j1": 1, "j2": 1}

    run_virtual(main)


@pytest.mark.parametrize("config", [WORKERS, (*WORKERS, *AGAIN), (*AGAIN, *WORKERS)])
def test_jobs_that_wait_go_on_when_the_second_names_are_deleted(config: Sequence[str]) -> None:
    async def main() -> None:
        async with fleet_of() as fleet:
            await fleet.introduce()
            await name_again(fleet)
            await set_config(fleet, config)
            await fleet.set_up_queues(manager_cpu="64", worker_cpu="1")
            await asyncio.sleep(5)
            await submit(fleet, 6)
            await asyncio.sleep(3)
            await set_config(fleet, WORKERS)
            await forget_again(fleet)
            await asyncio.sleep(100)
            assert await unfinished(fleet) == []

    run_virtual(main)
