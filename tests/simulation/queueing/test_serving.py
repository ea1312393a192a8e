"""Deployments in a queue: their pods wait behind gates, one by one."""

from __future__ import annotations

import asyncio
from typing import Any

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster

from .world import PODS, cluster_queue, flavor, local_queue

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def serving(name: str, replicas: int, **spec: Any) -> Obj:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"corral.dev/run-seconds": "forever"}},
                "spec": {"containers": [container]},
            },
            **spec,
        },
    }


async def phases(cluster: SimulatedCluster) -> list[str]:
    pods = (await cluster.client.list(PODS)).items
    return sorted(pod.get("status", {}).get("phase", "") for pod in pods)


async def start(cpu: str) -> SimulatedCluster:
    nodes = [NodeSpec("n", {"cpu": "64", "memory": "64Gi", "pods": "100"}, {}, [])]
    cluster = SimulatedCluster("serving", nodes=nodes)
    await cluster.start()
    for pair in (flavor(), cluster_queue(cpu=cpu), local_queue()):
        await cluster.client.create(*pair)
    return cluster


def test_pods_of_a_deployment_are_admitted_one_by_one() -> None:
    async def main() -> None:
        cluster = await start(cpu="1")
        await cluster.client.create(DEPLOYMENTS, serving("web", 2))
        await asyncio.sleep(5)
        assert await phases(cluster) == ["Pending", "Running"]
        await cluster.stop()

    run_virtual(main)
