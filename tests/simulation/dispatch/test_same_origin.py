"""A copy with this manager's origin whose Workload it never had: garbage collection, and nobody before it, may remove it."""

from __future__ import annotations

import asyncio

from corral.core.meta import Obj
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet


def test_a_copy_nobody_here_knows_is_left_to_garbage_collection() -> None:
    async def main() -> None:
        multikueue = {"gcInterval": "60s"}
        async with SimulatedFleet(("worker1",), configuration={"multiKueue": multikueue}) as fleet:
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(5)
            client = fleet.workers["worker1"].client
            container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
            template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
            copy: Obj = {
                "metadata": {
                    "name": "of-another-manager",
                    "namespace": "default",
                    "labels": {names.MULTIKUEUE_ORIGIN: "multikueue"},
                },
                "spec": {"queueName": "user-queue", "podSets": [{"name": "main", "count": 1, "template": template}]},
            }
            await client.create(WORKLOADS, copy)
            await asyncio.sleep(30)
            assert len((await client.list(WORKLOADS)).items) == 1
            await asyncio.sleep(60)
            assert (await client.list(WORKLOADS)).items == []

    run_virtual(main)
