"""Which change of which kind follows a job to the worker that runs it, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.followed_fields import changes as changes_of
from corral.jobs.framework.followed_fields import with_size
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


def adapter_of(job: Obj) -> JobAdapter:
    (adapter,) = [found for found in dispatched_adapters() if found.resource.kind == job["kind"]]
    return adapter


def changes(local: Obj, remote: Obj) -> Obj:
    return changes_of(adapter_of(local), local, remote)


def resizing(local: Obj, remote: Obj, workload: str, *pods: int) -> Obj:
    """What is asked of the remote job while `workload`, of so many pods, is looked at."""
    pod_sets = [{"name": str(position), "count": count} for position, count in enumerate(pods)]
    return with_size(
        {}, adapter_of(local), local, remote, {"metadata": {"name": workload}, "spec": {"podSets": pod_sets}}
    )


def path_of(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


def job(kind: str, path: str, value: Any) -> Obj:
    empty: Obj = {"kind": kind, "metadata": {"name": "a"}, "spec": {"runPolicy": {}}}
    return set_in(empty, path_of(path), value)


@pytest.mark.parametrize(("kind", "path", "before", "after"), FOLLOWS)
def test_a_change_that_follows(kind: str, path: str, before: Any, after: Any) -> None:
    patch = changes(job(kind, path, after), job(kind, path, before))
    held: Any = patch
    for step in path_of(path):
        held = held[step]
    assert held == after
    assert changes(job(kind, path, after), job(kind, path, after)) == {}


@pytest.mark.parametrize(("kind", "path", "before", "after"), STAYS)
def test_a_change_that_stays_on_the_manager(kind: str, path: str, before: Any, after: Any) -> None:
    assert changes(job(kind, path, after), job(kind, path, before)) == {}


ELASTIC = {names.ELASTIC_JOB: "true"}


def sized(replicas: int, hosts: int = 1, *, held: str = "", elastic: bool = True) -> Obj:
    """A RayCluster with a head and one group, run by the Workload `held`."""
    template: Obj = {"spec": {"containers": [{"name": "ray"}]}}
    group = {"groupName": "small", "replicas": replicas, "numOfHosts": hosts, "template": template}
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]}
    annotations = {**(ELASTIC if elastic else {}), **({names.PREBUILT_WORKLOAD: held} if held else {})}
    return {"kind": "RayCluster", "metadata": {"name": "a", "annotations": annotations}, "spec": spec}


def sizes(patch: Obj) -> list[tuple[int, int]]:
    return [(group["replicas"], group["numOfHosts"]) for group in get_in(patch, ("spec", "workerGroupSpecs"), [])]


@pytest.mark.parametrize("path", ["spec.parallelism", "spec.completions"])
def test_an_elastic_job_takes_its_size_and_its_slice_along(path: str) -> None:
    local, remote = job("Job", path, 4), job("Job", path, 2)
    local["metadata"]["annotations"] = ELASTIC
    remote["metadata"]["annotations"] = {**ELASTIC, names.PREBUILT_WORKLOAD: "slice-1"}
    patch = resizing(local, remote, "slice-2", 4)
    assert get_in(patch, path_of(path)) == 4
    assert get_in(patch, ("metadata", "annotations")) == {names.PREBUILT_WORKLOAD: "slice-2"}


def test_an_elastic_job_that_has_grown_waits_for_its_larger_slice() -> None:
    local, remote = job("Job", "spec.parallelism", 4), job("Job", "spec.parallelism", 2)
    local["metadata"]["annotations"] = ELASTIC
    remote["metadata"]["annotations"] = {**ELASTIC, names.PREBUILT_WORKLOAD: "slice-1"}
    assert resizing(local, remote, "slice-1", 2) == {}


def test_an_elastic_job_is_resized_while_its_status_waits_for_the_managers_to_start() -> None:
    local, remote = job("Job", "spec.parallelism", 1), job("Job", "spec.parallelism", 3)
    local["metadata"]["annotations"], local["spec"]["suspend"] = ELASTIC, True
    remote["metadata"]["annotations"] = {**ELASTIC, names.PREBUILT_WORKLOAD: "slice-1"}
    remote["status"] = {"active": 3, "startTime": "2026-01-01T00:00:00Z"}
    waiting = adapter_of(local).sync_status(local, remote)
    assert waiting is not None
    assert set(waiting["status"]) == {"conditions"}
    assert adapter_of(local).sync_status(waiting, remote) is None
    assert resizing(waiting, remote, "slice-1", 3) == {"spec": {"parallelism": 1}}


def test_the_groups_of_an_elastic_ray_cluster_shrink_with_its_slice() -> None:
    patch = resizing(sized(1), sized(3, held="slice-1"), "slice-1", 1, 3)
    assert sizes(patch) == [(1, 1)]
    assert "metadata" not in patch


def test_the_hosts_of_a_group_follow() -> None:
    patch = resizing(sized(2, 1), sized(2, 2, held="slice-1"), "slice-1", 1, 4)
    assert sizes(patch) == [(2, 1)]


def test_the_groups_of_an_elastic_ray_cluster_grow_with_their_larger_slice_only() -> None:
    grown, held = sized(4), sized(2, held="slice-1")
    assert resizing(grown, held, "slice-1", 1, 2) == {}
    patch = resizing(grown, held, "slice-2", 1, 4)
    assert sizes(patch) == [(4, 1)]
    assert get_in(patch, ("metadata", "annotations")) == {names.PREBUILT_WORKLOAD: "slice-2"}


def test_a_ray_cluster_that_is_not_elastic_keeps_its_size() -> None:
    local, remote = sized(4, elastic=False), sized(2, held="w", elastic=False)
    assert resizing(local, remote, "w", 1, 2) == {} == changes(local, remote)


def test_what_the_worker_added_to_a_group_stays_when_it_is_resized() -> None:
    remote = sized(3, held="slice-1")
    remote["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"] = {"pool": "gpu"}
    (group,) = get_in(resizing(sized(1), remote, "slice-1", 1, 3), ("spec", "workerGroupSpecs"))
    assert group["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob", "PyTorchJob", "StatefulSet", "LeaderWorkerSet", "Pod"])
def test_the_priority_class_follows_for_every_kind(kind: str) -> None:
    local: Obj = {"kind": kind, "metadata": {"labels": {names.PRIORITY_CLASS: "high", "team": "a"}}}
    remote: Obj = {"kind": kind, "metadata": {"labels": {names.PRIORITY_CLASS: "low", "team": "b"}}}
    assert changes(local, remote) == {"metadata": {"labels": {names.PRIORITY_CLASS: "high"}}}
    assert changes({"kind": kind, "metadata": {}}, remote) == {"metadata": {"labels": {names.PRIORITY_CLASS: None}}}


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
    patch = changes(local, remote)
    assert patch == set_in({}, (*path_of(path), "spec", "containers"), [{**injected, "image": "new"}])
