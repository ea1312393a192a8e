"""What every job adapter promises, checked for each kind by the same tests. A new kind is one row in ROWS."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from corral.core.meta import Key, Obj, labels_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter, Lookup, managed_by, prebuilt_workload, queue_name
from corral.jobs.framework.paths import get_in, set_in
from corral.jobs.framework.registry import adapter, frameworks
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES
from corral.kinds.kueue import names
from corral.workload.podsets import ConflictingUpdate, PodSetInfo, info_of_template

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
    finished: Obj | None
    """Status of a successful end; None for kinds that run until they are deleted."""
    failed: Obj | None
    running: Obj
    """Status with all pods ready."""
    known: dict[tuple[Resource, Key], Obj] = field(default_factory=dict)
    templates: list[tuple[str | int, ...]] = field(default_factory=lambda: [("spec", "template")])
    restores: bool = True
    """Whether a stopped job can be started again."""
    messages: tuple[str, str] = ("it is over", "it is over")

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


def training(kind: str, framework: str, field_name: str, types: dict[str, int], version: str = "v1") -> Row:
    """A row for a kind of the training operator."""
    specs = {name: {"replicas": count, "template": POD} for name, count in types.items()}
    spec = {"runPolicy": {"suspend": True}, field_name: specs}
    return Row(
        f"kubeflow.org/{framework}",
        job_of(f"kubeflow.org/{version}", kind, spec),
        {name.lower(): count for name, count in types.items()},
        finished=ended("Succeeded"),
        failed=ended("Failed"),
        running={"conditions": [{"type": "Running", "status": "True"}], "replicaStatuses": {"Worker": {"active": 1}}},
        templates=[("spec", field_name, name, "template") for name in types],
    )


RAY_GROUPS = {
    "headGroupSpec": {"rayStartParams": {}, "template": POD},
    "workerGroupSpecs": [{"groupName": "small", "replicas": 2, "numOfHosts": 2, "rayStartParams": {}, "template": POD}],
}
RUNTIME = {
    "metadata": {"name": "torch"},
    "spec": {
        "mlPolicy": {"numNodes": 1},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "pytorch"}]}}},
                        },
                    }
                ]
            }
        },
    },
}
REPLICATED = [
    {"name": "leader", "replicas": 1, "template": {"spec": {"template": POD}}},
    {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 3, "template": POD}}},
]
WRAPPED = {
    "podSets": [{"replicas": 2, "path": "template.spec.template"}],
    "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 2, "template": POD}},
}
OUR_PATCH = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": {}}}}

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
    training("TFJob", "tfjob", "tfReplicaSpecs", {"Chief": 1, "PS": 2, "Worker": 3}),
    training("PyTorchJob", "pytorchjob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("XGBoostJob", "xgboostjob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("PaddleJob", "paddlejob", "paddleReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("JAXJob", "jaxjob", "jaxReplicaSpecs", {"Worker": 2}),
    training("MPIJob", "mpijob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}, "v2beta1"),
    Row(
        "jobset.x-k8s.io/jobset",
        job_of("jobset.x-k8s.io/v1alpha2", "JobSet", {"suspend": True, "replicatedJobs": REPLICATED}),
        {"leader": 1, "workers": 6},
        finished=ended("Completed"),
        failed=ended("Failed"),
        running={
            "replicatedJobsStatus": [
                {"name": "leader", "ready": 1, "active": 1},
                {"name": "workers", "ready": 2, "active": 2},
            ]
        },
        templates=[("spec", "replicatedJobs", index, "template", "spec", "template") for index in (0, 1)],
    ),
    Row(
        "trainer.kubeflow.org/trainjob",
        job_of(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {
                "suspend": True,
                "runtimeRef": {"name": "torch", "kind": "ClusterTrainingRuntime"},
                "trainer": {"numNodes": 2},
                "runtimePatches": [OUR_PATCH],
            },
        ),
        {"node": 2},
        finished=ended("Complete"),
        failed=ended("Failed"),
        running={"jobsStatus": [{"name": "node", "ready": 1, "active": 1}]},
        known={(CLUSTER_TRAINING_RUNTIMES, Key("", "torch")): RUNTIME},
        templates=[],
    ),
    Row(
        "ray.io/raycluster",
        job_of("ray.io/v1", "RayCluster", {"suspend": True, **RAY_GROUPS}),
        {"head": 1, "small": 4},
        finished=None,
        failed={"state": "failed", "reason": "it is over"},
        running={"state": "ready"},
        templates=[("spec", "headGroupSpec", "template"), ("spec", "workerGroupSpecs", 0, "template")],
    ),
    Row(
        "ray.io/rayjob",
        job_of(
            "ray.io/v1",
            "RayJob",
            {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": RAY_GROUPS},
        ),
        {"head": 1, "small": 4, "submitter": 1},
        finished={"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "message": "it is over"},
        failed={"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": "it is over"},
        running={"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"},
        templates=[
            ("spec", "rayClusterSpec", "headGroupSpec", "template"),
            ("spec", "rayClusterSpec", "workerGroupSpecs", 0, "template"),
        ],
    ),
    Row(
        "ray.io/rayservice",
        job_of("ray.io/v1", "RayService", {"rayClusterConfig": {"suspend": True, **RAY_GROUPS}}),
        {"head": 1, "small": 4},
        finished=None,
        failed=None,
        running={"serviceStatus": "Running", "activeServiceStatus": {"rayClusterName": "c"}},
        templates=[
            ("spec", "rayClusterConfig", "headGroupSpec", "template"),
            ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "template"),
        ],
    ),
    Row(
        "workload.codeflare.dev/appwrapper",
        job_of("workload.codeflare.dev/v1beta2", "AppWrapper", {"suspend": True, "components": [WRAPPED]}),
        {"sample-0": 2},
        finished={"phase": "Succeeded"},
        failed={"phase": "Failed"},
        running={
            "phase": "Running",
            "conditions": [{"type": c, "status": "True"} for c in ("PodsReady", "QuotaReserved")],
        },
        templates=[],
        messages=("AppWrapper finished successfully", "AppWrapper failed"),
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
    if not row.templates:
        pytest.skip("its templates are elsewhere and merged there")
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
    status = row.finished if success else row.failed
    if status is None:
        pytest.skip("the kind runs until it is deleted")
    finish = pure(row.adapter.finished, {**row.job, "status": status})
    assert finish == (row.messages[0 if success else 1], success)


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
    remote = {**started, "status": row.running if row.finished is None else row.finished}
    synced = pure(row.adapter.sync_status, started, remote)
    assert row.finished is None or row.adapter.finished(synced) == (row.messages[0], True)
    assert row.adapter.sync_status(synced, remote) is None


def test_every_adapter_has_a_row() -> None:
    assert {row.framework for row in ROWS} == set(frameworks())
