"""What the manager's own object of a dispatched job does: no operator touches it, and it shows what the worker reports."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.small_jobs import MULTIKUEUE, job, on_fleet, runtime

from corral.core.meta import spec_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.simulate.fleet import SimulatedFleet


def test_the_trainer_honours_managed_by() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain"))
        spec = {"runtimeRef": {"name": "plain"}, "managedBy": MULTIKUEUE, "suspend": False}
        await fleet.manager.client.create(TRAIN_JOBS, {"metadata": {"name": "t", "namespace": "default"}, "spec": spec})
        await asyncio.sleep(5)
        assert (await fleet.manager.client.list(JOB_SETS)).items == []
        assert status_of(await fleet.manager.client.get(TRAIN_JOBS, "t", "default")) == {}

    on_fleet(check)


def test_the_managers_job_shows_running_when_the_remote_one_does() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(3)
        local = await fleet.manager.client.get(JOBS, "a", "default")
        assert spec_of(local)["suspend"] is False
        assert status_of(local)["active"] == 1

    on_fleet(check)
