"""Jobs of one queue run in the order in which they were created, also those of one second."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import job, on_fleet

from corral.core import conditions
from corral.core.meta import name_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet

NAMES = [f"{letter}{number}" for number in range(4) for letter in "qatzbm"]
"""No order of names is that of their creation."""


def test_jobs_created_in_the_same_second_keep_their_order() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("blocker1", cpu="8", seconds=30))
        await fleet.manager.client.create(JOBS, job("blocker2", cpu="8", seconds=30))
        await asyncio.sleep(5)
        for name in NAMES:
            await fleet.manager.client.create(JOBS, job(name, cpu="8", seconds=20))
        first_seen: list[str] = []
        for _ in range(2000):
            items = (await fleet.manager.client.list(WORKLOADS)).items
            admitted = {name_of(item).split("-")[1] for item in items if conditions.is_true(item, "QuotaReserved")}
            new = sorted(admitted - set(first_seen) - {"blocker1", "blocker2"}, key=NAMES.index)
            first_seen += new
            if len(first_seen) == len(NAMES):
                break
            await asyncio.sleep(0.2)
        assert first_seen == NAMES

    on_fleet(check)
