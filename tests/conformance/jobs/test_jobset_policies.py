"""JobSets: success and failure policies, and how a restart waits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, summary
from tests.conformance.jobs.test_jobset import controllers, job_set, pods_of, replicated

from corral.clusters.operators import operator_plugins
from corral.core.meta import Obj, labels_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


# 89: success


@pytest.mark.parametrize(
    ("operator", "targets", "done", "ended"),
    [
        ("All", ["a"], ["js-a-0"], False),
        ("All", ["a"], ["js-a-0", "js-a-1"], True),
        ("Any", ["a"], ["js-b-0"], False),
        ("Any", ["a"], ["js-a-1"], True),
        ("Any", [], ["js-b-0"], True),
    ],
)
def test_success_policy(operator: str, targets: list[str], done: list[str], ended: bool) -> None:
    async def script(stage: Stage) -> None:
        policy: Obj = {"operator": operator, **({"targetReplicatedJobs": targets} if targets else {})}
        await stage.create(JOB_SETS, job_set(replicated("a", 2), replicated("b"), successPolicy=policy))
        await stage.run()
        for name in done:
            await stage.succeed(*await pods_of(stage, name))
        await stage.pass_time(4)
        held = await stage.get(JOB_SETS, "js")
        assert (held["status"].get("terminalState") == "Completed") is ended

    play(controllers, script, plugins=plugins)


# 91: rules by message and in order


FAILURES: list[Any] = [
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["backoff limit$"]}], "Failed", id="message matches"
    ),
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["^deadline"]}], "Restarting", id="message does not"
    ),
    pytest.param(
        [
            {"action": "FailJobSet", "targetReplicatedJobs": ["b"]},
            {"action": "RestartJobSet", "targetReplicatedJobs": ["a"]},
            {"action": "FailJobSet"},
        ],
        "Restarting",
        id="first rule for the target",
    ),
    pytest.param(
        [
            {"action": "RestartJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
            {"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]},
        ],
        "Failed",
        id="first rule for the reason",
    ),
    pytest.param(
        [{"action": "RestartJobSet"}, {"action": "FailJobSet", "targetReplicatedJobs": ["a"]}],
        "Restarting",
        id="a rule without conditions comes first",
    ),
]


@pytest.mark.parametrize(("rules", "want"), FAILURES)
def test_failure_rules_in_order(rules: list[Obj], want: str) -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 3, "rules": rules}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(3)
        held = await stage.get(JOB_SETS, "js")
        states = [kind for kind, value in summary(held) if value == "True"]
        assert states == (["Failed"] if want == "Failed" else ["RestartingJobSet"])

    play(controllers, script, plugins=plugins)


def test_earliest_failure_decides() -> None:
    async def script(stage: Stage) -> None:
        rules = [{"action": "FailJobSet", "targetReplicatedJobs": ["b"]}]
        policy = {"maxRestarts": 3, "rules": rules}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-b-0"))
        await stage.pass_time(3)
        failed = (await stage.get(JOB_SETS, "js"))["status"]["conditions"][-1]
        assert "first failed job: js-b-0" in failed["message"]

    play(controllers, script, plugins=plugins)


# 92: how Jobs are made again


def test_blocking_restart_waits_until_all_old_jobs_are_gone() -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        old = (await stage.get(JOBS, "js-b-0"))["metadata"]["uid"]
        await stage.client.patch(JOBS, "js-b-0", "default", {"metadata": {"finalizers": ["example.com/hold"]}})
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(60)
        assert (await stage.get(JOBS, "js-b-0"))["metadata"]["uid"] == old
        assert "js-a-0" not in await stage.names(JOBS)  # waits for the other
        await stage.client.patch(JOBS, "js-b-0", "default", {"metadata": {"finalizers": []}})
        await stage.pass_time(60)
        assert await stage.names(JOBS) == ["js-a-0", "js-b-0"]
        assert labels_of(await stage.get(JOBS, "js-a-0"))["jobset.sigs.k8s.io/restart-attempt"] == "1"

    play(controllers, script, plugins=plugins)
