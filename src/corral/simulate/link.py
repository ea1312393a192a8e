"""A link between two clusters that can fail: the client of one cluster as another sees it, with faults on the way.

A link may be cut in either direction, hang, be slow, or lose the reply after the request was carried out. Faults are
state, so a test or a fault plan turns them on and off. A link with a `latency` takes that long each way, so that whatever
happens meanwhile happens in the middle of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from corral.client.protocol import Client, WatchEvent
from corral.client.wrapper import ClientWrapper
from corral.core.errors import ConnectionFailed, Unauthorized
from corral.core.resource import Resource
from corral.runtime.clock import Clock

T = TypeVar("T")

HANG_LIMIT_S = 30.0


@dataclass(slots=True)
class LinkState:
    """What is wrong with a link right now; `calls` counts what went over it."""

    cut: bool = False
    """Nothing gets through; connections are refused."""
    hung: bool = False
    """Connections stay open and nothing moves."""
    lose_replies: bool = False
    """Requests are carried out, but the answer never comes back."""
    refused: bool = False
    """The credentials are no longer accepted."""
    lose_requests: bool = False
    """Requests never arrive and time out; what is open already goes on."""
    lose_events: bool = False
    """Watches stay open and say nothing, while requests get through; what was missed comes afterwards."""
    delay: float = 0.0
    latency: Callable[[], float] | None = None
    """How long a healthy link takes, one way."""
    calls: int = 0
    on_call: Callable[[], None] = lambda: None
    """Told of every request."""
    _changed: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def is_faulty(self) -> bool:
        lossy = self.lose_replies or self.lose_requests or self.lose_events
        return self.cut or self.hung or lossy or self.refused or self.delay > 0

    def break_streams(self) -> None:
        """End every open watch now."""
        waiters, self._changed = self._changed, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def set(
        self,
        *,
        cut: bool = False,
        hung: bool = False,
        lose_replies: bool = False,
        refused: bool = False,
        lose_requests: bool = False,
        lose_events: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Put the link into exactly this state; open watches break when it is cut or refused."""
        self.cut, self.hung, self.lose_replies, self.refused, self.delay = cut, hung, lose_replies, refused, delay
        self.lose_requests, self.lose_events = lose_requests, lose_events
        if cut or refused:
            self.break_streams()

    def waiter(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.append(future)
        return future


class LinkClient(ClientWrapper):
    """A `Client` behind a link."""

    def __init__(self, target: Callable[[], Client], state: LinkState, clock: Clock, name: str = "remote") -> None:
        super().__init__(target)
        self._state = state
        self._clock = clock
        self._name = name
        self._closed = False

    async def _carry(self, resource: Resource | None, call: Callable[[], Awaitable[T]]) -> T:
        state = self._state
        state.calls += 1
        state.on_call()
        self._refuse()
        if state.delay or state.latency is not None:
            await self._travel()
            self._refuse()
        if state.hung or state.lose_requests:
            await self._clock.sleep(HANG_LIMIT_S)
            raise ConnectionFailed(f"cannot reach {self._name}: timed out")
        result = await call()
        if state.latency is not None:
            await self._travel()
        if state.lose_replies or state.cut or self._closed:
            raise ConnectionFailed(f"cannot reach {self._name}: connection reset")
        return result

    async def _travel(self) -> None:
        latency = self._state.latency
        await self._clock.sleep(self._state.delay + (latency() if latency is not None else 0.0))

    def _refuse(self) -> None:
        if self._closed:
            raise ConnectionFailed(f"cannot reach {self._name}: the client is closed")
        if self._state.cut:
            raise ConnectionFailed(f"cannot reach {self._name}: connection refused")
        if self._state.refused:
            raise Unauthorized("Unauthorized")

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        self._refuse()
        iterator = self._target().watch(resource, namespace, **options).__aiter__()
        broken = self._state.waiter()
        following: asyncio.Future[WatchEvent] | None = None
        try:
            while True:
                following = asyncio.ensure_future(iterator.__anext__())
                waiting: list[asyncio.Future[Any]] = [following, broken]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if broken.done():
                    raise ConnectionFailed(f"cannot reach {self._name}: the watch broke")
                try:
                    event = following.result()
                except StopAsyncIteration:
                    return
                while (self._state.hung or self._state.lose_events) and not broken.done():
                    await self._clock.sleep(1.0)
                if self._state.delay:
                    await self._clock.sleep(self._state.delay)
                yield event
        finally:
            if following is not None and not following.done():
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()

    async def logs(self, name: str, namespace: str, **options: Any) -> AsyncIterator[bytes]:
        self._refuse()
        async for chunk in super().logs(name, namespace, **options):
            yield chunk

    async def close(self) -> None:
        """Whoever waits for an answer gets none; the target is not ours to close."""
        self._closed = True
