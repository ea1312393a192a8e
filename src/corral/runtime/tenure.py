"""Until when one may act who leads: a process that stood still does nothing more before its leases are renewed.

A leader that comes late to its renewal may find that nobody took its place, and then goes on as if nothing had been. What it sends in
between waits here, so that never two act."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from corral.client.protocol import Client
from corral.client.wrapper import ClientWrapper
from corral.core.resource import Resource
from corral.runtime.clock import Clock

T = TypeVar("T")


class Tenure:
    """Extended with every renewal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._extended = asyncio.Event()

    def extend(self, until: float) -> None:
        """Until then, by the monotonic clock."""
        self._until = until
        self._extended.set()
        self._extended = asyncio.Event()

    async def holds(self) -> None:
        """Return once it does: at once, but for who comes late."""
        while self._clock.monotonic() >= self._until:
            await self._extended.wait()


class HeldClient(ClientWrapper):
    """`client` as one who leads may use it."""

    def __init__(self, client: Client, tenure: Tenure) -> None:
        super().__init__(lambda: client)
        self._tenure = tenure

    async def _carry(self, resource: Resource | None, call: Callable[[], Awaitable[T]]) -> T:
        await self._tenure.holds()
        return await call()
