"""A dispatcher outside Corral names the clusters of a Workload."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.dispatch.small_jobs import holds, job, on_fleet, the_workload, where

from corral.core import conditions
from corral.core.meta import name_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


@pytest.mark.parametrize("manager", ["somebody", "kueue-admission"])
def test_a_plain_status_patch_of_an_external_dispatcher_is_enough(manager: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        held = await the_workload(fleet.manager)
        assert await holds(fleet.workers["worker2"]) == (0, 0)
        patch = {"status": {"nominatedClusterNames": ["worker2"]}}
        await fleet.manager.client.patch(
            WORKLOADS, name_of(held), "default", patch, subresource="status", manager=manager
        )
        await asyncio.sleep(5)
        held = await the_workload(fleet.manager)
        assert (await where(fleet), conditions.is_true(held, "Admitted")) == ("worker2", True)
        assert "nominatedClusterNames" not in status_of(held)

    on_fleet(check, {"dispatcherName": "example.com/own"})
