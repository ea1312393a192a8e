"""A manager with more workers than upstream allows."""

from __future__ import annotations

import asyncio

from tests.dispatching import run_on_fleet
from tests.simulation.dispatch.configured_fleet import job

from corral.core.meta import status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_forty_workers_take_jobs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name in ("a", "b", "c"):
            await fleet.manager.client.create(JOBS, job(name, cpu="5"))
        await asyncio.sleep(10)
        chosen = [status_of(held)["clusterName"] for held in (await fleet.manager.client.list(WORKLOADS)).items]
        assert len(set(chosen)) == len(chosen) == 3

    run_on_fleet(check, workers=[f"worker{number}" for number in range(1, 41)])
