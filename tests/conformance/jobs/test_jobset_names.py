"""JobSets: sizes and names that are taken, given and refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_jobset import controllers, job_set, replicated

from corral.clusters.operators import operator_plugins
from corral.core.errors import Invalid
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.kinds.kubernetes.core.kinds import SERVICES


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


# 87 and 88: sizes and names


def test_no_jobs_and_no_replicas_are_fine_and_fewer_are_not() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set())
        assert await stage.names(JOBS) == []
        none = job_set(replicated("w", 0))
        none["metadata"]["name"] = "none"
        await stage.create(JOB_SETS, none)
        assert await stage.names(JOBS) == []
        with pytest.raises(Invalid, match="should be greater than or equal to 0"):
            await stage.create(JOB_SETS, {**job_set(replicated("w", -1)), "metadata": {"name": "less"}})

    play(controllers, script, plugins=plugins)


def test_rules_get_names() -> None:
    async def script(stage: Stage) -> None:
        policy = {"rules": [{"action": "FailJobSet"}, {"name": "mine", "action": "RestartJobSet"}]}
        made = await stage.create(JOB_SETS, job_set(replicated("w"), failurePolicy=policy))
        assert [rule["name"] for rule in made["spec"]["failurePolicy"]["rules"]] == ["failurePolicyRule0", "mine"]

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("metadata", "job"),
    [
        ({"name": "j" * 56}, replicated("worker")),
        ({"generateName": "j" * 52}, replicated("worker")),
        ({"name": "j" * 50}, replicated("w", pods=1000)),
    ],
    ids=["job", "generated name", "pod"],
)
def test_names_that_grow_too_long_are_refused(metadata: Obj, job: Obj) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid, match="63 characters"):
            await stage.create(JOB_SETS, {**job_set(job), "metadata": metadata})

    play(controllers, script, plugins=plugins)


# 95: the service


def test_subdomain_names_the_service() -> None:
    async def script(stage: Stage) -> None:
        network = {"subdomain": "ring", "publishNotReadyAddresses": False}
        await stage.create(JOB_SETS, job_set(replicated("w"), network=network))
        assert await stage.names(SERVICES) == ["ring"]
        assert (await stage.get(SERVICES, "ring"))["spec"].get("publishNotReadyAddresses") in (False, None)
        assert (await stage.pods())[0]["spec"]["subdomain"] == "ring"

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    "coordinator",
    [{"replicatedJob": "w", "jobIndex": 2}, {"replicatedJob": "w", "podIndex": 1}, {"replicatedJob": "none"}],
    ids=["job", "pod", "no such"],
)
def test_coordinator_has_to_exist(coordinator: Obj) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid):
            await stage.create(JOB_SETS, job_set(replicated("w", 2), coordinator=coordinator))

    play(controllers, script, plugins=plugins)
