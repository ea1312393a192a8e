"""Elastic jobs: growing takes a new slice and its quota, shrinking gives quota back at once."""

from __future__ import annotations

import asyncio

from corral.core.meta import Obj
from corral.kinds.kueue import WORKLOADS
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster

from .world import JOBS, PODS, cluster_queue, condition, flavor, job, local_queue

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


async def running(cluster: SimulatedCluster) -> int:
    pods = (await cluster.client.list(PODS)).items
    return sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)


async def slices(cluster: SimulatedCluster) -> list[tuple[int, str]]:
    """Size and state of every slice."""
    found = (await cluster.client.list(WORKLOADS)).items
    return [(entry["spec"]["podSets"][0]["count"], state(entry)) for entry in found]


def state(workload: Obj) -> str:
    finished = condition(workload, "Finished")
    if finished is not None:
        return finished[1]
    admitted = condition(workload, "Admitted")
    return "admitted" if admitted is not None and admitted[0] == "True" else "pending"


async def resize(cluster: SimulatedCluster, pods: int) -> None:
    await cluster.client.patch(JOBS, "sample", "default", {"spec": {"parallelism": pods}})
    await asyncio.sleep(5)


def test_growing_and_shrinking_a_running_job() -> None:
    async def main() -> None:
        nodes = [NodeSpec("n", {"cpu": "64", "memory": "64Gi", "pods": "100"}, {}, [])]
        cluster = SimulatedCluster("elastic", nodes=nodes)
        await cluster.start()
        resource, obj = job(annotations=ELASTIC, parallelism=2, completions=100)
        obj["spec"]["template"]["metadata"] = {"annotations": {"corral.dev/run-seconds": "forever"}}
        for pair in (flavor(), cluster_queue(cpu="4"), local_queue(), (resource, obj)):
            await cluster.client.create(*pair)
        await asyncio.sleep(5)
        assert await slices(cluster) == [(2, "admitted")]
        assert await running(cluster) == 2
        await resize(cluster, 4)
        assert sorted(await slices(cluster)) == [(2, "WorkloadSliceReplaced"), (4, "admitted")]
        assert await running(cluster) == 4
        await resize(cluster, 9)
        assert (9, "pending") in await slices(cluster)
        assert await running(cluster) == 4
        await resize(cluster, 1)
        assert (1, "admitted") in await slices(cluster)
        assert await running(cluster) == 1
        await cluster.client.create(*job("other", cpu="3"))
        await asyncio.sleep(5)
        assert (await cluster.client.get(JOBS, "other", "default"))["spec"]["suspend"] is False
        await cluster.stop()

    run_virtual(main)
