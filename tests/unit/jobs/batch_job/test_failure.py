"""Pod failure policies and the pause between attempts."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.jobs.batch_job.failure import Backoff, Judgement, judge, pause_left


def failed_pod(*codes: int, condition: str = "", end: str = "2026-01-01T00:00:10Z") -> Obj:
    statuses = [
        {"name": f"c{i}", "state": {"terminated": {"exitCode": code, "finishedAt": end}}}
        for i, code in enumerate(codes)
    ]
    conditions = [{"type": condition, "status": "True"}] if condition else []
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "status": {"phase": "Failed", "containerStatuses": statuses, "conditions": conditions},
    }


def job_with(*rules: Obj) -> Obj:
    return {"spec": {"podFailurePolicy": {"rules": list(rules)}} if rules else {}}


def codes(action: str, *values: int, operator: str = "In", container: str = "") -> Obj:
    requirement: Obj = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": {**requirement, **({"containerName": container} if container else {})}}


DISRUPTED: Obj = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("rules", "pod", "want"),
    [
        pytest.param([], failed_pod(1), Judgement(), id="no policy counts"),
        pytest.param([codes("Ignore", 2)], failed_pod(1), Judgement(), id="no match counts"),
        pytest.param([codes("Ignore", 1)], failed_pod(1), Judgement(False, "Ignore"), id="ignored"),
        pytest.param(
            [codes("Count", 1), codes("FailJob", 1)], failed_pod(1), Judgement(True, "Count"), id="first wins"
        ),
        pytest.param([codes("FailIndex", 1)], failed_pod(1), Judgement(True, "FailIndex"), id="fail index"),
        pytest.param([codes("Ignore", 5, operator="NotIn")], failed_pod(1), Judgement(False, "Ignore"), id="not in"),
        pytest.param(
            [codes("Ignore", 5, operator="NotIn")], failed_pod(0), Judgement(), id="exit code 0 never matches"
        ),
        pytest.param([codes("Ignore", 1, container="c1")], failed_pod(1, 7), Judgement(), id="other container"),
        pytest.param(
            [DISRUPTED], failed_pod(137, condition="DisruptionTarget"), Judgement(False, "Ignore"), id="disrupted"
        ),
        pytest.param(
            [DISRUPTED, codes("FailJob", 42)],
            failed_pod(42),
            Judgement(
                True, "FailJob", "Container c0 for pod ns/p failed with exit code 42 matching FailJob rule at index 1"
            ),
            id="fail job by exit code",
        ),
        pytest.param(
            [{"action": "FailJob", "onPodConditions": [{"type": "Bad", "status": "True"}]}],
            failed_pod(1, condition="Bad"),
            Judgement(True, "FailJob", "Pod ns/p has condition Bad matching FailJob rule at index 0"),
            id="fail job by condition",
        ),
    ],
)
def test_policy_judges(rules: list[Obj], pod: Obj, want: Judgement) -> None:
    assert judge(job_with(*rules), pod) == want


@pytest.mark.parametrize(("failures", "pause"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 600), (50, 600)])
def test_pause_doubles_up_to_ten_minutes(failures: int, pause: float) -> None:
    assert pause_left(failures, 100.0, 100.0) == pause
    assert pause_left(failures, 100.0, 100.0 + pause) == 0


def test_success_resets_the_failures_before_it() -> None:
    early, late = failed_pod(1, end="2026-01-01T00:00:10Z"), failed_pod(1, end="2026-01-01T00:00:30Z")
    success = failed_pod(0, end="2026-01-01T00:00:20Z")
    record = Backoff(3, 1.0)
    assert record.after([success], [early], 0.0) == Backoff()
    assert record.after([success], [early, late], 0.0).failures == 1
    assert record.after([], [early, late], 0.0).failures == 5
    assert record.after([], [], 0.0) == record
