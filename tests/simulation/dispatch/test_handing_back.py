"""A job that no worker takes gives its quota back, says why, and is tried again later."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import job, on_fleet, the_workload

from corral.core import conditions
from corral.core.meta import name_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet


async def raise_quota(cluster: SimulatedCluster) -> None:
    resources = [{"name": "cpu", "nominalQuota": "20"}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default-flavor", "resources": resources}]}
    await cluster.client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"resourceGroups": [group]}})


def test_a_job_nobody_takes_gives_its_quota_back_and_is_tried_again_later() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(25)
        held = await the_workload(fleet.manager)
        assert conditions.is_false(held, "QuotaReserved")
        events = (await fleet.manager.client.list(EVENTS)).items
        (message,) = (event["message"] for event in events if event["reason"] == "HandedBack")
        assert message.startswith("No worker took the workload within 20s: worker1, worker2: couldn't assign flavors")
        for worker in fleet.workers.values():
            assert (await worker.client.list(WORKLOADS)).items == []
        await raise_quota(fleet.workers["worker2"])
        await asyncio.sleep(120)
        assert status_of(await the_workload(fleet.manager))["clusterName"] == "worker2"

    on_fleet(check, giveUpAfter="20s")


def test_a_job_that_no_worker_could_ever_take_does_not_hold_what_others_could_use() -> None:
    """Two workers of 8 CPUs: a job of 12 fits into the manager's 16, and nowhere else."""

    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("large", cpu="12"))
        await asyncio.sleep(3)
        for name in ("one", "two"):
            await fleet.manager.client.create(JOBS, job(name, cpu="8"))
        await asyncio.sleep(10)
        held = {name_of(item).split("-")[1]: item for item in (await fleet.manager.client.list(WORKLOADS)).items}
        assert {name for name, item in held.items() if conditions.is_true(item, "Admitted")} == {"one", "two"}
        assert conditions.is_false(held["large"], "QuotaReserved")
        events = (await fleet.manager.client.list(EVENTS)).items
        (message,) = {event["message"] for event in events if event["reason"] == "HandedBack"}
        assert message == "No worker can ever take it: worker1, worker2: can never give so much cpu"

    on_fleet(check, handBackImpossible=True)


def test_a_job_that_was_too_large_runs_when_a_worker_has_grown() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(3)
        await raise_quota(fleet.workers["worker2"])
        await asyncio.sleep(120)
        assert status_of(await the_workload(fleet.manager))["clusterName"] == "worker2"

    on_fleet(check, handBackImpossible=True)


def test_a_worker_out_of_reach_might_take_it() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker2"].set(cut=True)
        await asyncio.sleep(30)
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(10)
        assert conditions.is_true(await the_workload(fleet.manager), "QuotaReserved")

    on_fleet(check, handBackImpossible=True)
