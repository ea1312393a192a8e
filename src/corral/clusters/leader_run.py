"""Running something in one process at a time: whoever holds the lease runs it, others wait their turn."""

from __future__ import annotations

from typing import Protocol

from corral.client.protocol import Client
from corral.core.meta import Key
from corral.runtime.clock import Clock
from corral.runtime.leader import LeaderElector

_A_WHILE_S = 3600


class Runnable(Protocol):
    """What is started and stopped."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def run_while_leading(runnable: Runnable, client: Client, clock: Clock, lease: Key, identity: str) -> None:
    """Run as long as `identity` holds the lease, which is given back at the end."""
    elector = LeaderElector(client, clock, lease, identity)

    async def work() -> None:
        await runnable.start()
        try:
            while True:
                await clock.sleep(_A_WHILE_S)
        finally:
            await runnable.stop()

    try:
        await elector.run(work)
    finally:
        await elector.release()
