"""What a preemptor is told when evictions are issued, fail, or turn out not to be needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from corral.core.errors import Conflict, InternalError
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.kinds.kueue import WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.workload import lifecycle
from corral.workload import workload as wl

from .world import World, cluster_queue, condition, fill, flavor, local_queue

WITHIN = {"preemption": {"withinClusterQueue": "LowerPriority"}}
Write = Callable[..., Awaitable[Obj]]
EXPLANATION = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"
)


def workload(name: str, cpu: str, priority: int = 0) -> tuple[Resource, Obj]:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "lq", "priority": priority, "podSets": [{"name": "main", "count": 1, "template": template}]}
    return WORKLOADS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def on_eviction(world: World, act: Callable[[Obj], Awaitable[None]]) -> None:
    """Have something happen when the scheduler writes an eviction, before it is written."""
    for verb in ("update", "apply"):
        setattr(world.client, verb, _watched(getattr(world.client, verb), act))


def _watched(write: Write, act: Callable[[Obj], Awaitable[None]]) -> Write:
    async def watched(resource: Resource, obj: Obj, **options: Any) -> Obj:
        if resource == WORKLOADS and wl.is_evicted(obj):
            await act(obj)
        return await write(resource, obj, **options)

    return watched


async def messages(world: World, name: str) -> list[str]:
    return [message for reason, message in await world.events_of(name) if reason == "Pending"]


def test_sch_89_one_issued_eviction_counts_more_than_one_that_failed() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="4", **WITHIN), local_queue())
            await fill(world, workload("low-1", "2"), workload("low-2", "2"))

            async def fail(obj: Obj) -> None:
                if name_of(obj) == "low-2":
                    raise InternalError("the API server is not well")

            on_eviction(world, fail)
            await fill(world, workload("high", "4", priority=10))
            assert (await messages(world, "high"))[0] == (
                EXPLANATION.format(4) + ". Pending the preemption of 1 workload(s)"
            )
            assert condition(await world.client.get(WORKLOADS, "low-1", "default"), "Evicted") is not None
            assert condition(await world.client.get(WORKLOADS, "low-2", "default"), "Evicted") is None

    run_virtual(main)


def test_sch_90_victims_that_left_on_their_own_are_neither_issued_nor_failed() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="4", **WITHIN), local_queue(), workload("low", "4"))
            finished = False

            async def finish(obj: Obj) -> None:
                nonlocal finished
                if not finished:
                    finished = True
                    current = await world.client.get(WORKLOADS, "low", "default")
                    done = lifecycle.finish(current, "Succeeded", "done", world.clock.timestamp())
                    await world.client.update(WORKLOADS, done, subresource="status")
                    raise Conflict("it changed meanwhile")

            on_eviction(world, finish)
            await fill(world, workload("high", "4", priority=10))
            assert await messages(world, "high") == [EXPLANATION.format(4)]
            await world.advance(5)
            assert condition(await world.client.get(WORKLOADS, "low", "default"), "Evicted") is None
            assert wl.has_quota(await world.client.get(WORKLOADS, "high", "default"))

    run_virtual(main)


def test_an_eviction_by_somebody_else_is_as_good() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="4", **WITHIN), local_queue(), workload("low", "4"))
            written = False

            async def evict(obj: Obj) -> None:
                nonlocal written
                if not written:
                    written = True
                    current = await world.client.get(WORKLOADS, "low", "default")
                    gone = lifecycle.evict(current, "PodsReadyTimeout", "too late", world.clock.timestamp())
                    await world.client.update(WORKLOADS, gone, subresource="status")
                    raise Conflict("it changed meanwhile")

            on_eviction(world, evict)
            await fill(world, workload("high", "4", priority=10))
            suffix = ". Pending the preemption of 1 workload(s)"
            assert (await messages(world, "high"))[0] == EXPLANATION.format(4) + suffix
            low = await world.client.get(WORKLOADS, "low", "default")
            assert condition(low, "Evicted") == ("True", "PodsReadyTimeout", "too late")

    run_virtual(main)
