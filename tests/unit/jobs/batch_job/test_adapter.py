"""The Job adapter: partial admission, freed pods, stopping in Kubernetes' order."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.jobs.batch_job.adapter import BatchJob
from corral.kinds.kueue import names
from corral.workload.podsets import PodSetInfo

ADAPTER = BatchJob()


def job(annotations: Obj | None = None, status: Obj | None = None, **spec: Any) -> Obj:
    return {
        "metadata": {"name": "j", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"suspend": True, "template": {"spec": {"containers": []}}, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        ({"parallelism": 1, "completions": 3}, {"succeeded": 2}, {}),
        ({"parallelism": 2, "completions": 3}, {"succeeded": 1}, {}),
        ({"parallelism": 2, "completions": 3}, {"succeeded": 2}, {"main": 1}),
        ({"parallelism": 3}, {"succeeded": 1}, {"main": 1}),
        (
            {"parallelism": 4, "completions": 8, "completionMode": "Indexed"},
            {"succeeded": 3, "completedIndexes": "0-2,5", "failedIndexes": "6"},
            {"main": 1},
        ),
        (
            {"parallelism": 2, "completions": 2, "completionMode": "Indexed"},
            {"failedIndexes": "0"},
            {"main": 1},
        ),
        (
            {"parallelism": 3, "completions": 3, "completionMode": "Indexed"},
            {"succeeded": 3, "completedIndexes": "1,3-4"},
            {"main": 1},
        ),
        (
            {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
            {"succeeded": 2, "completedIndexes": "0-1", "failedIndexes": "1-2"},
            {"main": 3},
        ),
        ({"parallelism": 2, "completions": 2}, {"succeeded": 3}, {"main": 2}),
    ],
    ids=[
        "one at a time",
        "enough left",
        "last one runs",
        "no completions given",
        "indexed counts failed ones",
        "only failed indexes",
        "indexes of a larger size do not count",
        "an index of both lists counts once",
        "more succeeded than are wanted now",
    ],
)
def test_reclaimable_pods(spec: Obj, status: Obj, want: dict[str, int]) -> None:
    assert ADAPTER.reclaimable_pods(job(status=status, **spec)) == want


def test_partial_admission_shrinks_and_restores() -> None:
    annotated = {names.JOB_MIN_PARALLELISM: "1", names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true"}
    wanted = job(annotated, parallelism=4, completions=4, completionMode="Indexed")
    (slot,) = ADAPTER.slots(wanted)
    assert (slot.count, slot.min_count) == (4, 1)
    started = ADAPTER.run(wanted, [PodSetInfo("main", count=2)])
    assert (started["spec"]["parallelism"], started["spec"]["completions"]) == (2, 2)
    restored = ADAPTER.restore(started, [PodSetInfo("main", count=4)])
    assert (restored["spec"]["parallelism"], restored["spec"]["completions"]) == (4, 4)


def test_stopping_suspends_then_forgets_the_start_then_restores() -> None:
    running = job(status={"startTime": "2026-01-01T00:00:00Z"})
    running = ADAPTER.run(running, [PodSetInfo("main", node_selector={"a": "b"})])
    original = [PodSetInfo("main")]
    first = ADAPTER.stop(running, original)
    assert first is not None
    assert first.obj["spec"]["suspend"] is True
    assert first.obj["metadata"]["annotations"] == {names.STOPPING: "true"}
    second = ADAPTER.stop(first.obj, original)
    assert second is not None
    assert second.subresource == "status"
    assert "startTime" not in second.obj["status"]
    third = ADAPTER.stop(second.obj, original)
    assert third is not None
    assert "nodeSelector" not in third.obj["spec"]["template"]["spec"]
    assert names.STOPPING not in third.obj["metadata"].get("annotations", {})
    assert ADAPTER.stop(third.obj, original) is None


@pytest.mark.parametrize(
    ("annotations", "spec", "want"),
    [
        ({names.JOB_MIN_PARALLELISM: "2"}, {"parallelism": 4}, ""),
        ({names.JOB_MIN_PARALLELISM: "NaN"}, {"parallelism": 4}, 'strconv.Atoi: parsing "NaN": invalid syntax'),
        ({names.JOB_MIN_PARALLELISM: "5"}, {"parallelism": 4}, "should be between 0 and 3"),
        ({names.JOB_MIN_PARALLELISM: "0"}, {"parallelism": 4}, "should be between 0 and 3"),
        (
            {names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true"},
            {"parallelism": 4, "completions": 4},
            "should not be enabled for NonIndexed jobs",
        ),
    ],
)
def test_partial_admission_annotations_are_checked(annotations: Obj, spec: Obj, want: str) -> None:
    causes = ADAPTER.validate(job(annotations, **spec), None)
    assert bool(causes) == bool(want)
    assert not want or want in causes[0].message


def test_status_waits_until_both_sides_run() -> None:
    local = job()
    remote = {**job(suspend=False), "status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}
    waiting = ADAPTER.sync_status(local, remote)
    assert waiting is not None
    assert [(entry["type"], entry["reason"]) for entry in waiting["status"]["conditions"]] == [
        ("Suspended", "MultiKueueAdapter")
    ]
    assert "startTime" not in waiting["status"]
    assert ADAPTER.sync_status(waiting, remote) is None
    assert ADAPTER.sync_status({**local, "spec": {**local["spec"], "suspend": False}}, remote) is not None
