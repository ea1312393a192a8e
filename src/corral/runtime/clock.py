"""Time, injected. Nothing outside this module reads a clock or sleeps on one.

`WallClock` is the machine's. `VirtualClock` reads the running loop, so that under the virtual-time loop a month passes
in seconds; its epoch is fixed, so that runs are repeatable.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from corral.core.timestamps import format_micro, format_time

VIRTUAL_EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Clock(Protocol):
    """What time it is, and waiting for it to pass."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timestamp(self) -> str:
        """Now, as Kubernetes writes it: whole seconds, UTC."""
        ...

    def micro_timestamp(self) -> str:
        """Now with microseconds."""
        ...


class WallClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timestamp(self) -> str:
        return format_time(time.time())

    def micro_timestamp(self) -> str:
        return format_micro(time.time())


class VirtualClock:
    """The time of the running event loop, counted from a fixed epoch; `skew` seconds ahead of its peers."""

    def __init__(self, epoch: float = VIRTUAL_EPOCH, skew: float = 0.0) -> None:
        self.epoch = epoch
        self.skew = skew

    def now(self) -> float:
        return self.epoch + self.skew + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timestamp(self) -> str:
        return format_time(self.now())

    def micro_timestamp(self) -> str:
        return format_micro(self.now())
