"""How a JobSet ends: which policy speaks about which failure, and when success is success."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.conditions import find
from corral.core.meta import Obj
from corral.jobs.jobset.children import ATTEMPT, REPLICATED_JOB
from corral.jobs.jobset.plan import plan_job_set

NOW = 1_800_000_000.0


def job_set(status: Obj | None = None, **spec: Any) -> Obj:
    jobs = [{"name": name, "replicas": 2, "template": {"spec": {"template": {}}}} for name in ("leader", "worker")]
    metadata = {"name": "js", "namespace": "default", "uid": "u"}
    body: Obj = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    return {**body, "spec": {"replicatedJobs": jobs, **spec}, "status": status or {}}


def job(name: str, kind: str = "", reason: str = "", message: str = "", at: int = 0, attempt: int = 0) -> Obj:
    """A child Job, ended by a condition of this kind if one is given."""
    replicated = name.rpartition("-")[0].rpartition("-")[2]
    when = f"2026-01-01T00:00:{at:02}Z"
    end = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": when}
    labels = {REPLICATED_JOB: replicated, ATTEMPT: str(attempt)}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"conditions": [end] if kind else []}}


RULE = {"name": "r", "action": "FailJobSet"}


@pytest.mark.parametrize(
    ("policy", "status", "expected"),
    [
        pytest.param(None, {}, ("Failed", "FailedJobs"), id="no policy fails"),
        pytest.param({}, {}, ("Failed", "ReachedMaxRestarts"), id="no restarts allowed"),
        pytest.param({"maxRestarts": 1}, {}, ("RestartingJobSet", "DefaultFailurePolicy"), id="restarts by default"),
        pytest.param(
            {"maxRestarts": 1}, {"restartsCountTowardsMax": 1}, ("Failed", "ReachedMaxRestarts"), id="restarts used up"
        ),
        pytest.param(
            {"maxRestarts": 1, "rules": [RULE]}, {}, ("Failed", "FailJobSetFailurePolicyAction"), id="a rule fails it"
        ),
        pytest.param(
            {"maxRestarts": 1, "rules": [{**RULE, "onJobFailureReasons": ["Other"]}]},
            {},
            ("RestartingJobSet", "DefaultFailurePolicy"),
            id="a rule for another reason",
        ),
        pytest.param(
            {"maxRestarts": 1, "rules": [{**RULE, "targetReplicatedJobs": ["leader"]}]},
            {},
            ("RestartingJobSet", "DefaultFailurePolicy"),
            id="a rule for another job",
        ),
        pytest.param(
            {"maxRestarts": 1, "rules": [{**RULE, "onJobFailureMessagePatterns": ["disk.*full"]}]},
            {},
            ("Failed", "FailJobSetFailurePolicyAction"),
            id="a rule for its message",
        ),
        pytest.param(
            {"rules": [{"name": "r", "action": "RestartJobSetAndIgnoreMaxRestarts"}]},
            {},
            ("RestartingJobSet", "FailurePolicy_r"),
            id="restarts that do not count",
        ),
    ],
)
def test_failure_policies(policy: Obj | None, status: Obj, expected: tuple[str, str]) -> None:
    subject = job_set(status, **({} if policy is None else {"failurePolicy": policy}))
    jobs = [job("js-leader-0"), job("js-worker-0", "Failed", "BackoffLimitExceeded", "the disk is full")]
    kind, reason = expected
    entry = find(plan_job_set(subject, jobs, NOW).status["conditions"], kind)
    assert entry is not None
    assert (entry["status"], entry["reason"]) == ("True", reason)


def test_the_first_failure_is_the_one_that_counts() -> None:
    jobs = [job("js-worker-1", "Failed", at=7), job("js-worker-0", "Failed", at=5)]
    plan = plan_job_set(job_set(), jobs, NOW)
    assert plan.events[0][2].endswith("(first failed job: js-worker-0)")


@pytest.mark.parametrize(
    ("policy", "done", "expected"),
    [
        pytest.param({}, 4, True, id="all of all"),
        pytest.param({}, 3, False, id="one is missing"),
        pytest.param({"operator": "Any"}, 1, True, id="any will do"),
        pytest.param({"operator": "Any", "targetReplicatedJobs": ["worker"]}, 2, False, id="any, but not those"),
        pytest.param({"operator": "All", "targetReplicatedJobs": ["leader"]}, 2, True, id="all of the leaders"),
    ],
)
def test_success_policies(policy: Obj, done: int, expected: bool) -> None:
    names = ["js-leader-0", "js-leader-1", "js-worker-0", "js-worker-1"]
    jobs = [job(name, "Complete" if index < done else "") for index, name in enumerate(names)]
    status = plan_job_set(job_set(successPolicy=policy), jobs, NOW).status
    assert (status.get("terminalState") == "Completed") is expected


def test_jobs_of_an_earlier_attempt_count_for_nothing() -> None:
    jobs = [job("js-leader-0", "Failed", attempt=0), job("js-worker-0", attempt=1)]
    plan = plan_job_set(job_set({"restarts": 1}), jobs, NOW)
    assert [entry["metadata"]["name"] for entry in plan.delete] == ["js-leader-0"]
    assert [entry["failed"] for entry in plan.status["replicatedJobsStatus"]] == [0, 0]
