"""What every job adapter promises, checked for each kind by the same tests. A new kind is one row in ROWS."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from corral.core.meta import Key, Obj, labels_of
from corral.core.resource import Resource
from corral.jobs.adapter import JobAdapter, Lookup, managed_by, prebuilt_workload, queue_name
from corral.jobs.paths import get_in, set_in
from corral.jobs.podset import ConflictingUpdate, PodSetInfo, info_of_template
from corral.jobs.registry import adapter
from corral.kinds.kueue import names

POD = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
    },
}
METADATA = {
    "name": "sample",
    "namespace": "team-a",
    "uid": "c0ffee",
    "resourceVersion": "7",
    "labels": {names.QUEUE_NAME: "user-queue"},
    "finalizers": ["example.com/hold"],
    "ownerReferences": [{"kind": "Thing", "name": "t", "uid": "1", "apiVersion": "example.com/v1"}],
}


@dataclass
class Row:
    """One kind: a job of it, what it consists of, and how it looks in each stage."""

    framework: str
    job: Obj
    pod_sets: dict[str, int]
    finished: Obj
    """Status of a successful end."""
    failed: Obj
    running: Obj
    """Status with all pods ready."""
    known: dict[tuple[Resource, Key], Obj] = field(default_factory=dict)
    templates: list[tuple[str | int, ...]] = field(default_factory=lambda: [("spec", "template")])
    restores: bool = True
    """Whether a stopped job can be started again."""

    @property
    def adapter(self) -> JobAdapter:
        return adapter(self.framework)

    @property
    def lookup(self) -> Lookup:
        return lambda resource, key: self.known.get((resource, key))


def job_of(api_version: str, kind: str, spec: Obj, **metadata: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {**METADATA, **metadata}, "spec": spec}


def ended(kind: str, **more: Any) -> Obj:
    return {"conditions": [{"type": kind, "status": "True", "reason": "Done", "message": "it is over"}], **more}


ROWS = [
    Row(
        "batch/job",
        job_of("batch/v1", "Job", {"parallelism": 3, "completions": 5, "suspend": True, "template": POD}),
        {"main": 3},
        finished=ended("Complete"),
        failed=ended("Failed"),
        running={"active": 3, "ready": 3},
    ),
    Row(
        "pod",
        {
            **job_of(
                "v1",
                "Pod",
                {**POD["spec"], "schedulingGates": [{"name": names.ADMISSION_GATE}]},  # type: ignore[dict-item]
            )
        },
        {"main": 1},
        finished={"phase": "Succeeded", "message": "it is over"},
        failed={"phase": "Failed", "message": "it is over"},
        running={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        templates=[()],
        restores=False,
    ),
]

each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.framework)


def infos(row: Row, **changes: Any) -> list[PodSetInfo]:
    return [PodSetInfo(name=name, count=count, **changes) for name, count in row.pod_sets.items()]


def templates(row: Row, job: Obj) -> list[Obj]:
    return [get_in(job, path) if path else job for path in row.templates]


def pure(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` and check that it left its arguments alone."""
    before = copy.deepcopy(arguments)
    result = function(*arguments)
    assert arguments == before
    return result


@each
def test_names_pod_sets_and_counts(row: Row) -> None:
    found = pure(row.adapter.pod_sets, row.job, row.lookup)
    assert {pod_set.name: pod_set.count for pod_set in found} == row.pod_sets


@each
def test_reads_the_queue_from_label_and_from_annotation(row: Row) -> None:
    assert queue_name(row.job) == "user-queue"
    old = set_in(row.job, ("metadata", "labels"), None)
    assert queue_name(set_in(old, ("metadata", "annotations"), {names.QUEUE_NAME: "older"})) == "older"


@each
def test_is_stored_suspended(row: Row) -> None:
    assert row.adapter.is_suspended(row.job)
    assert pure(row.adapter.suspend, row.job) is row.job


@each
def test_starts_with_selectors_tolerations_and_labels(row: Row) -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    wanted = infos(row, node_selector={"pool": "a"}, tolerations=(toleration,), labels={names.PODSET: "x"})
    started = pure(row.adapter.run, row.job, wanted)
    assert not row.adapter.is_suspended(started)
    for template in templates(row, started):
        assert template["spec"]["nodeSelector"] == {"pool": "a"}
        assert toleration in template["spec"]["tolerations"]
        assert labels_of(template)[names.PODSET] == "x"


@each
def test_refuses_to_start_against_the_users_own_selector(row: Row) -> None:
    started = row.adapter.run(row.job, infos(row, node_selector={"pool": "a"}))
    with pytest.raises(ConflictingUpdate):
        row.adapter.run(started, infos(row, node_selector={"pool": "b"}))


@each
def test_stops_step_by_step_until_the_original_is_back(row: Row) -> None:
    original = [
        info_of_template(pod_set.name, pod_set.template, pod_set.count)
        for pod_set in row.adapter.pod_sets(row.job, row.lookup)
    ]
    job = row.adapter.run(row.job, infos(row, node_selector={"pool": "a"}, labels={names.PODSET: "x"}))
    job = {**job, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    for _ in range(5):
        write = pure(row.adapter.stop, job, original)
        if write is None:
            break
        if write.delete:
            assert not row.restores
            return
        job = write.obj
    assert row.adapter.is_suspended(job)
    for template in templates(row, job):
        assert "nodeSelector" not in template["spec"]
        assert names.PODSET not in labels_of(template)


@each
@pytest.mark.parametrize("success", [True, False])
def test_tells_how_it_ended(row: Row, success: bool) -> None:
    assert row.adapter.finished({**row.job, "status": row.running}) is None
    finish = pure(row.adapter.finished, {**row.job, "status": row.finished if success else row.failed})
    assert finish == ("it is over", success)


@each
def test_tells_when_pods_are_ready_and_active(row: Row) -> None:
    started = row.adapter.run(row.job, infos(row))
    assert not row.adapter.pods_ready(started)
    running = {**started, "status": row.running}
    assert row.adapter.pods_ready(running)
    assert row.adapter.is_active(running)


@each
def test_remote_copy_carries_content_and_nothing_of_its_cluster(row: Row) -> None:
    job = row.job
    path = row.adapter.managed_by_path
    if path is not None:
        job = set_in(job, path, names.MULTIKUEUE_CONTROLLER)
        assert managed_by(row.adapter, job) == names.MULTIKUEUE_CONTROLLER
    remote = pure(row.adapter.remote_object, {**job, "status": row.running}, "wl-1", "hub")
    metadata = remote["metadata"]
    assert set(metadata) == {"name", "namespace", "labels", "annotations"}
    assert metadata["labels"] == {names.QUEUE_NAME: "user-queue", names.MULTIKUEUE_ORIGIN: "hub"}
    assert prebuilt_workload(remote) == "wl-1"
    assert managed_by(row.adapter, remote) == ""
    assert "status" not in remote


@each
def test_status_comes_back_from_a_finished_copy(row: Row) -> None:
    started = row.adapter.run(row.job, infos(row))
    remote = {**started, "status": row.finished}
    synced = pure(row.adapter.sync_status, started, remote)
    assert row.adapter.finished(synced) == ("it is over", True)
    assert row.adapter.sync_status(synced, remote) is None
