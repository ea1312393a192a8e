"""The manifests of the published pages on multi-cluster Kubeflow jobs, as they are printed there."""

from __future__ import annotations

import asyncio

import pytest
from tests.published import published

from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import Obj, spec_of, status_of
from corral.jobs.kubeflow.kind import PYTORCH_JOBS, TF_JOBS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet


async def make_queue(cluster: SimulatedCluster, *, checks: list[str]) -> None:
    amounts = {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": "gpu", "resources": resources}]}
    spec: Obj = {"namespaceSelector": {}, "resourceGroups": [group]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    await cluster.client.create(RESOURCE_FLAVORS, {"metadata": {"name": "gpu"}, "spec": {}})
    await cluster.client.create(CLUSTER_QUEUES, {"metadata": {"name": "multikueue"}, "spec": spec})
    queue = {"metadata": {"name": "multikueue-queue", "namespace": "default"}, "spec": {"clusterQueue": "multikueue"}}
    await cluster.client.create(LOCAL_QUEUES, queue)


async def set_up(fleet: SimulatedFleet) -> None:
    await fleet.introduce()
    await make_queue(fleet.manager, checks=["multikueue"])
    for worker in fleet.workers.values():
        await make_queue(worker, checks=[])
    for cluster in fleet.clusters:
        await cluster.client.create(CLUSTER_TRAINING_RUNTIMES, published("cluster-training-runtime"))
    await asyncio.sleep(1)


def test_the_train_job_is_managed_by_multikueue_on_the_manager_and_runs_on_a_worker() -> None:
    async def main() -> None:
        async with SimulatedFleet() as fleet:
            await set_up(fleet)
            await fleet.manager.client.create(TRAIN_JOBS, published("trainjob"))
            await asyncio.sleep(2)
            local = await fleet.manager.client.get(TRAIN_JOBS, "pytorch-multikueue", "default")
            assert spec_of(local)["managedBy"] == "kueue.x-k8s.io/multikueue"
            (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
            worker = fleet.workers[status_of(workload)["clusterName"]]
            mirror = await worker.client.get(TRAIN_JOBS, "pytorch-multikueue", "default")
            assert spec_of(mirror).get("managedBy") in (None, "trainer.kubeflow.org/trainjob-controller")
            assert len((await worker.client.list(PODS)).items) == 2
            assert (await fleet.manager.client.list(PODS)).items == []

    run_virtual(main)


def test_the_tf_job_with_its_replicas_inside_the_run_policy_is_refused_with_the_place_they_belong() -> None:
    async def main() -> None:
        async with SimulatedFleet() as fleet:
            with pytest.raises(ApiError, match=r"move spec\.runPolicy\.tfReplicaSpecs to spec\.tfReplicaSpecs"):
                await fleet.manager.client.create(TF_JOBS, published("tfjob"))

    run_virtual(main)


def test_the_tf_job_put_right_is_dispatched_and_its_managed_by_stays() -> None:
    async def main() -> None:
        async with SimulatedFleet() as fleet:
            await set_up(fleet)
            manifest = published("tfjob")
            manifest["spec"]["tfReplicaSpecs"] = manifest["spec"]["runPolicy"].pop("tfReplicaSpecs")
            manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "multikueue-queue"}
            await fleet.manager.client.create(TF_JOBS, manifest)
            await asyncio.sleep(2)
            (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
            assert conditions.is_true(workload, "Admitted")
            change = {"spec": {"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}}
            with pytest.raises(ApiError, match="immutable"):
                await fleet.manager.client.patch(TF_JOBS, "example-tfjob", "default", change)

    run_virtual(main)


def test_a_job_outside_any_queue_has_the_training_operator_as_its_manager() -> None:
    async def main() -> None:
        async with SimulatedFleet() as fleet:
            template = {"spec": {"containers": [{"name": "pytorch", "image": "busybox", "command": ["true"]}]}}
            specs = {"Master": {"replicas": 1, "template": template}}
            job = {"metadata": {"name": "plain", "namespace": "default"}, "spec": {"pytorchReplicaSpecs": specs}}
            worker = fleet.workers["worker1"]
            created = await worker.client.create(PYTORCH_JOBS, job)
            assert "managedBy" not in (spec_of(created).get("runPolicy") or {})
            await asyncio.sleep(3)
            assert len((await worker.client.list(PODS)).items) == 1

    run_virtual(main)
