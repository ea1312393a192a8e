"""Leader election on Leases: of several copies of a controller process, one works.

The holder renews well within the lease; a contender takes over when it has not seen the lease change for as long as its
holder says it lasts, by its own clock, so that clocks of different machines need not agree. Who cannot renew stops before that; who comes too
late because its process stood still asks once whether the lease is its own yet, and acts no sooner (`runtime/tenure.py`).
What needs several leases takes all of them, in the same order everywhere, and works while it holds all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.client.protocol import Client
from corral.core.errors import AlreadyExists, ApiError, Conflict, NotFound
from corral.core.meta import Key, Obj, resource_version_of, spec_of
from corral.kinds.kubernetes.coordination import LEASES
from corral.runtime.clock import Clock
from corral.runtime.tenure import Tenure

log = logging.getLogger(__name__)

DURATION_S = 15.0
RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease lasts that is not renewed, and with it how long a killed leader is missed."""

    duration_s: float = 5.0

    @property
    def deadline_s(self) -> float:
        """How long a holder goes on that cannot renew: it has stopped before anybody takes over."""
        return self.duration_s * 0.8

    @property
    def renew_s(self) -> float:
        """How often a holder renews."""
        return self.duration_s / 5

    @property
    def look_s(self) -> float:
        """How often a contender looks."""
        return self.duration_s / 10


class Claim(NamedTuple):
    """A lease, and as whom it is held. One that `seizes` is taken from whoever holds it, unless its name begins with `spares`: they
    notice when they renew, and until their lease would have ended nothing is done."""

    key: Key
    identity: str
    seizes: bool = False
    spares: str = ""


def held_spec(old: Obj, identity: str, duration: float, now: str) -> Obj:
    """The spec of a lease that `identity` takes or renews; `old` is what it says so far, empty for a new lease."""
    spec = {**old, "holderIdentity": identity, "leaseDurationSeconds": max(int(duration), 1), "renewTime": now}
    if not old:
        return {**spec, "acquireTime": now, "leaseTransitions": 0}
    if old.get("holderIdentity") != identity:
        return {**spec, "acquireTime": now, "leaseTransitions": int(old.get("leaseTransitions") or 0) + 1}
    return spec


def holder_of(lease: Obj) -> str:
    """Who holds a lease; nobody when that is empty."""
    return str(spec_of(lease).get("holderIdentity") or "")


class _Seen(NamedTuple):
    """A lease as it was when it last changed, and since when it is like that."""

    version: str
    since: float


class LeaderElector:
    """Runs something only while this process holds the leases. `waits_for` is told whenever another holder is waited for."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        claims: Sequence[Claim],
        terms: LeaseTerms = LeaseTerms(),  # noqa: B008  # frozen
        waits_for: Callable[[Claim, str], None] | None = None,
        tenure: Tenure | None = None,
    ) -> None:
        self._tenure = tenure or Tenure(clock)
        self._client = client
        self._clock = clock
        self._claims = claims
        self._terms = terms
        self._waits_for = waits_for
        self._seen: dict[Key, _Seen] = {}
        self._held: dict[Key, Obj] = {}
        """The leases as we wrote them last: renewing one takes a single call."""
        self._is_taken = False
        """Somebody else holds one of the leases."""
        self._seized_until = 0.0
        self._last_message = ""
        self.is_leader = False

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the leases, then run `lead` until it ends or one is lost, and start over."""
        began = self._clock.monotonic()
        while True:
            while not await self._try_in_time(self._terms.duration_s):
                await self._clock.sleep(self._terms.look_s)
            self.is_leader = True
            waited = round(self._clock.monotonic() - began, 3)
            log.info("became leader", extra={"leases": self._names, "waited_s": waited})
            work = asyncio.ensure_future(self._after_seizing(lead))
            try:
                await self._hold(work)
            finally:
                self.is_leader = False
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            if not work.cancelled():
                if (error := work.exception()) is None:
                    return
                log.error("what ran under a lease failed", extra={"leases": self._names}, exc_info=error)
            began = self._clock.monotonic()
            await self._clock.sleep(self._terms.renew_s)

    async def release(self) -> None:
        """Give the leases up so that the next contender need not wait."""
        for claim in reversed(self._claims):
            try:
                lease = await self._client.get(LEASES, claim.key.name, claim.key.namespace)
                if holder_of(lease) == claim.identity:
                    spec = {**spec_of(lease), "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.update(LEASES, {**lease, "spec": spec})
            except ApiError as error:
                log.debug("lease not released", extra={"lease": str(claim.key), "error": str(error)})

    @property
    def _names(self) -> str:
        return ",".join(str(claim.key) for claim in self._claims)

    async def _after_seizing(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Who had the lease may go on until it would have ended."""
        await self._clock.sleep(max(self._seized_until - self._clock.monotonic(), 0.0))
        await lead()

    async def _hold(self, work: asyncio.Future[None]) -> None:
        """Renew while the work goes on; return when it has ended or may not go on."""
        terms, renewed = self._terms, self._clock.monotonic()
        while not work.done():
            self._tenure.extend(renewed + terms.deadline_s)
            asked = self._clock.monotonic()
            left = renewed + terms.deadline_s - asked
            if self._is_taken or left <= 0:
                if self._is_taken or not await self._renewed_late(-left):
                    log.warning("lost the lease", extra={"leases": self._names})
                    return
                renewed = asked
                continue
            await asyncio.wait([work], timeout=min(terms.renew_s, left))
            asked = self._clock.monotonic()
            if not work.done() and await self._try_in_time(renewed + terms.deadline_s - asked):
                renewed = asked

    async def _renewed_late(self, late_s: float) -> bool:
        """Whether a process that stood still holds the leases yet: who could not renew is here in time, and does not."""
        if late_s < self._terms.renew_s / 4 or not await self._try_in_time(self._terms.duration_s):
            return False
        log.info("the process stood still, and leads on", extra={"leases": self._names, "late_s": round(late_s, 3)})
        return True

    async def _try_in_time(self, seconds: float) -> bool:
        """Take or renew the leases; a server that does not answer has not let us."""
        try:
            async with asyncio.timeout(seconds):
                return await self._try_acquire()
        except TimeoutError:
            return False
        except ApiError as error:
            # Somebody who was faster is nothing to speak of; anything else is said once.
            if not isinstance(error, AlreadyExists | Conflict) and str(error) != self._last_message:
                self._last_message = str(error)
                log.warning("the lease cannot be had", extra={"leases": self._names, "error": str(error)})
            return False

    async def _try_acquire(self) -> bool:
        return await self._renew() or await self._look_and_take()

    async def _renew(self) -> bool:
        """Write what we hold again without a look at it: when somebody else has written it, that is a conflict."""
        held, self._held = self._held, {}
        if not held:
            return False
        try:
            self._held = {claim.key: await self._take(claim, held[claim.key]) for claim in self._claims}
        except (Conflict, NotFound):
            return False
        return True

    async def _look_and_take(self) -> bool:
        found = [await self._look(claim.key) for claim in self._claims]
        free = [self._is_free(claim, lease) for claim, lease in zip(self._claims, found, strict=True)]
        self._is_taken = not all(free)
        if self._is_taken:
            return False
        both = zip(self._claims, found, strict=True)
        self._held = {claim.key: await self._take(claim, lease) for claim, lease in both}
        return True

    async def _look(self, key: Key) -> Obj | None:
        """The lease as it is, None where there is none. Since when it is like that is remembered."""
        try:
            lease = await self._client.get(LEASES, key.name, key.namespace)
        except NotFound:
            return None
        version = resource_version_of(lease)
        if key not in self._seen or self._seen[key].version != version:
            self._seen[key] = _Seen(version, self._clock.monotonic())
        return lease

    def _is_free(self, claim: Claim, lease: Obj | None) -> bool:
        """Whether a lease is ours already, or ours to take."""
        holder = holder_of(lease) if lease is not None else ""
        if lease is None or holder in ("", claim.identity) or not self._is_live(claim.key, lease):
            return True
        if claim.seizes and not (claim.spares and holder.startswith(claim.spares)):
            return True
        if self._waits_for is not None and not self.is_leader:
            self._waits_for(claim, holder)
        return False

    def _is_live(self, key: Key, lease: Obj) -> bool:
        return self._clock.monotonic() - self._seen[key].since < self._lasts(lease)

    def _lasts(self, lease: Obj) -> float:
        return float(spec_of(lease).get("leaseDurationSeconds") or self._terms.duration_s)

    async def _take(self, claim: Claim, lease: Obj | None) -> Obj:
        spec = spec_of(lease) if lease is not None else {}
        held = held_spec(spec, claim.identity, self._terms.duration_s, self._clock.micro_timestamp())
        if lease is None:
            metadata = {"name": claim.key.name, "namespace": claim.key.namespace}
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": held}
            return await self._client.create(LEASES, body)
        holder = holder_of(lease)
        seizes = holder not in ("", claim.identity) and self._is_live(claim.key, lease)
        written = await self._client.update(LEASES, {**lease, "spec": held})
        if seizes:
            self._seized_until = self._clock.monotonic() + self._lasts(lease)
            log.warning(
                "a lease is taken from its holder",
                extra={"lease": str(claim.key), "holder": holder, "waits_s": self._lasts(lease)},
            )
        return written
