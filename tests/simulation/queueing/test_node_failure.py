"""A node fails under a placed workload: its pods get another one, or the workload another try."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from corral.configuration.queueing import QueueingConfig
from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import ApiError, Conflict, NotFound, ServiceUnavailable
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.decide.queueing.cycle.messages import no_replacement
from corral.kinds.kueue import TOPOLOGIES
from corral.kinds.kueue.gates import FeatureGates
from corral.kinds.kueue.topology_assignment import domains_of
from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, condition, fill, flavor, job, local_queue

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
KINDS = ("SecondPassFailed", "EvictedDueToNodeFailures")
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


@asynccontextmanager
async def failing(
    spare: bool = False, config: QueueingConfig | None = None, extra: Sequence[AdmissionPlugin] = ()
) -> AsyncIterator[tuple[World, str]]:
    """A job runs on a node that is no longer ready."""
    async with World(config, extra) as world:
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
        yield world, first


BY_TIME = QueueingConfig(gates=FeatureGates({"TASReplaceNodeOnPodTermination": False}))


def scenario(spare: bool, config: QueueingConfig | None = None) -> None:
    async def main() -> None:
        async with failing(spare, config) as (world, first):
            if config is BY_TIME:
                await world.advance(20)
                assert await placed_on(world) == {first}
                await world.advance(20)
            await world.advance(1)
            workload = await world.workload_of("sample")
            if spare:
                assert await placed_on(world) == {"n1", "n2"} - {first}
                assert "unhealthyNodes" not in workload["status"]
                assert condition(workload, "Evicted") is None
            else:
                evicted = ("True", "NodeFailures", no_replacement(first))
                assert condition(workload, "Evicted") == evicted
                assert condition(workload, "Requeued") == evicted

    run_virtual(main)


@pytest.mark.parametrize("config", [None, BY_TIME], ids=["without pods", "after a while"])
def test_a_spare_node_takes_over(config: QueueingConfig | None) -> None:
    scenario(spare=True, config=config)


@pytest.mark.parametrize("config", [None, BY_TIME], ids=["without pods", "after a while"])
def test_without_a_spare_the_workload_is_evicted_and_queued_again(config: QueueingConfig | None) -> None:
    scenario(spare=False, config=config)


class Interference:
    """Answers the first attempts to evict a workload for its node."""

    name = "interference"

    def __init__(self, error: ApiError, times: int) -> None:
        self.error = error
        self.left = times

    def handles(self, request: AdmissionRequest) -> bool:
        evicted = condition(request.obj, "Evicted") if request.obj is not None else None
        return request.subresource == "status" and (evicted or ())[:2] == ("True", "NodeFailures")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        if self.left > 0:
            self.left -= 1
            raise self.error


FAILED = ("SecondPassFailed", "couldn't assign flavors to pod set main: no topology domains at level: rack")

# How the store answers and how often; what is told then.
ANSWERS: dict[str, tuple[ApiError, int, list[str]]] = {
    "TAS-13 it is gone": (NotFound("gone"), 10**9, []),
    "TAS-14 an error": (ServiceUnavailable("out of order"), 1, ["SecondPassFailed", "EvictedDueToNodeFailures"]),
    "TAS-105 it changed meanwhile": (Conflict("changed"), 1, ["EvictedDueToNodeFailures"]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_eviction_that_cannot_be_written(name: str) -> None:
    error, times, told = ANSWERS[name]

    async def main() -> None:
        async with failing(extra=[Interference(error, times)]) as (world, first):
            await world.advance(60)
            workload = await world.workload_of("sample")
            events = [event for event in await world.events_of(workload["metadata"]["name"]) if event[0] in KINDS]
            assert [event[0] for event in events] == told
            if "SecondPassFailed" in told:
                assert events[0] == FAILED
            if told:
                assert events[-1] == ("EvictedDueToNodeFailures", no_replacement(first))
                assert condition(workload, "Evicted") == ("True", "NodeFailures", no_replacement(first))
            else:
                assert condition(workload, "Evicted") is None
                assert await placed_on(world) == {first}

    run_virtual(main)


def test_a_workload_that_waits_for_a_node_says_so() -> None:
    """Without fail-fast it keeps its quota and place until a node comes."""
    patient = QueueingConfig(gates=FeatureGates({"TASFailedNodeReplacementFailFast": False}))

    async def main() -> None:
        async with failing(config=patient) as (world, first):
            await world.advance(60)
            workload = await world.workload_of("sample")
            assert condition(workload, "Evicted") is None
            assert await placed_on(world) == {first}
            assert FAILED in await world.events_of(workload["metadata"]["name"])
            await add_node(world, "n2", "r1")
            await world.settle()
            assert await placed_on(world) == {"n2"}

    run_virtual(main)
