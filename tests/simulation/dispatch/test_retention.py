"""A finished job stays on the worker where it ran for as long as the configuration says."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import job, on_fleet, the_workload

from corral.core import conditions
from corral.core.meta import status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_a_finished_job_stays_where_it_ran_for_as_long_as_asked() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(seconds=5))
        await asyncio.sleep(30)
        held = await the_workload(fleet.manager)
        assert conditions.is_true(held, "Finished")
        worker = fleet.workers[status_of(held)["clusterName"]]
        assert [status_of(pod)["phase"] for pod in (await worker.client.list(PODS)).items] == ["Succeeded"]
        await asyncio.sleep(60)
        for cluster in fleet.workers.values():
            assert (await cluster.client.list(JOBS)).items == (await cluster.client.list(WORKLOADS)).items == []

    on_fleet(check, keepFinished="60s")
