"""What a Job decides about its pods and its status, as tables of small worlds."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj, name_of
from corral.core.timestamps import format_time
from corral.jobs.batch_job.failure import Backoff
from corral.jobs.batch_job.plan import INDEX, INDEX_FAILURES, TRACKING, SyncView, assess, is_managed_here
from corral.jobs.batch_job.pods import PodPlan, plan_pods
from corral.jobs.batch_job.status import plan_status, settle

NOW = 1_767_225_600.0
STARTED = {"startTime": format_time(NOW - 60), "uncountedTerminatedPods": {}, "ready": 0, "terminating": 0}


def job(status: Obj | None = None, *, restart: str = "Never", **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": restart, "containers": [{"name": "c"}]}}
    base = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "template": template}
    metadata = {"name": "j", "namespace": "ns", "uid": "job"}
    return {"metadata": metadata, "spec": {**base, **spec}, "status": status if status is not None else STARTED}


def pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    deleting: bool = False,
    tracked: bool = True,
    code: int | None = None,
    failures: int | None = None,
    node: str = "n",
    restarts: int = 0,
    ended: float = NOW,
) -> Obj:
    annotations: dict[str, str] = {} if index is None else {INDEX: str(index)}
    if failures is not None:
        annotations[INDEX_FAILURES] = str(failures)
    metadata: Obj = {"name": name, "namespace": "ns", "uid": name, "annotations": annotations}
    if tracked:
        metadata["finalizers"] = [TRACKING]
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOW)
    state = (
        {"terminated": {"exitCode": code or 0, "finishedAt": format_time(ended)}}
        if phase in ("Succeeded", "Failed")
        else {}
    )
    container = {"name": "c", "restartCount": restarts, "state": state}
    ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    status = {"phase": phase, "containerStatuses": [container], "conditions": ready}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def plan_for(subject: Obj, *pods: Obj, **view: Any) -> PodPlan:
    state = SyncView(subject, pods, NOW, **view)
    return plan_pods(state, assess(state))


@pytest.mark.parametrize(
    ("subject", "pods", "create", "delete"),
    [
        pytest.param(job(), [], 1, [], id="one pod"),
        pytest.param(job(parallelism=54, completions=52), [], 52, [], id="never more than completions"),
        pytest.param(job(parallelism=3, completions=None), [pod("a")], 2, [], id="work queue fills up"),
        pytest.param(
            job(parallelism=3, completions=None), [pod("a"), pod("b", "Succeeded")], 0, [], id="work queue winds down"
        ),
        pytest.param(job(parallelism=0, completions=3), [pod("a"), pod("b")], 0, ["a", "b"], id="parallelism zero"),
        pytest.param(
            job(parallelism=1, completions=3), [pod("a"), pod("b", node="")], 0, ["b"], id="unscheduled goes first"
        ),
        pytest.param(
            job(parallelism=1, completions=3), [pod("a"), pod("b", "Pending")], 0, ["b"], id="pending goes first"
        ),
        pytest.param(
            job(suspend=True, parallelism=2, completions=2), [pod("a"), pod("b")], 0, ["a", "b"], id="suspend"
        ),
        pytest.param(job(suspend=True), [], 0, [], id="suspended makes nothing"),
        pytest.param(job(), [pod("a", deleting=True)], 0, [], id="a deleted pod is a failure and waits its pause"),
        pytest.param(job(podReplacementPolicy="Failed"), [pod("a", deleting=True)], 0, [], id="replace only failed"),
        pytest.param(
            job(completionMode="Indexed", completions=3, parallelism=2),
            [pod("a", index=1)],
            1,
            [],
            id="lowest free index",
        ),
        pytest.param(
            job(completionMode="Indexed", completions=2, parallelism=2),
            [pod("a", index=0), pod("b", "Pending", index=0), pod("c", index=1)],
            0,
            ["b"],
            id="second pod of an index goes",
        ),
        pytest.param(
            job(completionMode="Indexed", completions=1),
            [pod("a", index=0), pod("b", index=4)],
            0,
            ["b"],
            id="index beyond completions goes",
        ),
        pytest.param(
            job({**STARTED, "succeeded": 2}, completions=3, parallelism=3), [], 1, [], id="only what is missing"
        ),
    ],
)
def test_job_plans_pods(subject: Obj, pods: list[Obj], create: int, delete: list[str]) -> None:
    plan = plan_for(subject, *pods)
    assert (len(plan.create), [name_of(entry) for entry in plan.delete]) == (create, delete)


def test_nothing_is_planned_while_the_cache_lags() -> None:
    assert plan_for(job(), current=False) == PodPlan()


def test_next_pod_waits_after_a_failure() -> None:
    plan = plan_for(job(), pod("a", "Failed", code=1))
    assert (plan.create, plan.wait_s) == ((), 10.0)
    assert len(plan_for(job(), backoff=Backoff(1, NOW - 10)).create) == 1


def test_indexed_pods_carry_their_index() -> None:
    subject = job(completionMode="Indexed", completions=3, parallelism=3)
    made = plan_for(subject, pod("a", index=1)).create
    assert [entry["metadata"]["generateName"] for entry in made] == ["j-0-", "j-2-"]
    assert made[1]["spec"]["hostname"] == "j-2"
    assert made[1]["metadata"]["labels"] == {"a": "b", INDEX: "2"}
    assert made[1]["metadata"]["annotations"] == {INDEX: "2"}
    assert made[1]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert made[1]["metadata"]["finalizers"] == [TRACKING]


def test_index_prefix_is_cut_to_leave_room_for_the_suffix() -> None:
    subject = job(completionMode="Indexed", completions=1)
    subject["metadata"]["name"] = "x" * 63
    prefix = plan_for(subject).create[0]["metadata"]["generateName"]
    assert prefix == "x" * 55 + "-0-"


def test_retry_of_an_index_counts_its_failures_after_its_own_pause() -> None:
    subject = job(
        completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=2, backoffLimit=2**31 - 1
    )
    failed = pod("a", "Failed", index=0, code=1, failures=0, ended=NOW - 4)
    plan = plan_for(subject, failed, pod("b", index=1, failures=0))
    assert plan.wait_s == 6.0
    late = SyncView(subject, [failed, pod("b", index=1, failures=0)], NOW + 6)
    made = plan_pods(late, assess(late)).create
    assert [entry["metadata"]["annotations"][INDEX_FAILURES] for entry in made] == ["1"]


VERDICTS = [
    pytest.param(
        job(backoffLimit=0), [pod("a", "Failed", code=1)], "FailureTarget", "BackoffLimitExceeded", id="backoff"
    ),
    pytest.param(
        job(restart="OnFailure", backoffLimit=0),
        [pod("a", restarts=1)],
        "FailureTarget",
        "BackoffLimitExceeded",
        id="restarts, limit 0",
    ),
    pytest.param(job(restart="OnFailure", backoffLimit=0), [pod("a")], None, None, id="no restart, limit 0"),
    pytest.param(
        job(restart="OnFailure", backoffLimit=2), [pod("a", restarts=1)], None, None, id="restarts below the limit"
    ),
    pytest.param(
        job(restart="OnFailure", backoffLimit=2),
        [pod("a", restarts=2)],
        "FailureTarget",
        "BackoffLimitExceeded",
        id="restarts at the limit",
    ),
    pytest.param(job(activeDeadlineSeconds=60), [pod("a")], "FailureTarget", "DeadlineExceeded", id="deadline"),
    pytest.param(job(activeDeadlineSeconds=61), [pod("a")], None, None, id="deadline ahead"),
    pytest.param(job(activeDeadlineSeconds=60, suspend=True), [], None, None, id="no deadline while suspended"),
    pytest.param(
        job(
            completionMode="Indexed",
            completions=4,
            successPolicy={"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]},
        ),
        [pod("a", "Succeeded", index=0), pod("b", "Succeeded", index=3)],
        "SuccessCriteriaMet",
        "SuccessPolicy",
        id="success policy with count",
    ),
    pytest.param(
        job(
            completionMode="Indexed",
            completions=4,
            successPolicy={"rules": [{"succeededIndexes": "0,3"}, {"succeededCount": 3}]},
        ),
        [pod("a", "Succeeded", index=0), pod("b", "Succeeded", index=1)],
        None,
        None,
        id="success policy not met",
    ),
    pytest.param(
        job(completionMode="Indexed", completions=4, backoffLimitPerIndex=0, maxFailedIndexes=1, backoffLimit=99),
        [pod("a", "Failed", index=0, code=1), pod("b", "Failed", index=1, code=1), pod("c", index=2)],
        "FailureTarget",
        "MaxFailedIndexesExceeded",
        id="too many failed indexes",
    ),
]


@pytest.mark.parametrize(("subject", "pods", "kind", "reason"), VERDICTS)
def test_job_reaches_a_verdict(subject: Obj, pods: list[Obj], kind: str | None, reason: str | None) -> None:
    verdict = assess(SyncView(subject, pods, NOW)).verdict
    assert (verdict and verdict["type"], verdict and verdict["reason"]) == (kind, reason)


def sync(subject: Obj, *pods: Obj) -> tuple[Obj, Obj, list[str]]:
    """The two statuses a sync writes when everything works, and the final events."""
    view = SyncView(subject, pods, NOW)
    facts = assess(view)
    plan = plan_pods(view, facts)
    first = plan_status(view, facts, plan, len(plan.create), plan.delete)
    last = settle(view, first, [name_of(entry) for entry in first.release])
    return first.status, last.status, [event[1] for event in (*first.events, *last.events)]


def test_success_is_named_before_it_is_counted() -> None:
    first, last, events = sync(job(), pod("a", "Succeeded"))
    assert first["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert "succeeded" not in first
    assert [entry["type"] for entry in first["conditions"]] == ["SuccessCriteriaMet"]
    assert (last["succeeded"], last["uncountedTerminatedPods"]) == (1, {})
    assert [entry["type"] for entry in last["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert last["completionTime"] == format_time(NOW)
    assert events == ["Completed"]


def test_failure_ends_only_when_no_pod_is_left_terminating() -> None:
    first, last, events = sync(job(activeDeadlineSeconds=1), pod("a"))
    assert first["terminating"] == 1
    assert first["uncountedTerminatedPods"] == {"failed": ["a"]}
    assert [entry["type"] for entry in last["conditions"]] == ["FailureTarget"]
    assert (last["failed"], events) == (1, [])
    again = job({**last}, activeDeadlineSeconds=1)
    _, final, events = sync(again)
    assert [entry["type"] for entry in final["conditions"]] == ["FailureTarget", "Failed"]
    assert events == ["DeadlineExceeded"]


def test_ignored_failures_are_not_counted() -> None:
    policy = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
    _, last, _ = sync(job(podFailurePolicy=policy, backoffLimit=0), pod("a", "Failed", code=3))
    assert "failed" not in last
    assert "conditions" not in last


def test_suspension_is_reported_and_keeps_the_counters() -> None:
    _, last, events = sync(job({**STARTED, "failed": 1, "active": 1}, suspend=True), pod("a"))
    assert events == ["Suspended"]
    assert (last["failed"], last.get("active"), last["terminating"]) == (1, None, 1)


def test_zero_completions_complete_even_when_suspended() -> None:
    _, last, events = sync(job({}, suspend=True, completions=0, parallelism=0))
    assert [entry["type"] for entry in last["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert events == ["Completed"]


def test_indexed_successes_are_counted_by_index() -> None:
    subject = job(completionMode="Indexed", completions=3, parallelism=3)
    first, last, _ = sync(subject, pod("a", "Succeeded", index=1), pod("b", "Succeeded", index=0), pod("c", index=2))
    assert (first["completedIndexes"], first["succeeded"], first["uncountedTerminatedPods"]) == ("0,1", 2, {})
    assert last == first


def test_interrupted_sync_neither_loses_nor_repeats_a_pod() -> None:
    named = {**STARTED, "uncountedTerminatedPods": {"succeeded": ["a"]}}
    _, with_finalizer, _ = sync(job(named, completions=2), pod("a", "Succeeded"))
    assert with_finalizer["succeeded"] == 1
    _, without, _ = sync(job(named, completions=2), pod("a", "Succeeded", tracked=False))
    assert without["succeeded"] == 1
    _, gone, _ = sync(job(named, completions=2))
    assert gone["succeeded"] == 1


def test_foreign_manager_is_left_alone() -> None:
    assert is_managed_here(job())
    assert is_managed_here(job(managedBy="kubernetes.io/job-controller"))
    assert not is_managed_here(job(managedBy="kueue.x-k8s.io/multikueue"))
