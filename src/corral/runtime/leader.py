"""Leader election on a Lease: of several copies of a controller process, one works.

The holder renews well within the lease; a candidate takes over when it has not seen the lease change for its whole
duration by its own clock, so that clocks of different machines need not agree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from corral.client.protocol import Client
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Key, Obj, resource_version_of, spec_of
from corral.kinds.kubernetes.coordination import LEASES
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

DURATION_S = 15.0
RETRY_S = 2.0


def held_spec(old: Obj, identity: str, duration: float, now: str) -> Obj:
    """The spec of a lease that `identity` takes or renews; `old` is what it says so far, empty for a new lease."""
    spec = {**old, "holderIdentity": identity, "leaseDurationSeconds": int(duration), "renewTime": now}
    if not old:
        return {**spec, "acquireTime": now, "leaseTransitions": 0}
    if old.get("holderIdentity") != identity:
        return {**spec, "acquireTime": now, "leaseTransitions": int(old.get("leaseTransitions") or 0) + 1}
    return spec


class LeaderElector:
    """Runs something only while this process holds the lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        lease: Key,
        identity: str,
        *,
        duration: float = DURATION_S,
        renew: float = 10.0,
        retry: float = RETRY_S,
    ) -> None:
        self._client = client
        self._clock = clock
        self._lease = lease
        self.identity = identity
        self._duration = duration
        self._renew_deadline = renew
        self._retry = retry
        self._observed: tuple[str, float] = ("", 0.0)
        self.is_leader = False

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` until it ends or the lease is lost, and start over."""
        while True:
            while not await self._try_acquire():
                await self._clock.sleep(self._retry)
            self.is_leader = True
            log.info("became leader", extra={"lease": str(self._lease), "identity": self.identity})
            work = asyncio.ensure_future(lead())
            try:
                await self._hold(work)
            finally:
                self.is_leader = False
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            if work.done() and not work.cancelled() and work.exception() is None:
                return

    async def release(self) -> None:
        """Give the lease up so that the next candidate need not wait."""
        try:
            lease = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
            if spec_of(lease).get("holderIdentity") == self.identity:
                spec = {**spec_of(lease), "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._client.update(LEASES, {**lease, "spec": spec})
        except ApiError as error:
            log.debug("lease not released", extra={"error": str(error)})

    async def _hold(self, work: asyncio.Future[None]) -> None:
        renewed = self._clock.monotonic()
        while not work.done():
            await asyncio.wait([work], timeout=self._retry)
            if work.done():
                return
            if await self._try_acquire():
                renewed = self._clock.monotonic()
            elif self._clock.monotonic() - renewed > self._renew_deadline:
                log.warning("lost the lease", extra={"lease": str(self._lease), "identity": self.identity})
                return

    async def _try_acquire(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
        except NotFound:
            return await self._create()
        except ApiError:
            return False
        return await self._take(lease)

    async def _create(self) -> bool:
        body: Obj = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._lease.name, "namespace": self._lease.namespace},
            "spec": held_spec({}, self.identity, self._duration, self._clock.micro_timestamp()),
        }
        try:
            await self._client.create(LEASES, body)
        except ApiError:
            return False
        return True

    async def _take(self, lease: Obj) -> bool:
        spec = spec_of(lease)
        holder = spec.get("holderIdentity") or ""
        version = resource_version_of(lease)
        if self._observed[0] != version:
            self._observed = (version, self._clock.monotonic())
        if holder not in ("", self.identity) and self._clock.monotonic() - self._observed[1] < self._duration:
            return False
        renewed = held_spec(spec, self.identity, self._duration, self._clock.micro_timestamp())
        try:
            await self._client.update(LEASES, {**lease, "spec": renewed})
        except ApiError:
            return False
        return True
