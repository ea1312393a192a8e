"""However many watch, the loop has its turn in between: watchers are woken in portions, in order, and miss nothing."""

from __future__ import annotations

import asyncio

import pytest
from tests.turns import TurnCounter

from corral.store import Event, ObjectKey, Store, StoreWatch
from corral.store.waking import WAKES
from corral.store.watch import BATCH

MANY = 10 * WAKES + 7


async def put(store: Store, name: str, namespace: str = "ns", resource: str = "configmaps") -> None:
    key = ObjectKey(resource, namespace, name)
    await store.put(key, {"metadata": {"name": name, "namespace": namespace}})


async def asleep(store: Store, namespaces: tuple[str, ...], counter: TurnCounter) -> list[asyncio.Task[list[Event]]]:
    async def follow(watch: StoreWatch) -> list[Event]:
        found = await watch.next()
        counter.count()
        return found

    watches = [
        store.watch("configmaps", namespaces[number % len(namespaces)], after=store.revision) for number in range(MANY)
    ]
    tasks = [asyncio.create_task(follow(watch)) for watch in watches]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("namespaces", [("",), ("ns",), ("", "ns")], ids=["everywhere", "in one namespace", "both"])
async def test_one_event_wakes_very_many_watchers_in_portions(namespaces: tuple[str, ...]) -> None:
    store, counter = Store(now=lambda: 0.0), TurnCounter()
    tasks = await asleep(store, namespaces, counter)
    with counter:
        await put(store, "a")
        found = await asyncio.gather(*tasks)
    assert counter.total == MANY
    assert counter.most <= WAKES
    assert {tuple(event.revision for event in events) for events in found} <= {(1,)}


async def test_events_of_many_resources_share_the_portions() -> None:
    store, counter = Store(now=lambda: 0.0), TurnCounter()

    async def follow(resource: str) -> None:
        await store.watch(resource, after=0).next()
        counter.count()

    resources = [f"kind{number}" for number in range(MANY)]
    tasks = [asyncio.create_task(follow(resource)) for resource in resources]
    await asyncio.sleep(0)
    with counter:
        for resource in resources:
            await put(store, "a", resource=resource)
        await asyncio.gather(*tasks)
    assert counter.most <= WAKES


async def test_few_watchers_are_woken_at_once() -> None:
    store = Store(now=lambda: 0.0)
    tasks = [asyncio.create_task(store.watch("configmaps", after=0).next()) for _ in range(WAKES)]
    await asyncio.sleep(0)
    await put(store, "a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(task.done() for task in tasks)


async def test_who_waits_to_be_woken_sees_what_comes_meanwhile_and_once() -> None:
    store = Store(now=lambda: 0.0)
    watches = [store.watch("configmaps", "ns", after=0) for _ in range(MANY)]
    seen: dict[int, list[int]] = {number: [] for number in range(MANY)}

    async def follow(number: int, watch: StoreWatch) -> None:
        while len(seen[number]) < 3:
            seen[number] += [event.revision for event in await watch.next()]

    tasks = [asyncio.create_task(follow(number, watch)) for number, watch in enumerate(watches)]
    await asyncio.sleep(0)
    for name in ("a", "b", "c"):
        await put(store, name)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert list(seen.values()) == [[1, 2, 3]] * MANY


async def test_who_leaves_while_waiting_to_be_woken_holds_nobody_up() -> None:
    store, counter = Store(now=lambda: 0.0), TurnCounter()
    tasks = await asleep(store, ("",), counter)
    await put(store, "a")
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found[::2]] == [asyncio.CancelledError] * len(found[::2])
    assert all(isinstance(one, list) and len(one) == 1 for one in found[1::2])


async def test_a_watch_far_behind_yields_between_its_batches() -> None:
    store, counter = Store(now=lambda: 0.0), TurnCounter()
    for number in range(3 * BATCH):
        await put(store, str(number))
    watch = store.watch("configmaps", after=0)
    with counter:
        while counter.total < 3 * BATCH:
            counter.count(len(await watch.next()))
    assert counter.most <= BATCH
