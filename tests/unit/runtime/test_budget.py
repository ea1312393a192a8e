"""Who computes for too long without letting others have the loop is set aside, and said to be; all others go on."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from corral.core import conditions
from corral.core.budget import MAX_PAUSE_S, PAUSE_S, SET_ASIDE, SHARE, STEP_S, STRIKES, Budget
from corral.core.meta import Key, Obj
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, PODS
from corral.runtime.budget import Meter, cpu_of
from corral.runtime.clock import VirtualClock, WallClock
from corral.runtime.controller import RECONCILE_DEADLINE_S, Manager, Result, Watch
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.server.api import Api
from corral.server.local import LocalClient
from corral.store import Store

DEAR, CHEAP = Key("default", "dear"), Key("default", "cheap")


class Cpu:
    """A processor that computes when told to."""

    def __init__(self) -> None:
        self.spent = 0.0

    def __call__(self) -> float:
        return self.spent


async def test_a_meter_knows_the_longest_step_and_changes_nothing() -> None:
    cpu = Cpu()

    async def work() -> str:
        cpu.spent += 1
        await asyncio.sleep(0)
        cpu.spent += 3
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        except TimeoutError:
            cpu.spent += 2
        return "done"

    meter = Meter(work(), cpu)
    assert await meter == "done"
    assert meter.longest_s == 3


async def test_a_meter_lets_cancellation_and_errors_through() -> None:
    cpu = Cpu()
    seen: list[str] = []

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def wait(meter: Meter[None]) -> None:
        await meter

    task = asyncio.create_task(wait(Meter(stuck(), cpu)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Meter(fails(), cpu)


def test_only_who_is_too_expensive_again_and_again_is_set_aside_and_longer_each_time() -> None:
    budget: Budget[str] = Budget()
    dear = STEP_S * 1.5
    assert [budget.spend("a", dear) for _ in range(STRIKES - 1)] == [None] * (STRIKES - 1)
    assert budget.spend("a", STEP_S / 2) is None
    assert [budget.spend("a", dear) for _ in range(STRIKES)][-1] == max(PAUSE_S, SHARE * dear)
    pauses = [budget.spend("a", dear) for _ in range(9)]
    assert pauses == sorted(pauses, key=lambda pause: pause or 0.0)
    assert pauses[-1] == MAX_PAUSE_S
    assert budget.spend("a", 100 * STEP_S) == SHARE * 100 * STEP_S
    assert budget.spend("b", dear) is None


def test_nothing_is_measured_on_virtual_time() -> None:
    assert cpu_of(VirtualClock()) is None
    assert cpu_of(WallClock()) is not None


class Worker:
    """Computes long for one key, and nothing for others."""

    name = "worker"

    def __init__(
        self,
        manager: Manager,
        cpu: Cpu,
        resource: Resource = CONFIG_MAPS,
        *,
        stuck: bool = False,
        one_for_all: bool = False,
    ) -> None:
        self.calls: list[tuple[float, str]] = []
        self.is_dear = True
        self._cpu, self._stuck = cpu, stuck
        self.controller = manager.add(self, watches=[Watch(resource)], one_for_all=one_for_all)

    async def reconcile(self, key: Key) -> Result | None:
        self.calls.append((asyncio.get_running_loop().time(), key.name))
        if key == DEAR and self.is_dear:
            self._cpu.spent += 2 * STEP_S
            if self._stuck:
                await asyncio.Event().wait()
        return None


def live(*, stuck: bool = False) -> tuple[list[tuple[float, str]], list[str]]:
    """Two objects that change every second for ten minutes: when each was looked at, and what its Events say."""

    async def main() -> tuple[list[tuple[float, str]], list[str]]:
        clock, random, cpu = VirtualClock(), Random(0), Cpu()
        client = LocalClient(Api(Store(now=clock.now), builtin_registry(), clock=clock, random=random))
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        for name in ("dear", "cheap"):
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
        manager = Manager(client, clock, random)
        manager.cpu = cpu
        worker = Worker(manager, cpu, stuck=stuck)
        await manager.start()
        for _ in range(600):
            await clock.sleep(1)
            worker.controller.queue.add(DEAR)
            worker.controller.queue.add(CHEAP)
        await clock.sleep(1)
        await manager.stop()
        events = (await client.list(EVENTS, "default")).items
        return worker.calls, [
            f"{event['type']} {event['involvedObject']['name']}: {event['message']}"
            for event in events
            if event["reason"] == SET_ASIDE
        ]

    return run_virtual(main)


def test_an_expensive_object_is_set_aside_whatever_changes_and_others_are_not() -> None:
    calls, events = live()
    dear = [at for at, name in calls if name == "dear"]
    assert len([at for at, name in calls if name == "cheap"]) >= 600
    assert len(dear) <= STRIKES + 6
    gaps = [later - earlier for earlier, later in pairwise(dear)][STRIKES - 1 :]
    assert gaps[0] >= SHARE * 2 * STEP_S
    assert events
    assert all(text.startswith("Warning dear: worker took 2.0 seconds of computing at a time") for text in events)


def test_an_object_that_never_comes_to_an_end_is_set_aside_too() -> None:
    calls, events = live(stuck=True)
    assert [round(at) for at, name in calls if name == "dear"] == [0, 2 * RECONCILE_DEADLINE_S]
    assert events[0] == (
        "Warning dear: worker did not come to an end within 300 seconds, and is tried again after 300 seconds; others are not held up"
    )


def pod(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_an_object_that_has_conditions_says_itself_that_it_is_set_aside_and_later_that_it_is_not() -> None:
    async def main() -> None:
        clock, cpu = VirtualClock(), Cpu()
        client = LocalClient(Api(Store(now=clock.now), builtin_registry(), clock=clock, random=Random(0)))
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})
        for name in ("dear", "cheap"):
            await client.create(PODS, pod(name))
        manager = Manager(client, clock, Random(0))
        manager.cpu = cpu
        worker = Worker(manager, cpu, PODS)
        await manager.start()

        async def told(name: str) -> tuple[str, str] | None:
            found = conditions.find(await client.get(PODS, name, "default"), SET_ASIDE)
            return (found["status"], found.get("message", "")) if found is not None else None

        for _ in range(STRIKES):
            await clock.sleep(1)
            worker.controller.queue.add(DEAR)
        await clock.sleep(1)
        aside = await told("dear")
        assert aside is not None
        assert aside[0] == "True"
        assert aside[1].startswith("worker took 2.0 seconds of computing at a time")
        worker.is_dear = False
        await clock.sleep(MAX_PAUSE_S)
        assert await told("dear") == ("False", "")
        assert await told("cheap") is None
        await manager.stop()

    run_virtual(main)


def test_who_decides_about_everybody_is_not_set_aside() -> None:
    """Nobody else would do its work: it measures what it decides about, object by object."""

    async def main() -> int:
        clock, cpu = VirtualClock(), Cpu()
        client = LocalClient(Api(Store(now=clock.now), builtin_registry(), clock=clock, random=Random(0)))
        manager = Manager(client, clock, Random(0))
        manager.cpu = cpu
        worker = Worker(manager, cpu, one_for_all=True)
        await manager.start()
        for _ in range(2 * STRIKES):
            worker.controller.queue.add(DEAR)
            await clock.sleep(1)
        await manager.stop()
        return len(worker.calls)

    assert run_virtual(main) == 2 * STRIKES
