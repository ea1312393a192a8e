"""Copies on workers through evictions, lost workers and deletions, where MultiKueue loses or doubles a job."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.small_jobs import holds, job, on_fleet, the_workload, where

from corral.core import conditions
from corral.core.meta import name_of, spec_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CONFIGS, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet


def other(cluster: str) -> str:
    return "worker2" if cluster == "worker1" else "worker1"


def test_a_stale_copy_on_a_returning_worker_never_beats_the_live_run() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        fleet.links[first].set(cut=True)
        await asyncio.sleep(60)
        second = await where(fleet)
        assert second == other(first)
        assert await holds(fleet.workers[first]) == (1, 1)
        fleet.links[first].set()
        await asyncio.sleep(120)
        assert await where(fleet) == second
        assert await holds(fleet.workers[second]) == (1, 1)
        assert await holds(fleet.workers[first]) == (0, 0)

    on_fleet(check)


def test_the_worker_that_admitted_first_wins_within_one_second() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(delay=0.2)
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(5)
        assert await where(fleet) == "worker2"

    on_fleet(check)


def test_no_copies_are_made_before_an_eviction_is_over() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        made: list[str] = []

        async def follow(worker: SimulatedCluster) -> None:
            async for event in worker.client.watch(WORKLOADS):
                if event.type == "ADDED":
                    held = await the_workload(fleet.manager)
                    made.append("too early" if conditions.is_true(held, "Evicted") else "in time")

        tasks = [asyncio.ensure_future(follow(worker)) for worker in fleet.workers.values()]
        await asyncio.sleep(0.1)
        made.clear()
        (remote,) = (await fleet.workers[await where(fleet)].client.list(JOBS)).items
        await fleet.workers[await where(fleet)].client.delete(
            JOBS, name_of(remote), "default", propagation="Background"
        )
        await asyncio.sleep(20)
        assert set(made) == {"in time"}
        for task in tasks:
            task.cancel()

    on_fleet(check)


def test_an_eviction_ends_although_no_worker_can_report() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        for link in fleet.links.values():
            link.set(cut=True)
        await asyncio.sleep(60)
        held = await the_workload(fleet.manager)
        assert conditions.is_false(held, "QuotaReserved")
        assert await where(fleet) == ""
        assert spec_of(await fleet.manager.client.get(JOBS, "a", "default"))["suspend"] is True

    on_fleet(check)


def test_a_deleted_workload_is_dispatched_again() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        old = await the_workload(fleet.manager)
        await fleet.manager.client.delete(WORKLOADS, name_of(old), "default")
        await asyncio.sleep(10)
        new = await the_workload(fleet.manager)
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert await holds(fleet.workers[await where(fleet)]) == (1, 1)
        assert await holds(fleet.workers[other(await where(fleet))]) == (0, 0)

    on_fleet(check)


def test_a_job_on_a_cluster_that_left_the_config_is_cleaned_up() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        patch = {"spec": {"clusters": [other(first)]}}
        await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", patch)
        await asyncio.sleep(20)
        assert await where(fleet) == other(first)
        assert await holds(fleet.workers[first]) == (0, 0)

    on_fleet(check)


def test_a_job_whose_copy_was_deleted_by_hand_is_removed() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        await fleet.workers[first].client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"stopPolicy": "Hold"}})
        copy = await the_workload(fleet.workers[first])
        await fleet.workers[first].client.delete(WORKLOADS, name_of(copy), "default")
        await asyncio.sleep(20)
        assert await where(fleet) == other(first)
        assert await holds(fleet.workers[first]) == (0, 0)

    on_fleet(check)
