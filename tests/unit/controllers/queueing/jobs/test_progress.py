"""What a Workload takes over from its job, by labels and by how far the pods are."""

from __future__ import annotations

from typing import Any

import pytest

from corral.controllers.queueing.jobs.priority import Priority
from corral.controllers.queueing.jobs.progress import new_class, synced_spec
from corral.controllers.queueing.jobs.view import JobView
from corral.core.meta import Obj
from corral.jobs.batch_job.adapter import BatchJob
from corral.kinds.kueue import names
from corral.workload import lifecycle

HELD = {"name": "high", "kind": "WorkloadPriorityClass"}


def job(*, suspend: bool = True, **labels: str) -> Obj:
    return {"metadata": {"name": "j", "namespace": "default", "labels": labels}, "spec": {"suspend": suspend}}


def workload(*held: str, status: Obj | None = None, **spec: Any) -> Obj:
    conditions = [{"type": kind, "status": "True"} for kind in held]
    return {"spec": spec, "status": {"conditions": conditions, **(status or {})}}


@pytest.mark.parametrize(
    ("labels", "reference", "wanted"),
    [
        pytest.param({}, None, "", id="none named"),
        pytest.param({names.PRIORITY_CLASS: "high"}, None, "high", id="a new one"),
        pytest.param({names.PRIORITY_CLASS: "high"}, HELD, "", id="the one it has"),
        pytest.param({names.PRIORITY_CLASS: "low"}, HELD, "low", id="another one"),
        pytest.param({names.PRIORITY_CLASS: "high"}, {**HELD, "kind": "PriorityClass"}, "high", id="of another kind"),
        pytest.param({}, HELD, "", id="no longer named"),
        pytest.param({names.PRIORITY_CLASS: "low", names.PREBUILT_WORKLOAD: "w"}, HELD, "", id="somebody else's"),
    ],
)
def test_class_to_take_over(labels: dict[str, str], reference: Obj | None, wanted: str) -> None:
    assert new_class(job(**labels), workload(priorityClassRef=reference)) == wanted


LABELS = {names.QUEUE_NAME: "b", names.MAX_EXEC_TIME: "60"}
SPECS: dict[str, tuple[Obj, Obj, Obj]] = {
    "follows while it waits": (
        job(**LABELS),
        workload(queueName="a", active=True),
        {"queueName": "b", "maximumExecutionTimeSeconds": 60, "active": True},
    ),
    "stays with quota": (job(**LABELS), workload(names.QUOTA_RESERVED, queueName="a"), {"queueName": "a"}),
    "stays while the job runs": (job(suspend=False, **LABELS), workload(queueName="a"), {"queueName": "a"}),
    "without a queue": (job(), workload(queueName="a", maximumExecutionTimeSeconds=5), {}),
}


@pytest.mark.parametrize("name", SPECS)
def test_spec(name: str) -> None:
    subject, held, wanted = SPECS[name]
    view = JobView(BatchJob(), subject, lambda resource, key: None)
    assert synced_spec(view, held) == wanted
    classed = {**wanted, "priority": 7, "priorityClassRef": HELD}
    assert synced_spec(view, held, Priority(7, HELD)) == classed


@pytest.mark.parametrize(
    ("held", "counts", "only_grows", "wanted"),
    [
        pytest.param({}, {}, True, None, id="nothing"),
        pytest.param({}, {"main": 2}, True, {"main": 2}, id="the first"),
        pytest.param({"main": 2}, {"main": 2}, False, None, id="the same"),
        pytest.param({"main": 2}, {"main": 1}, True, None, id="a pod came back"),
        pytest.param({"main": 2}, {"main": 1}, False, {"main": 1}, id="the job was stopped"),
        pytest.param({"main": 2}, {}, False, {}, id="nothing is reclaimable any more"),
        pytest.param({"a": 1}, {"b": 2}, True, {"a": 1, "b": 2}, id="another pod set"),
    ],
)
def test_reclaimable(held: dict[str, int], counts: dict[str, int], only_grows: bool, wanted: dict[str, int]) -> None:
    entries = [{"name": name, "count": count} for name, count in held.items()]
    before = workload(status={"reclaimablePods": entries})
    after = lifecycle.sync_reclaimable(before, counts, only_grows=only_grows)
    if wanted is None:
        assert after is before
    else:
        assert {entry["name"]: entry["count"] for entry in after["status"]["reclaimablePods"]} == wanted


@pytest.mark.parametrize(
    ("elastic", "counts", "wanted"),
    [
        pytest.param(True, {"main": 1}, {"main": 1}, id="fewer"),
        pytest.param(True, {}, {}, id="none any more"),
        pytest.param(True, {"main": 5}, {"main": 2}, id="never more than there are pods"),
        pytest.param(False, {"main": 1}, {"main": 2}, id="a job that does not change its size"),
    ],
)
def test_pods_of_a_job_that_shrank_are_counted_anew(
    elastic: bool, counts: dict[str, int], wanted: dict[str, int]
) -> None:
    held = workload(
        names.QUOTA_RESERVED,
        podSets=[{"name": "main", "count": 2}],
        status={
            "admission": {"podSetAssignments": [{"name": "main", "count": 4}]},
            "reclaimablePods": [{"name": "main", "count": 2}],
        },
    )
    held["metadata"] = {"annotations": {names.ELASTIC_JOB: str(elastic).lower()}}
    after = lifecycle.sync_reclaimable(held, counts, only_grows=True)
    assert {entry["name"]: entry["count"] for entry in after["status"]["reclaimablePods"]} == wanted
