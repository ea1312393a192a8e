"""Dispatched jobs in queues with a topology: workers find the places, the manager admits."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import run_on_fleet

from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

from .test_job_flow import job

LEVEL = "kubernetes.io/hostname"
TOPOLOGY: Obj = {"metadata": {"name": "hosts"}, "spec": {"levels": [{"nodeLabel": LEVEL}]}}
PLACED: Obj = {
    "metadata": {"name": "placed"},
    "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "hosts"},
}


async def place(cluster: SimulatedCluster) -> None:
    """Give a cluster's queue a flavor with a topology."""
    await cluster.client.create(TOPOLOGIES, TOPOLOGY)
    await cluster.client.create(RESOURCE_FLAVORS, PLACED)
    resources = [{"name": "cpu", "nominalQuota": "8"}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "placed", "resources": resources}]}
    await cluster.client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"resourceGroups": [group]}})


def delayed(workload: Obj) -> list[str | None]:
    return [entry.get("delayedTopologyRequest") for entry in status_of(workload)["admission"]["podSetAssignments"]]


@pytest.mark.parametrize(
    "annotation",
    ["podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology", ""],
)
def test_a_job_is_admitted_on_the_manager_once_its_worker_has_found_the_places(annotation: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for cluster in fleet.clusters:
            await place(cluster)
        await asyncio.sleep(1)
        placed = job("a", seconds=10)
        if annotation:
            value = "true" if "unconstrained" in annotation else LEVEL
            placed["spec"]["template"]["metadata"]["annotations"][f"kueue.x-k8s.io/{annotation}"] = value
        await fleet.manager.client.create(JOBS, placed)
        await asyncio.sleep(3)
        (held,) = (await fleet.manager.client.list(WORKLOADS)).items
        assert status_of(held)["clusterName"]
        assert delayed(held) == ["Ready"]
        assert conditions.is_true(held, "Admitted")
        assert status_of(await fleet.manager.client.get(JOBS, "a", "default")).get("active") == 1
        await asyncio.sleep(20)
        (held,) = (await fleet.manager.client.list(WORKLOADS)).items
        assert conditions.is_true(held, "Finished")

    run_on_fleet(check)


def test_a_worker_without_the_topology_leaves_nothing_to_wait_for() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await place(fleet.manager)
        await asyncio.sleep(1)
        await fleet.manager.client.create(JOBS, job("a", seconds=10))
        await asyncio.sleep(3)
        (held,) = (await fleet.manager.client.list(WORKLOADS)).items
        assert conditions.is_true(held, "Admitted")

    run_on_fleet(check)
