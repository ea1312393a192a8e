"""The ConfigMaps and Secrets a job names go with it to the worker, if the manager is told so."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import job, on_fleet, the_workload

from corral.core.meta import status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS
from corral.simulate.fleet import SimulatedFleet


def test_the_config_maps_and_secrets_a_job_names_go_with_it() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        await client.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}})
        await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "data": {"k": "dg=="}})
        volumes = [{"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}}]
        await client.create(JOBS, job(seconds=10, volumes=volumes))
        await asyncio.sleep(3)
        worker = fleet.workers[status_of(await the_workload(fleet.manager))["clusterName"]]
        assert (await worker.client.get(CONFIG_MAPS, "c", "default"))["data"] == {"k": "v"}
        assert (await worker.client.get(SECRETS, "s", "default"))["data"] == {"k": "dg=="}
        await asyncio.sleep(60)
        names = [item["metadata"]["name"] for item in (await worker.client.list(CONFIG_MAPS, "default")).items]
        assert "c" not in names

    on_fleet(check, propagateDependencies=True)
