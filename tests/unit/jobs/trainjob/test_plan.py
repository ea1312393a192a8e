"""What a TrainJob's containers are told, and how it is counted without that."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.jobs.trainjob.frameworks import processes_per_node, with_device_limits
from corral.jobs.trainjob.plan import compose, counted_job_set
from corral.jobs.trainjob.view import Training

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def replicated(name: str, step: str, resources: Obj | None = None) -> Obj:
    container = {"name": "node", "image": "i", "resources": resources or {}}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    return {"name": name, "template": {"metadata": {"labels": {STEP: step}}, **template}}


def training(policy: Obj, resources: Obj | None = None, **trainer: Any) -> Training:
    runtime = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [replicated("node", "trainer", resources)]}}}
    metadata = {"name": "t", "namespace": "default", "uid": "u"}
    body: Obj = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata}
    return Training({**body, "spec": {"trainer": trainer}}, {"spec": runtime})


def container_of(job_set: Obj) -> Obj:
    (job,) = job_set["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        pytest.param({}, [], id="plain"),
        pytest.param(
            {"torch": {}},
            ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"],
            id="torch",
        ),
        pytest.param({"jax": {}}, ["JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"], id="jax"),
        pytest.param(
            {"xgboost": {}},
            ["DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"],
            id="xgboost",
        ),
    ],
)
def test_containers_are_told_by_their_framework_and_counted_without(policy: Obj, names: list[str]) -> None:
    subject = training(policy)
    told = container_of(compose(subject.job, subject.runtime).job_set)
    counted = container_of(counted_job_set(subject.job, subject.runtime))
    assert [entry["name"] for entry in told.get("env") or ()] == names
    assert ("ports" in told) is bool(names)
    assert {"env", "ports"}.isdisjoint(counted)


@pytest.mark.parametrize(
    ("torch", "resources", "trainer", "expected"),
    [
        pytest.param({}, {}, {}, "1", id="nothing is known"),
        pytest.param({}, {"requests": {"cpu": "2500m"}}, {}, "3", id="one per cpu, rounded up"),
        pytest.param({}, {"limits": {"nvidia.com/gpu": 2}}, {}, "auto", id="one per gpu"),
        pytest.param(
            {"numProcPerNode": "cpu"}, {"limits": {"nvidia.com/gpu": 2, "cpu": 4}}, {}, "4", id="cpus by wish"
        ),
        pytest.param({"numProcPerNode": 5}, {}, {}, "5", id="as the runtime says"),
        pytest.param({"numProcPerNode": 5}, {}, {"numProcPerNode": 7}, "7", id="as the TrainJob says"),
        pytest.param(
            {}, {"requests": {"cpu": 8}}, {"resourcesPerNode": {"requests": {"cpu": 2}}}, "2", id="own resources"
        ),
    ],
)
def test_processes_per_node(torch: Obj, resources: Obj, trainer: Obj, expected: str) -> None:
    subject = training({"torch": torch}, **trainer)
    assert processes_per_node(subject, replicated("node", "trainer", resources)) == expected


@pytest.mark.parametrize(
    ("elastic", "expected"),
    [({}, "3"), ({"minNodes": 1, "maxNodes": 4}, "1:4"), ({"minNodes": 2}, "2:3"), ({"maxNodes": 5}, "3:5")],
)
def test_elastic_sizes(elastic: Obj, expected: str) -> None:
    subject = training({"torch": {"elasticPolicy": elastic}}, numNodes=3)
    env = container_of(compose(subject.job, subject.runtime).job_set)["env"]
    assert env[0] == {"name": "PET_NNODES", "value": expected}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": 1}}, {"requests": {"cpu": 1}}),
        ({"requests": {"a/gpu": 1}}, {"requests": {"a/gpu": 1}, "limits": {"a/gpu": 1}}),
        (
            {"requests": {"a/gpu": 1}, "limits": {"a/gpu": 2}},
            {"requests": {"a/gpu": 1}, "limits": {"a/gpu": 2}},
        ),
    ],
)
def test_requests_for_devices_are_limits_too(resources: Obj, expected: Obj) -> None:
    assert with_device_limits(resources) == expected
