"""A node fails under a placed workload: its pods get another one, or the workload another try."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import TOPOLOGIES
from corral.kinds.kueue.topology_assignment import domains_of
from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, condition, fill, flavor, job, local_queue

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LEVELS = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]


async def add_node(world: World, name: str, rack: str) -> None:
    labels = {"rack": rack, "kubernetes.io/hostname": name, "pool": "tas"}
    node = await world.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
    await set_ready(world, node, "True")


async def set_ready(world: World, node: Obj, status: str) -> None:
    now = world.clock.timestamp()
    ready = {"type": "Ready", "status": status, "reason": "x", "lastTransitionTime": now, "lastHeartbeatTime": now}
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "20"}
    new = {**node.get("status", {}), "allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    await world.client.update(NODES, {**node, "status": new}, subresource="status")


async def placed_on(world: World) -> set[str]:
    workload = await world.workload_of("sample")
    (entry,) = workload["status"]["admission"]["podSetAssignments"]
    return {domain.values[-1] for domain in domains_of(entry["topologyAssignment"])}


def scenario(spare: bool) -> None:
    async def main() -> None:
        async with World() as world:
            await fill(
                world,
                (TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": LEVELS}}),
                flavor(nodeLabels={"pool": "tas"}, topologyName="racks"),
                cluster_queue(cpu="8"),
                local_queue(),
            )
            await add_node(world, "n1", "r1")
            if spare:
                await add_node(world, "n2", "r1")
            await world.settle()
            resource, obj = job(cpu="2")
            obj["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
            await fill(world, (resource, obj))
            (first,) = await placed_on(world)
            await set_ready(world, await world.client.get(NODES, first), "False")
            await world.advance(20)
            assert await placed_on(world) == {first}
            await world.advance(20)
            workload = await world.workload_of("sample")
            if spare:
                assert await placed_on(world) == {"n1", "n2"} - {first}
                assert "unhealthyNodes" not in workload["status"]
                assert condition(workload, "Evicted") is None
            else:
                message = f"Workload was evicted as there was no replacement for unhealthy node(s): {first}"
                assert condition(workload, "Evicted") == ("True", "NodeFailures", message)
                assert condition(workload, "Requeued") == ("True", "NodeFailures", message)

    run_virtual(main)


def test_a_spare_node_takes_over() -> None:
    scenario(spare=True)


def test_without_a_spare_the_workload_is_evicted_and_queued_again() -> None:
    scenario(spare=False)
