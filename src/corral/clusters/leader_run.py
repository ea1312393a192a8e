"""Running something in one process at a time: whoever holds its leases runs it, others wait their turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from corral.client.protocol import Client
from corral.core.meta import Key
from corral.runtime.clock import Clock
from corral.runtime.leader import Claim, LeaderElector, LeaseTerms
from corral.runtime.tenure import Tenure

_A_WHILE_S = 3600


class Runnable(Protocol):
    """What is started and stopped."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Contender:
    """A process that may lead: how it reaches the leases, and what it is called there."""

    client: Client
    clock: Clock
    identity: str
    terms: LeaseTerms = field(default_factory=LeaseTerms)

    async def lead(
        self,
        claims: Sequence[Claim],
        work: Callable[[], Awaitable[None]],
        waits_for: Callable[[Claim, str], None] | None = None,
        tenure: Tenure | None = None,
    ) -> None:
        """Do `work` for as long as all leases are held; they are given back at the end, so that the next need not wait. `tenure` says
        to others how long they are."""
        elector = LeaderElector(self.client, self.clock, claims, self.terms, waits_for, tenure)
        try:
            await elector.run(work)
        finally:
            await elector.release()


async def run_while_leading(runnable: Runnable, contender: Contender, *leases: Key) -> None:
    """Run as long as the contender holds the leases."""

    async def work() -> None:
        try:
            await runnable.start()
            while True:
                await contender.clock.sleep(_A_WHILE_S)
        finally:
            await runnable.stop()

    await contender.lead([Claim(lease, contender.identity) for lease in leases], work)
