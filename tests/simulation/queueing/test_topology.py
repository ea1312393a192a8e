"""Topology-aware placement end to end: pods get their node, and lose it when it fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.kinds.kueue import TOPOLOGIES, WORKLOADS
from corral.kinds.kueue.topology_assignment import domains_of
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster

from .world import JOBS, PODS, cluster_queue, condition, flavor, job, local_queue

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LEVELS = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]


def node(name: str, rack: str) -> NodeSpec:
    return NodeSpec(name, {"cpu": "2", "memory": "8Gi", "pods": "20"}, {"rack": rack, "pool": "tas"}, [])


def placed_job(name: str, pods: int, **annotations: str) -> tuple[Resource, Obj]:
    resource, obj = job(name, parallelism=pods, completions=pods, completionMode="Indexed")
    obj["spec"]["template"]["metadata"] = {"annotations": {"corral.dev/run-seconds": "50", **annotations}}
    return resource, obj


async def set_up(cluster: SimulatedCluster) -> None:
    for resource, obj in (
        (TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": LEVELS}}),
        flavor(nodeLabels={"pool": "tas"}, topologyName="racks"),
        cluster_queue(cpu="8"),
        local_queue(),
    ):
        await cluster.client.create(resource, obj)
    await asyncio.sleep(2)


async def nodes_of(cluster: SimulatedCluster, prefix: str) -> list[str]:
    pods = (await cluster.client.list(PODS)).items
    return sorted(pod["spec"].get("nodeName", "?") for pod in pods if name_of(pod).startswith(prefix))


def run(scenario: Any, configuration: Obj | None = None) -> None:
    async def main() -> None:
        nodes = [node("n1", "r1"), node("n2", "r1"), node("n3", "r2"), node("n4", "r2")]
        cluster = SimulatedCluster("tas", nodes=nodes, configuration=configuration)
        await cluster.start()
        await set_up(cluster)
        await scenario(cluster)
        await cluster.stop()

    run_virtual(main)


def test_pods_that_must_share_a_rack_do() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.client.create(*placed_job("j", 4, **{"kueue.x-k8s.io/podset-required-topology": "rack"}))
        await asyncio.sleep(5)
        placed = await nodes_of(cluster, "j-")
        assert placed in (["n1", "n1", "n2", "n2"], ["n3", "n3", "n4", "n4"])
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        (entry,) = workload["status"]["admission"]["podSetAssignments"]
        assert entry["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]
        await asyncio.sleep(80)
        assert condition(await cluster.client.get(JOBS, "j", "default"), "Complete") is not None

    run(scenario)


def test_a_rack_that_is_full_sends_the_next_job_elsewhere_or_lets_it_wait() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        rack = {"kueue.x-k8s.io/podset-required-topology": "rack"}
        for name in ("a", "b"):
            await cluster.client.create(*placed_job(name, 3, **rack))
            await asyncio.sleep(3)
        first, second = await nodes_of(cluster, "a-"), await nodes_of(cluster, "b-")
        assert not set(first) & set(second)
        await cluster.client.create(*placed_job("c", 2, **rack))
        await asyncio.sleep(3)
        assert await nodes_of(cluster, "c-") == []
        waiting = [
            workload
            for workload in (await cluster.client.list(WORKLOADS)).items
            if workload["metadata"]["ownerReferences"][0]["name"] == "c"
        ]
        quota = condition(waiting[0], "QuotaReserved")
        assert quota is not None
        assert 'topology "racks" allows to fit only 1 out of 2 pod(s)' in quota[2]

    run(scenario)


LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"


def test_slices_in_several_layers_lie_in_one_another() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        # One pod already sits on n1, so that its rack holds three: no room for four in two pairs.
        await cluster.client.create(*placed_job("small", 1, **{"kueue.x-k8s.io/podset-required-topology": "rack"}))
        await asyncio.sleep(3)
        layers = [{"topology": "rack", "size": 4}, {"topology": "kubernetes.io/hostname", "size": 2}]
        await cluster.client.create(*placed_job("j", 4, **{LAYERS: json.dumps(layers)}))
        await asyncio.sleep(3)
        (alone,) = await nodes_of(cluster, "small-")
        other = ["n3", "n3", "n4", "n4"] if alone in ("n1", "n2") else ["n1", "n1", "n2", "n2"]
        assert await nodes_of(cluster, "j-") == other

    run(scenario)


ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
KEEPS_PLACES = {"featureGates": {"ElasticJobsViaWorkloadSlices": True, "ElasticJobsViaWorkloadSlicesWithTAS": True}}


async def current_hosts(cluster: SimulatedCluster) -> list[str]:
    """Where the slice in force is placed, a host for each pod."""
    found = (await cluster.client.list(WORKLOADS)).items
    (live,) = [workload for workload in found if condition(workload, "Finished") is None]
    (entry,) = live["status"]["admission"]["podSetAssignments"]
    return [domain.values[-1] for domain in domains_of(entry["topologyAssignment"]) for _ in range(domain.pods)]


@pytest.mark.parametrize(
    ("sizes", "configuration"),
    [((1, 2), {"featureGates": {"ElasticJobsViaWorkloadSlices": True}}), ((2, 3, 4, 2), KEEPS_PLACES)],
    ids=["placed anew", "keeps its places"],
)
def test_pods_of_an_elastic_job_that_grows_are_placed(sizes: tuple[int, ...], configuration: Obj) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        resource, obj = job("j", parallelism=sizes[0], completions=100, cpu="2", annotations=ELASTIC)
        loose = {"kueue.x-k8s.io/podset-unconstrained-topology": "true", "corral.dev/run-seconds": "forever"}
        obj["spec"]["template"]["metadata"] = {"annotations": loose}
        await cluster.client.create(resource, obj)
        before: list[str] = []
        for size in sizes:
            await cluster.client.patch(JOBS, "j", "default", {"spec": {"parallelism": size}})
            await asyncio.sleep(5)
            after = await nodes_of(cluster, "j-")
            assert (len(after), "?" in after) == (size, False)
            assert set(before) <= set(after) or size < len(before)
            if configuration is KEEPS_PLACES and size > len(before):
                assert sorted(await current_hosts(cluster)) == after
            before = after

    run(scenario, configuration)
