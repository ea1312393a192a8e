"""A Job's way through queueing, from suspended to finished."""

from __future__ import annotations

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.core.meta import spec_of
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.virtual import run_virtual

from .test_missing_kinds import registry_without
from .world import PODS, World, cluster_queue, condition, fill, flavor, job, local_queue


def test_job_is_admitted_started_and_finished() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(nodeLabels={"gpu": "h100"}), cluster_queue(), local_queue(), job())
            workload = await world.workload_of("sample")
            assert condition(workload, "QuotaReserved") == (
                "True",
                "QuotaReserved",
                "Quota reserved in ClusterQueue cq",
            )
            assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
            started = await world.job("sample")
            assert started["spec"]["suspend"] is False
            template = started["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"gpu": "h100"}
            assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
            assert template["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cq"
            assert template["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]
            await world.finish_job("sample")
            workload = await world.workload_of("sample")
            assert condition(workload, "Finished") == (
                "True",
                "Succeeded",
                "Reached expected number of succeeded pods",
            )
            assert "finalizers" not in workload["metadata"]

    run_virtual(main)


@pytest.mark.parametrize(("kind", "held"), [("Job", False), ("Job", True), ("Pod", False)])
def test_the_workload_of_a_job_that_goes_ends_also_where_nobody_takes_the_job_off_its_owners(
    kind: str, held: bool
) -> None:
    """No garbage collector has heard of Workloads yet, or it is far behind."""

    async def main() -> None:
        config = QueueingConfig(frameworks=("batch/job", "pod"))
        async with World(config, lifecycle=False) as world:
            resource, owner = job("sample")
            if kind == "Pod":
                metadata = {"name": "sample", "namespace": "default", "labels": {names.QUEUE_NAME: "lq"}}
                resource, owner = PODS, {"metadata": metadata, "spec": spec_of(owner)["template"]["spec"]}
            owner["metadata"]["finalizers"] = ["example.com/held"] if held else []
            await fill(world, flavor(), cluster_queue(), local_queue(), (resource, owner))
            await world.client.delete(resource, "sample", "default")
            await world.advance(10)
            (workload,) = await world.workloads()
            assert condition(workload, "Finished") == (
                "True",
                "OwnerNotFound",
                "The workload's owner no longer exists",
            )
            assert "finalizers" not in workload["metadata"]

    run_virtual(main)


def test_a_job_of_a_kind_that_is_not_served_is_not_taken_for_gone() -> None:
    async def main() -> None:
        config = QueueingConfig(frameworks=("batch/job", "jobset.x-k8s.io/jobset"))
        async with World(config, lifecycle=False, registry=registry_without("jobset.x-k8s.io")) as world:
            owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": "u"}
            metadata = {
                "name": "w",
                "namespace": "default",
                "ownerReferences": [{**owner, "controller": True}],
                "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            }
            template = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
            pod_sets = [{"name": "main", "count": 1, "template": template}]
            workload = {"metadata": metadata, "spec": {"queueName": "lq", "podSets": pod_sets}}
            await fill(world, flavor(), cluster_queue(), local_queue(), (WORKLOADS, workload))
            await world.advance(10)
            (found,) = await world.workloads()
            assert condition(found, "Admitted") is not None
            assert condition(found, "Finished") is None

    run_virtual(main)
