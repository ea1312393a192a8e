"""A client that makes so many calls a second at most: who has to wait waits here, in turn, instead of at the API server.

Leases are left out, because a role whose renewal waits behind the work of that role would be lost when there is most to do; and
`raw` is, which asks for health and for what a server serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from corral.client.protocol import Client, WatchEvent
from corral.client.wrapper import ClientWrapper
from corral.core.resource import Resource
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

REPORTED_FROM_S, REPORTED_EVERY_S = 1.0, 60.0
"""A wait as long as this is reported, so often at most."""
T = TypeVar("T")


class TokenBucket:
    """`burst` at once, and `qps` a second in the long run. Who takes what is not there yet waits until it is, in order of arrival."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._seen = clock.monotonic()

    async def take(self) -> float:
        """Take one; the seconds that were waited for it."""
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._seen) * self._qps, float(self._burst)) - 1.0
        self._seen = now
        wait = max(-self._left / self._qps, 0.0)
        if wait:
            try:
                await self._clock.sleep(wait)
            except asyncio.CancelledError:
                self._left += 1.0
                raise
        return wait


class PacedClient(ClientWrapper):
    """`client`, called at the rate of a bucket of its own. Whoever closes it closes `client`."""

    def __init__(self, client: Client, qps: float, burst: int, clock: Clock) -> None:
        super().__init__(lambda: client)
        self._bucket = TokenBucket(qps, burst, clock)
        self._clock = clock
        self._reported = float("-inf")

    async def _carry(self, resource: Resource | None, call: Callable[[], Awaitable[T]]) -> T:
        await self._wait(resource)
        return await call()

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        await self._wait(resource)
        async for event in self._target().watch(resource, namespace, **options):
            yield event

    async def logs(self, name: str, namespace: str, **options: Any) -> AsyncIterator[bytes]:
        await self._wait(PODS)
        async for chunk in self._target().logs(name, namespace, **options):
            yield chunk

    async def _wait(self, resource: Resource | None) -> None:
        if resource is None or resource == LEASES:
            return
        waited, now = await self._bucket.take(), self._clock.monotonic()
        if waited >= REPORTED_FROM_S and now >= self._reported + REPORTED_EVERY_S:
            self._reported = now
            log.warning(
                "calls wait for the limits of clientConnection",
                extra={"kind": resource.plural, "seconds": round(waited, 1)},
            )
