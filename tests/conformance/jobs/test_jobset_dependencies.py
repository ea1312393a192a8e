"""JobSets: jobs that wait for others, also while the set is suspended."""

from __future__ import annotations

from typing import Any

from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_jobset import controllers, job_set, pods_of, replicated

from corral.clusters.operators import operator_plugins
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


# 93: dependencies


def test_dependencies_in_a_diamond() -> None:
    async def script(stage: Stage) -> None:
        jobs = (
            replicated("start"),
            replicated("left", depends={"start": "Complete"}),
            replicated("right", depends={"start": "Ready"}),
            replicated("end", depends={"left": "Complete", "right": "Complete"}),
        )
        await stage.create(JOB_SETS, job_set(*jobs))
        assert await stage.names(JOBS) == ["js-start-0"]
        await stage.run()
        await stage.pass_time(2)
        assert await stage.names(JOBS) == ["js-right-0", "js-start-0"]
        await stage.succeed(*await pods_of(stage, "js-start-0"))
        await stage.pass_time(3)
        assert await stage.names(JOBS) == ["js-left-0", "js-right-0", "js-start-0"]
        await stage.succeed(*await pods_of(stage, "js-left-0"))
        await stage.pass_time(3)
        assert "js-end-0" not in await stage.names(JOBS)
        await stage.succeed(*await pods_of(stage, "js-right-0"))
        await stage.pass_time(3)
        assert "js-end-0" in await stage.names(JOBS)

    play(controllers, script, plugins=plugins)


def test_dependencies_hold_while_suspended_and_after() -> None:
    async def script(stage: Stage) -> None:
        jobs = (replicated("start"), replicated("end", depends={"start": "Complete"}))
        await stage.create(JOB_SETS, job_set(*jobs, suspend=True))
        assert await stage.names(JOBS) == ["js-start-0"]
        assert (await stage.get(JOBS, "js-start-0"))["spec"]["suspend"] is True
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await stage.run()
        await stage.succeed()
        await stage.pass_time(3)
        assert await stage.names(JOBS) == ["js-end-0", "js-start-0"]

    play(controllers, script, plugins=plugins)


def test_suspended_set_in_order_has_all_its_jobs() -> None:
    async def script(stage: Stage) -> None:
        order = {"startupPolicyOrder": "InOrder"}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), startupPolicy=order, suspend=True))
        assert await stage.names(JOBS) == ["js-a-0", "js-b-0"]
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await stage.pass_time(2)
        assert [len(await pods_of(stage, name)) for name in ("js-a-0", "js-b-0")] == [1, 0]
        await stage.run()
        await stage.pass_time(2)
        assert len(await pods_of(stage, "js-b-0")) == 1

    play(controllers, script, plugins=plugins)
