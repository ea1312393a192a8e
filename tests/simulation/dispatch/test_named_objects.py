"""The ConfigMaps and Secrets a job names go with it to the worker, if the manager is told so; what is missing there is said on the manager."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.dispatch.configured_fleet import job, on_fleet, the_workload

from corral.controllers.dispatch.runs.dependencies import needed_objects
from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.inspect.explain import Evidence, explain
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, SECRETS
from corral.kinds.kueue import names
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


CODE: Obj = {"metadata": {"name": "code", "namespace": "default"}, "data": {"k": "v"}}
VOLUMES = [{"name": "code", "configMap": {"name": "code"}}, {"name": "key", "secret": {"secretName": "key"}}]


async def said(fleet: SimulatedFleet) -> tuple[str, str, str]:
    """What the condition, the Events of the job and the explanation say is missing."""
    workload = await the_workload(fleet.manager)
    condition = conditions.find(workload, names.DEPENDENCIES) or {}
    events = (await fleet.manager.client.list(EVENTS, "default")).items
    told = [one for one in events if one["reason"] == "MissingDependency" and one["involvedObject"]["kind"] == "Job"]
    facts = explain(workload, Evidence()).facts
    return (
        condition.get("message", "") if condition.get("status") == "False" else "",
        " ".join(str(one["message"]) for one in told),
        next((fact for fact in facts if "do not start" in fact), ""),
    )


@pytest.mark.parametrize(
    ("propagates", "why"),
    [(True, "there is none here to send"), (False, "nothing is sent there (propagateDependencies)")],
)
def test_what_pods_need_and_their_worker_lacks_is_said_here_until_it_is_there(propagates: bool, why: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(volumes=VOLUMES))
        await asyncio.sleep(5)
        workload = await the_workload(fleet.manager)
        cluster = status_of(workload)["clusterName"]
        text = f"{cluster} has no ConfigMap code ({why}), no Secret key ({why}): pods that need it do not start before it is there"
        assert await said(fleet) == (text, text, text)
        where = fleet.manager if propagates else fleet.workers[cluster]
        await where.client.create(CONFIG_MAPS, CODE)
        await asyncio.sleep(15)
        assert (await said(fleet))[0].startswith(f"{cluster} has no Secret key (")
        await where.client.create(SECRETS, {"metadata": {"name": "key", "namespace": "default"}})
        await asyncio.sleep(15)
        found = conditions.find(await the_workload(fleet.manager), names.DEPENDENCIES) or {}
        assert (found["status"], found["reason"]) == ("True", "Present")
        assert (await fleet.workers[cluster].client.get(CONFIG_MAPS, "code", "default"))["data"] == {"k": "v"}

    on_fleet(check, propagateDependencies=propagates)


def test_a_job_that_names_nothing_or_what_is_there_has_no_such_condition() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for worker in fleet.workers.values():
            await worker.client.create(CONFIG_MAPS, CODE)
        await fleet.manager.client.create(JOBS, job(volumes=VOLUMES[:1]))
        await asyncio.sleep(15)
        assert conditions.find(await the_workload(fleet.manager), names.DEPENDENCIES) is None

    on_fleet(check)


def test_what_is_optional_and_what_is_pulled_with_is_not_needed() -> None:
    pod: Obj = {
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "a", "configMap": {"name": "maybe", "optional": True}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "sure"}}, {"configMap": {"name": "code"}}]}},
        ],
        "containers": [
            {
                "envFrom": [{"configMapRef": {"name": "all", "optional": False}}],
                "env": [{"valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}}}],
            }
        ],
    }
    assert list(needed_objects({"template": {"spec": pod}})) == [
        (SECRETS, "sure"),
        (CONFIG_MAPS, "code"),
        (CONFIG_MAPS, "all"),
    ]
