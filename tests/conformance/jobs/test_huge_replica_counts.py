"""Manifests that ask for two billion replicas: no kind hangs on them or holds more than a step of them at a time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, template

from corral.clusters.operators import operator_plugins
from corral.core import conditions
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.decide.pods import growth
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.jobset.operator import JobSetController
from corral.jobs.kubeflow.kind import JAX_JOBS, PADDLE_JOBS, PYTORCH_JOBS, TF_JOBS, XGBOOST_JOBS
from corral.jobs.kubeflow.operator import training_controllers
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.jobs.leader_worker_set.operator import LeaderWorkerSetController
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.jobs.mpijob.operator import MpiJobController
from corral.jobs.stateful_set.operator import StatefulSetController
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS, SERVICES

MANY = 2**31 - 1
STEP, WAITING = 20, 50
GROWN_MB = 32


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules with smaller numbers: a step of five hundred takes a while to make."""
    monkeypatch.setattr("corral.jobs.framework.growth_pacing.STEP", STEP)
    monkeypatch.setattr(growth, "MOST_WAITING", WAITING)


def job_set() -> Obj:
    inner = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    return {"spec": {"replicatedJobs": [{"name": "w", "replicas": MANY, "template": {"spec": inner}}]}}


def training(field: str, container: str, **kinds: int) -> Obj:
    return {
        "spec": {field: {kind: {"replicas": count, "template": template(container)} for kind, count in kinds.items()}}
    }


def mpi() -> Obj:
    return training("mpiReplicaSpecs", "c", Launcher=1, Worker=MANY)


def lws(replicas: int = 10**6, size: int = 1, **spec: Any) -> Obj:
    """As many replicas as are let in."""
    inner = {"size": size, "workerTemplate": template("w")}
    return {"spec": {"replicas": replicas, "leaderWorkerTemplate": inner, **spec}}


def stateful_set() -> Obj:
    labels = {"app": "s"}
    pods = {**template(), "metadata": {"labels": labels}}
    return {
        "spec": {
            "replicas": MANY,
            "serviceName": "s",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": pods,
        }
    }


def controllers(cluster: Any) -> list[Any]:
    kinds = (JobSetController, LeaderWorkerSetController, StatefulSetController, MpiJobController)
    known = [kind(cluster.manager) for kind in kinds]
    return [*known, *training_controllers(cluster.manager)]


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


def played(script: Callable[[Stage], Any]) -> None:
    """Play, and look at how much memory it took."""
    tracemalloc.start()
    try:
        play(controllers, script, plugins=plugins)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < GROWN_MB << 20


GROWING = [
    pytest.param(JOB_SETS, job_set(), JOBS, id="JobSet"),
    pytest.param(
        PYTORCH_JOBS, training("pytorchReplicaSpecs", "pytorch", Master=1, Worker=MANY), PODS, id="PyTorchJob"
    ),
    pytest.param(PADDLE_JOBS, training("paddleReplicaSpecs", "paddle", Worker=MANY), PODS, id="PaddleJob"),
    pytest.param(JAX_JOBS, training("jaxReplicaSpecs", "jax", Worker=MANY), PODS, id="JAXJob"),
    pytest.param(LEADER_WORKER_SETS, lws(), PODS, id="LeaderWorkerSet"),
    pytest.param(
        LEADER_WORKER_SETS,
        lws(networkConfig={"subdomainPolicy": "UniquePerReplica"}),
        PODS,
        id="LeaderWorkerSet with a service each",
    ),
    pytest.param(STATEFUL_SETS, stateful_set(), PODS, id="StatefulSet"),
]


@pytest.mark.parametrize(("resource", "body", "children"), GROWING)
def test_children_are_made_a_step_at_a_time_until_enough_of_them_wait(
    resource: Resource, body: Obj, children: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.jobs.leader_worker_set.operator.STEP", STEP)

    async def script(stage: Stage) -> None:
        await stage.create(resource, {**body, "metadata": {"name": "many"}})
        assert len(await stage.names(children)) == STEP
        await stage.pass_time(1.1)
        assert len(await stage.names(children)) == 2 * STEP
        await stage.pass_time(60)
        assert len(await stage.names(children)) == WAITING
        assert len(await stage.names(SERVICES)) <= WAITING + STEP + 1
        if children is PODS:
            await stage.run()
            await stage.pass_time(2)
            assert len(await stage.names(PODS)) > WAITING  # those that started make room

    played(script)


def test_a_group_of_very_many_workers_grows_likewise() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, {**lws(1, MANY), "metadata": {"name": "many"}})
        assert len(await stage.names(PODS)) == 1 + STEP
        await stage.pass_time(60)
        assert len(await stage.names(PODS)) == 1 + WAITING

    played(script)


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        pytest.param(TF_JOBS, training("tfReplicaSpecs", "tensorflow", Worker=MANY), id="TFJob"),
        pytest.param(XGBOOST_JOBS, training("xgbReplicaSpecs", "xgboost", Master=1, Worker=MANY), id="XGBoostJob"),
    ],
)
def test_a_job_whose_pods_could_not_be_told_of_each_other_fails_and_says_so(resource: Resource, body: Obj) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource, {**body, "metadata": {"name": "many"}})
        await stage.pass_time(5)
        failed = conditions.find(await stage.get(resource, "many"), "Failed")
        assert failed is not None
        assert "addresses of all its replicas" in failed["message"]
        assert await stage.names(PODS) == []

    played(script)


def test_hosts_that_do_not_fit_into_a_config_map_are_an_error_of_the_job() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, {**mpi(), "metadata": {"name": "many"}})
        await stage.pass_time(5)
        events = (await stage.client.list(EVENTS, "default")).items
        assert any("do not fit into the ConfigMap" in event["message"] for event in events)
        assert await stage.names(PODS) == []

    played(script)
