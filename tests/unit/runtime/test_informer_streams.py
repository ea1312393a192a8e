"""An informer takes what is there from the beginning of its watch where the API offers that, and from a list where it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from corral.client import limits
from corral.client.protocol import Client, ObjectList, WatchEvent, ends_initial
from corral.client.wrapper import ClientWrapper
from corral.core.errors import ApiError, BadRequest, Invalid, NotFound, TooManyRequests
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.informer import Informer
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

Begin = Callable[["Streaming", AsyncIterator[WatchEvent]], AsyncIterator[WatchEvent]]
NAMESPACE = "default"


class Streaming(ClientWrapper):
    """A client whose watches may begin with what is there, unless `begin` does something else; it counts what was asked for."""

    def __init__(self, client: Client, begin: Begin | None = None) -> None:
        super().__init__(lambda: client)
        self._begin = begin
        self.offers = True
        self.asked: list[str] = []

    @property
    def streams_lists(self) -> bool:
        return self.offers

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        self.asked.append("list")
        return await super().list(resource, namespace, **options)

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        self.asked.append("stream" if options.get("initial") else "watch")
        events = super().watch(resource, namespace, **options)
        if options.get("initial") and self._begin is not None:
            events = self._begin(self, events)
        async for event in events:
            yield event


def config(name: str, value: str = "") -> Obj:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "data": {"v": value}}


def informed(begin: Begin | None, scenario: Callable[[VirtualCluster, Streaming, Informer], Awaitable[None]]) -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            for name in ("a", "b"):
                await cluster.client.create(CONFIG_MAPS, config(name))
            client = Streaming(cluster.client, begin)
            informer = Informer(client, CONFIG_MAPS, cluster.clock, Random(1), namespace=NAMESPACE)
            running = asyncio.ensure_future(informer.run())
            await scenario(cluster, client, informer)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(main)


def names(informer: Informer) -> list[str]:
    return [name_of(obj) for obj in informer.list() if name_of(obj) != "kube-root-ca.crt"]


def test_one_watch_is_enough_for_what_is_there_and_for_what_comes() -> None:
    async def scenario(cluster: VirtualCluster, client: Streaming, informer: Informer) -> None:
        await informer.synced()
        assert names(informer) == ["a", "b"]
        await cluster.client.create(CONFIG_MAPS, config("c"))
        await cluster.client.delete(CONFIG_MAPS, "a", NAMESPACE)
        await cluster.advance(1.0)
        assert names(informer) == ["b", "c"]
        assert client.asked == ["stream"]

    informed(None, scenario)


async def _refused(error: ApiError) -> AsyncIterator[WatchEvent]:
    raise error
    yield


async def _ends(events: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
    """Only some of what is there, as of a server that is stopped."""
    async for event in events:
        yield event
        return


async def _unmarked(events: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
    """Everything, and never a word that this was it, as of a server that knows nothing of the question."""
    async for event in events:
        if not ends_initial(event):
            yield event


@pytest.mark.parametrize(
    ("begin", "asked"),
    [
        (lambda client, events: _refused(Invalid("sendInitialEvents is forbidden")), ["stream", "list", "watch"]),
        (lambda client, events: _refused(BadRequest("unknown parameter")), ["stream", "list", "watch"]),
        (lambda client, events: _ends(events), ["stream", "list", "watch"]),
        (lambda client, events: _unmarked(events), ["stream", "list", "watch"]),
    ],
    ids=["422", "400", "ends early", "never says that it is all"],
)
def test_where_it_is_not_offered_there_is_a_list(begin: Begin, asked: list[str]) -> None:
    async def scenario(cluster: VirtualCluster, client: Streaming, informer: Informer) -> None:
        await cluster.advance(2 * limits.STREAM_PAUSE_S)
        assert names(informer) == ["a", "b"]
        assert informer.last_error is None
        await cluster.client.create(CONFIG_MAPS, config("c"))
        await cluster.advance(1.0)
        assert names(informer) == ["a", "b", "c"]
        assert client.asked[:3] == asked

    informed(begin, scenario)


@pytest.mark.parametrize("error", [NotFound("no such kind"), TooManyRequests("later")], ids=["404", "429"])
def test_what_a_list_would_not_cure_is_tried_again_as_it_was(error: ApiError) -> None:
    async def scenario(cluster: VirtualCluster, client: Streaming, informer: Informer) -> None:
        await cluster.advance(5.0)
        assert informer.last_error is error
        assert set(client.asked) == {"stream"}
        assert 2 <= len(client.asked) <= 6

    informed(lambda client, events: _refused(error), scenario)


def test_a_server_that_has_refused_once_is_not_asked_again() -> None:
    def begin(client: Streaming, events: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
        client.offers = False
        return _refused(Invalid("sendInitialEvents is forbidden"))

    async def scenario(cluster: VirtualCluster, client: Streaming, informer: Informer) -> None:
        await informer.synced()
        other = Informer(client, CONFIG_MAPS, cluster.clock, Random(1), namespace=NAMESPACE)
        running = asyncio.ensure_future(other.run())
        await other.synced()
        assert client.asked.count("stream") == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    informed(begin, scenario)


def test_after_a_break_handlers_hear_only_of_what_changed_meanwhile() -> None:
    broken = asyncio.Event()

    async def breaking(events: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
        async for event in events:
            yield event
            if ends_initial(event) and not broken.is_set():
                await broken.wait()
                raise TooManyRequests("later")

    async def scenario(cluster: VirtualCluster, client: Streaming, informer: Informer) -> None:
        await informer.synced()
        heard: list[tuple[str, str]] = []

        def note(old: Obj | None, new: Obj | None) -> None:
            kind = "added" if old is None else "gone" if new is None else "changed"
            heard.append((kind, name_of(new or old or {})))

        informer.on_change(note)
        heard.clear()
        await cluster.client.delete(CONFIG_MAPS, "a", NAMESPACE)
        await cluster.client.create(CONFIG_MAPS, config("c"))
        broken.set()
        await cluster.advance(5.0)
        assert sorted(heard) == [("added", "c"), ("gone", "a")]
        assert client.asked == ["stream", "stream"]

    informed(lambda client, events: breaking(events), scenario)
