"""Who runs a job: every kind with a managedBy, in one table. A new kind is one row in ROWS.

For each: without the field, and with its own operator's name, the local operator runs the job; with MultiKueue's it does
nothing at all; the field never changes; other values are refused in upstream's words or, where upstream takes any, leave the
job alone. On a manager whose queue dispatches the field is filled in, and the copy on the worker has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from corral.clusters.operators import set_up_operators
from corral.core.errors import ApiError, Forbidden, Invalid
from corral.core.meta import Obj, name_of, resource_version_of
from corral.core.resource import Resource
from corral.jobs.appwrapper.kind import APP_WRAPPERS
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorSettings
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS
from corral.jobs.framework.registry import adapter_for
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.kubeflow.kind import JAX_JOBS, PADDLE_JOBS, PYTORCH_JOBS, TF_JOBS, XGBOOST_JOBS
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.jobs.ray.kind import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICES
from corral.kinds.kueue import names
from corral.simulate.fleet import SimulatedFleet
from corral.testing import VirtualCluster, run_virtual

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
OTHER = "example.com/other"
SPEC: Path = ("spec", "managedBy")
RUN_POLICY: Path = ("spec", "runPolicy", "managedBy")
CHILDREN = (PODS, SERVICES, JOBS, JOB_SETS, RAY_CLUSTERS, CONFIG_MAPS, SECRETS, EVENTS, PLUGINS_POD_GROUPS)


def pod(container: str = "c", **spec: Any) -> Obj:
    resources = {"requests": {"cpu": "100m"}}
    return {"spec": {"containers": [{"name": container, "image": "img:1", "resources": resources}], **spec}}


@dataclass(frozen=True)
class Row:
    resource: Resource
    spec: Obj
    own: str
    path: Path = SPEC
    suspend: Path = ("spec", "suspend")
    refused: type[ApiError] | None = None
    """How another value is refused; None where upstream takes any domain-prefixed one."""
    text: str = ""
    changed: type[ApiError] = Invalid
    fixed: str = "field is immutable"

    @property
    def id(self) -> str:
        return f"{self.resource.kind} {self.resource.version}"

    def job(self, manager: str | None = None, **metadata: Any) -> Obj:
        body: Obj = {"metadata": {"name": "job", "namespace": "default", **metadata}, "spec": deepcopy(self.spec)}
        return body if manager is None else set_in(body, self.path, manager)


def training(resource: Resource, field: str, container: str, kinds: dict[str, int], own: str = "") -> Row:
    specs = {kind: {"replicas": count, "template": pod(container)} for kind, count in kinds.items()}
    own = own or "kubeflow.org/training-operator"
    return Row(
        resource,
        {"runPolicy": {"suspend": False}, field: specs},
        own,
        RUN_POLICY,
        ("spec", "runPolicy", "suspend"),
        Forbidden,
        f'spec.runPolicy.managedBy: Unsupported value: "{OTHER}": supported values: "{own}", "{MULTIKUEUE}"',
        Forbidden,
    )


RAY = {
    "headGroupSpec": {"rayStartParams": {}, "template": pod("ray-head")},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "rayStartParams": {}, "template": pod("ray-worker")}],
}
RAY_RULES: dict[str, Any] = {
    "refused": Invalid,
    "text": "the managedBy field value must be either 'ray.io/kuberay-operator' or 'kueue.x-k8s.io/multikueue'",
    "fixed": "the managedBy field is immutable",
}
JOB_SPEC = {"template": pod(restartPolicy="Never")}
RUNTIME = {
    "metadata": {"name": "rt"},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": pod("node")},
                        },
                    }
                ]
            }
        },
    },
}
PAIR = {"Master": 1, "Worker": 1}

ROWS = [
    Row(JOBS, JOB_SPEC, "kubernetes.io/job-controller"),
    Row(
        JOB_SETS,
        {"replicatedJobs": [{"name": "w", "template": {"spec": JOB_SPEC}}]},
        "jobset.sigs.k8s.io/jobset-controller",
    ),
    training(TF_JOBS, "tfReplicaSpecs", "tensorflow", {"Worker": 2}),
    training(PYTORCH_JOBS, "pytorchReplicaSpecs", "pytorch", PAIR),
    training(XGBOOST_JOBS, "xgbReplicaSpecs", "xgboost", PAIR),
    training(PADDLE_JOBS, "paddleReplicaSpecs", "paddle", PAIR),
    training(JAX_JOBS, "jaxReplicaSpecs", "jax", {"Worker": 2}),
    training(MPI_JOBS.at("v1"), "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1}),
    training(MPI_JOBS, "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1}, "kubeflow.org/mpi-operator"),
    Row(
        TRAIN_JOBS,
        {"runtimeRef": {"name": "rt"}},
        "trainer.kubeflow.org/trainjob-controller",
        refused=Invalid,
        text=f"ManagedBy must be trainer.kubeflow.org/trainjob-controller or {MULTIKUEUE} if set",
    ),
    Row(RAY_CLUSTERS, RAY, "ray.io/kuberay-operator", **RAY_RULES),
    Row(
        RAY_JOBS,
        {"entrypoint": "x", "shutdownAfterJobFinishes": True, "rayClusterSpec": RAY},
        "ray.io/kuberay-operator",
        **RAY_RULES,
    ),
    Row(
        RAY_SERVICES,
        {"serveConfigV2": "{}", "rayClusterConfig": RAY},
        "ray.io/kuberay-operator",
        suspend=("spec", "rayClusterConfig", "suspend"),
        **RAY_RULES,
    ),
    Row(
        APP_WRAPPERS,
        {
            "components": [
                {"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": JOB_SPEC}}
            ]
        },
        "workload.codeflare.dev/appwrapper-controller",
        changed=Forbidden,
    ),
]
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
Script = Callable[[VirtualCluster], Awaitable[None]]


def operated(script: Script, settings: OperatorSettings | None = None) -> None:
    """Run `script` on a cluster with every operator and their webhooks."""

    async def main() -> None:
        cluster = VirtualCluster()
        cluster._set_up = [lambda manager: cluster.api.chain.plugins.extend(set_up_operators(manager, settings))]
        async with cluster:
            await cluster.client.create(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
            await script(cluster)

    run_virtual(main)


async def around(cluster: VirtualCluster) -> list[str]:
    """Everything an operator may have made, or said."""
    found: list[str] = []
    for resource in CHILDREN:
        listed = await cluster.client.list(resource, "default")
        found += [f"{resource.kind} {name_of(obj)}" for obj in listed.items]
    return sorted(name for name in found if name != "ConfigMap kube-root-ca.crt")


@each
@pytest.mark.parametrize("manager", ["nobody", "its own operator"])
def test_the_local_operator_runs_its_own(row: Row, manager: str) -> None:
    async def script(cluster: VirtualCluster) -> None:
        await cluster.client.create(row.resource, row.job(None if manager == "nobody" else row.own))
        await cluster.settle()
        await cluster.advance(3)
        assert (await cluster.client.get(row.resource, "job", "default")).get("status")
        assert await around(cluster)

    operated(script)


@each
def test_the_local_operator_does_nothing_for_another_manager(row: Row) -> None:
    async def script(cluster: VirtualCluster) -> None:
        before = await around(cluster)
        made = await cluster.client.create(row.resource, row.job(MULTIKUEUE))
        await cluster.advance(30)
        held = await cluster.client.get(row.resource, "job", "default")
        assert resource_version_of(held) == resource_version_of(made)
        for suspended in (True, False):
            patch = set_in({}, row.suspend, suspended)
            await cluster.client.patch(row.resource, "job", "default", patch)
            await cluster.advance(30)
        held = await cluster.client.get(row.resource, "job", "default")
        assert held.get("status") == made.get("status")
        mine = [name for name in await around(cluster) if name != f"{row.resource.kind} job"]
        assert mine == [name for name in before if name != f"{row.resource.kind} job"]

    operated(script, OperatorSettings(gang_scheduler="gang"))


@each
@pytest.mark.parametrize("manager", ["none", "own", "other"])
def test_the_manager_never_changes(row: Row, manager: str) -> None:
    async def script(cluster: VirtualCluster) -> None:
        first = {"none": None, "own": row.own, "other": MULTIKUEUE}[manager]
        await cluster.client.create(row.resource, row.job(first))
        value = row.own if manager == "other" else MULTIKUEUE
        with pytest.raises(row.changed) as refused:
            await cluster.client.patch(row.resource, "job", "default", set_in({}, row.path, value))
        assert row.fixed in refused.value.message

    operated(script)


@each
def test_other_values_are_refused_in_upstreams_words(row: Row) -> None:
    async def script(cluster: VirtualCluster) -> None:
        if row.refused is None:
            await cluster.client.create(row.resource, row.job(OTHER))
            await cluster.advance(10)
            assert not (await cluster.client.get(row.resource, "job", "default")).get("status")
            return
        with pytest.raises(row.refused) as refused:
            await cluster.client.create(row.resource, row.job(OTHER))
        assert row.text in refused.value.message

    operated(script)


@pytest.mark.parametrize("value", ["no-domain", f"example.com/{'x' * 60}"], ids=["no domain", "too long"])
@pytest.mark.parametrize("resource", [JOBS, JOB_SETS], ids=lambda resource: resource.kind)
def test_a_manager_is_a_domain_prefixed_path(resource: Resource, value: str) -> None:
    row = next(row for row in ROWS if row.resource == resource)

    async def script(cluster: VirtualCluster) -> None:
        with pytest.raises(Invalid, match=r"spec\.managedBy"):
            await cluster.client.create(row.resource, row.job(value))

    operated(script)


@each
def test_filled_in_where_the_queue_dispatches_and_absent_on_the_mirror(row: Row) -> None:
    async def main() -> None:
        async with SimulatedFleet(("worker1",)) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            for cluster in fleet.clusters:
                await cluster.client.create(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
            await asyncio.sleep(1)
            made = await fleet.manager.client.create(row.resource, row.job(labels={names.QUEUE_NAME: "user-queue"}))
            assert get_in(made, row.path) == MULTIKUEUE
            await asyncio.sleep(5)
            mirror = await fleet.workers["worker1"].client.get(row.resource, "job", "default")
            # TrainJob's definition fills in its own operator wherever nobody is named.
            assert get_in(mirror, row.path) in (None, row.own)
            assert mirror["metadata"]["labels"][names.MULTIKUEUE_ORIGIN]
            adapter = adapter_for(row.resource)
            assert adapter is not None
            assert get_in(adapter.remote_object(made, "w", "multikueue"), row.path) is None
            assert not (await fleet.manager.client.list(PODS, "default")).items

    run_virtual(main)


def test_the_gate_lets_the_job_operator_take_every_job() -> None:
    async def script(cluster: VirtualCluster) -> None:
        await cluster.client.create(JOBS, ROWS[0].job(MULTIKUEUE))
        await cluster.advance(3)
        assert len((await cluster.client.list(PODS, "default")).items) == 1

    operated(script, OperatorSettings(features={"JobManagedBy": False}))


@pytest.mark.parametrize("row", [row for row in ROWS if row.path == RUN_POLICY], ids=lambda row: row.id)
def test_without_the_gate_nobody_names_the_manager_of_a_training_job(row: Row) -> None:
    text = "spec.runPolicy.managedBy: Forbidden: may only be set where the feature JobManagedBy"

    async def script(cluster: VirtualCluster) -> None:
        for manager in (row.own, MULTIKUEUE):
            with pytest.raises(Forbidden) as refused:
                await cluster.client.create(row.resource, row.job(manager))
            assert text in refused.value.message
        await cluster.client.create(row.resource, row.job())

    operated(script, OperatorSettings(features={"JobManagedBy": False}))
