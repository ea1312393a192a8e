"""Fencing: a worker that cannot reach its manager stops a job before another worker starts it."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import job, on_fleet, the_workload

from corral.core.meta import status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_a_worker_that_lost_its_manager_stops_before_the_job_starts_elsewhere() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = status_of(await the_workload(fleet.manager))["clusterName"]
        worker = fleet.workers[first]
        fleet.links[first].set(cut=True)
        await asyncio.sleep(45)
        assert status_of(await the_workload(fleet.manager))["clusterName"] == first
        assert not status_of(await worker.client.get(JOBS, "a", "default")).get("active")
        assert "Fenced" in {event["reason"] for event in (await worker.client.list(EVENTS)).items}
        await asyncio.sleep(30)
        assert status_of(await the_workload(fleet.manager))["clusterName"] != first
        fleet.links[first].set()
        await asyncio.sleep(180)  # the pause before the next attempt to connect has grown meanwhile
        assert (await worker.client.list(WORKLOADS)).items == []

    on_fleet(check, fencing=True)
