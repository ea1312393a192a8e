"""10,000 simulated pods in one cluster on virtual time: created, scheduled, run, finished. Prints pods/s and memory.

python -m bench.node.simulated_pods [pods] [nodes]
"""

from __future__ import annotations

import resource
import sys
import time

from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import PODS
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster


def pod(number: int) -> Obj:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default", "annotations": {"corral.dev/run-seconds": "60"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def run(pods: int, nodes: int) -> None:
    def set_up(manager: Manager) -> None:
        specs = [NodeSpec(f"node{number}", {"cpu": "32", "memory": "128Gi", "pods": "110"}) for number in range(nodes)]
        Scheduler(manager, events=False)
        NodeAgent(manager, specs, SimulatedRuntime(manager.clock), events=False)

    async with VirtualCluster([set_up]) as cluster:
        began = time.perf_counter()
        start = cluster.clock.now()
        for number in range(pods):
            await cluster.client.create(PODS, pod(number))
        done = 0
        while done < pods:
            await cluster.advance(30)
            found = (await cluster.client.list(PODS, "default")).items
            done = sum(1 for entry in found if (entry.get("status") or {}).get("phase") == "Succeeded")
        took = time.perf_counter() - began
        passed = cluster.clock.now() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{pods} pods on {nodes} nodes: {took:.1f} s for {passed:.0f} s of cluster time, {pods / took:.0f} pods/s, {memory} MB"
    )


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    pods, nodes = (*arguments, *(10_000, 100)[len(arguments) :])
    run_virtual(lambda: run(pods, nodes))
