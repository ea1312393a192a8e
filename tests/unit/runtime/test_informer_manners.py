"""An informer asks a server for no more than it needs: pages, one watch that goes on from its bookmarks, and pauses after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any

from corral.client import limits
from corral.client.protocol import Client, ObjectList, WatchEvent
from corral.client.wrapper import ClientWrapper
from corral.core.errors import ApiError, ConnectionFailed, TooManyRequests
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.informer import FIRST_RETRY_S, MAX_RETRY_S, Informer
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

NAMESPACE = "default"


class Asked(ClientWrapper):
    """A client that notes what it is asked for, and when; `events` are what watches bring instead of what happens."""

    streams_lists = False

    def __init__(self, client: Client, events: Callable[[], list[WatchEvent]] | None = None) -> None:
        super().__init__(lambda: client)
        self._events = events
        self.lists: list[int] = []
        self.watches: list[str] = []
        self.times: list[float] = []
        self.error: ApiError | None = None

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        self.lists.append(options["limit"])
        self.times.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        return await super().list(resource, namespace, **options)

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        self.watches.append(options["resource_version"])
        if self._events is not None:
            for event in self._events():
                yield event
            return
        async for event in super().watch(resource, namespace, **options):
            yield event


async def following(
    client: Asked, cluster: VirtualCluster, scenario: Callable[[Informer], Awaitable[None]], seed: int = 1
) -> None:
    informer = Informer(client, CONFIG_MAPS, cluster.clock, Random(seed), namespace=NAMESPACE)
    running = asyncio.ensure_future(informer.run())
    try:
        await scenario(informer)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def config(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": NAMESPACE}}


def test_a_long_list_is_asked_for_in_pages() -> None:
    async def main() -> None:
        async with VirtualCluster(lifecycle=False) as cluster:
            for number in range(limits.LIST_PAGE + 1):
                await cluster.client.create(CONFIG_MAPS, config(f"c{number}"))
            client = Asked(cluster.client)

            async def scenario(informer: Informer) -> None:
                await informer.synced()
                assert len(informer) == limits.LIST_PAGE + 1
                assert client.lists == [limits.LIST_PAGE] * 2

            await following(client, cluster, scenario)

    run_virtual(main)


def test_what_happens_is_watched_and_never_asked_for_again() -> None:
    async def main() -> None:
        async with VirtualCluster(lifecycle=False) as cluster:
            client = Asked(cluster.client)

            async def scenario(informer: Informer) -> None:
                for number in range(10):
                    await cluster.client.create(CONFIG_MAPS, config(f"c{number}"))
                    await cluster.clock.sleep(360.0)
                assert len(informer) == 10
                assert (len(client.lists), len(client.watches)) == (1, 1)

            await following(client, cluster, scenario)

    run_virtual(main)


def test_a_watch_that_ends_goes_on_from_its_last_bookmark() -> None:
    bookmark = WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "5000"}})
    later = iter([[bookmark]])

    async def main() -> None:
        async with VirtualCluster(lifecycle=False) as cluster:
            client = Asked(cluster.client, lambda: next(later, []))

            async def scenario(informer: Informer) -> None:
                await cluster.clock.sleep(1.0)
                assert client.watches[1:] == ["5000"] * (len(client.watches) - 1)
                assert 2 < len(client.watches) < 8, "one that closes at once is not opened again at once"
                assert len(client.lists) == 1

            await following(client, cluster, scenario)

    run_virtual(main)


def pauses(error: ApiError, seed: int) -> list[float]:
    """Between the attempts of five minutes that all fail."""
    found: list[float] = []

    async def main() -> None:
        async with VirtualCluster(lifecycle=False) as cluster:
            client = Asked(cluster.client)
            client.error = error

            async def scenario(informer: Informer) -> None:
                await cluster.clock.sleep(300.0)
                found.extend(later - earlier for earlier, later in pairwise(client.times))

            await following(client, cluster, scenario, seed)

    run_virtual(main)
    return found


def test_a_server_that_is_away_is_asked_less_and_less_and_not_by_all_at_once() -> None:
    by_seed = [pauses(ConnectionFailed("away"), seed) for seed in range(5)]
    for found in by_seed:
        assert 0.8 * FIRST_RETRY_S <= found[0] <= 1.2 * FIRST_RETRY_S
        assert all(0.8 * MAX_RETRY_S <= pause <= 1.2 * MAX_RETRY_S for pause in found[8:])
    assert len({found[0] for found in by_seed}) == len(by_seed)


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    found = pauses(TooManyRequests("busy", details={"retryAfterSeconds": 10}), seed=1)
    assert all(8.0 <= pause <= 12.0 for pause in found[:5])
    endless = pauses(TooManyRequests("busy", details={"retryAfterSeconds": 10**9}), seed=1)
    assert endless[0] <= 1.2 * MAX_RETRY_S
