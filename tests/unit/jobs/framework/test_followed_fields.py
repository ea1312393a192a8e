"""Which change of which kind follows a job to the worker that runs it, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.jobs.framework.followed_fields import changes as changes_of
from corral.jobs.framework.paths import get_in, set_in
from corral.jobs.framework.registry import dispatched_adapters
from corral.kinds.kueue import names

RUN_POLICY_KINDS = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
FOLLOWS = [
    ("Job", "spec.activeDeadlineSeconds", 60, 90),
    ("Job", "spec.activeDeadlineSeconds", 60, None),
    ("Job", "spec.backoffLimit", 6, 0),
    *[(kind, "spec.runPolicy.activeDeadlineSeconds", None, 90) for kind in RUN_POLICY_KINDS],
    *[(kind, "spec.runPolicy.backoffLimit", 3, 5) for kind in RUN_POLICY_KINDS],
    ("RayJob", "spec.activeDeadlineSeconds", 60, 90),
    ("RayService", "spec.serveConfigV2", "a", "b"),
    ("StatefulSet", "spec.replicas", 2, 3),
    ("StatefulSet", "spec.minReadySeconds", 0, 5),
    ("LeaderWorkerSet", "spec.replicas", 2, 3),
    ("Pod", "spec.activeDeadlineSeconds", None, 90),
]
STAYS = [
    ("Job", "spec.parallelism", 2, 3),
    ("Job", "spec.completions", 2, 3),
    ("Job", "spec.suspend", False, True),
    ("Job", "spec.ttlSecondsAfterFinished", None, 5),
    ("Job", "spec.backoffLimit", 6, None),
    ("JobSet", "spec.suspend", False, True),
    ("TrainJob", "spec.suspend", False, True),
    ("AppWrapper", "spec.suspend", False, True),
    ("RayCluster", "spec.suspend", False, True),
    ("PyTorchJob", "spec.runPolicy.suspend", False, True),
    ("StatefulSet", "spec.serviceName", "a", "b"),
]


def changes(local: Obj, remote: Obj, workload: str) -> Obj | None:
    (adapter,) = [found for found in dispatched_adapters() if found.resource.kind == local["kind"]]
    return changes_of(adapter, local, remote, workload)


def path_of(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


def job(kind: str, path: str, value: Any) -> Obj:
    empty: Obj = {"kind": kind, "metadata": {"name": "a"}, "spec": {"runPolicy": {}}}
    return set_in(empty, path_of(path), value)


@pytest.mark.parametrize(("kind", "path", "before", "after"), FOLLOWS)
def test_a_change_that_follows(kind: str, path: str, before: Any, after: Any) -> None:
    patch = changes(job(kind, path, after), job(kind, path, before), "w")
    assert patch is not None
    held: Any = patch
    for step in path_of(path):
        held = held[step]
    assert held == after
    assert changes(job(kind, path, after), job(kind, path, after), "w") is None


@pytest.mark.parametrize(("kind", "path", "before", "after"), STAYS)
def test_a_change_that_stays_on_the_manager(kind: str, path: str, before: Any, after: Any) -> None:
    assert changes(job(kind, path, after), job(kind, path, before), "w") is None


@pytest.mark.parametrize("path", ["spec.parallelism", "spec.completions"])
def test_an_elastic_job_takes_its_size_and_its_slice_along(path: str) -> None:
    local, remote = job("Job", path, 4), job("Job", path, 2)
    local["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    remote["metadata"]["annotations"] = {names.ELASTIC_JOB: "true", names.PREBUILT_WORKLOAD: "slice-1"}
    patch = changes(local, remote, "slice-2")
    assert get_in(patch, path_of(path)) == 4
    assert get_in(patch, ("metadata", "annotations")) == {names.PREBUILT_WORKLOAD: "slice-2"}


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob", "PyTorchJob", "StatefulSet", "LeaderWorkerSet", "Pod"])
def test_the_priority_class_follows_for_every_kind(kind: str) -> None:
    local: Obj = {"kind": kind, "metadata": {"labels": {names.PRIORITY_CLASS: "high", "team": "a"}}}
    remote: Obj = {"kind": kind, "metadata": {"labels": {names.PRIORITY_CLASS: "low", "team": "b"}}}
    assert changes(local, remote, "w") == {"metadata": {"labels": {names.PRIORITY_CLASS: "high"}}}
    assert changes({"kind": kind, "metadata": {}}, remote, "w") == {
        "metadata": {"labels": {names.PRIORITY_CLASS: None}}
    }


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("StatefulSet", "spec.template"),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.workerTemplate"),
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.leaderTemplate"),
    ],
)
def test_images_of_serving_kinds_are_rolled_out_and_nothing_else_of_the_template(kind: str, path: str) -> None:
    local = job(kind, path, {"spec": {"containers": [{"name": "c", "image": "new", "command": ["a"]}]}})
    injected = {"name": "c", "image": "old", "env": [{"name": "A"}]}
    remote = job(kind, path, {"spec": {"containers": [injected], "nodeSelector": {"a": "b"}}})
    patch = changes(local, remote, "w")
    assert patch == set_in({}, (*path_of(path), "spec", "containers"), [{**injected, "image": "new"}])
