"""Measuring what a reconcile costs those who share its loop; `core.budget` says what it may cost.

A coroutine has the loop for itself between two of its waits. `Meter` notes the longest such step in time of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

from corral.core.budget import Cpu
from corral.runtime.clock import Clock, WallClock

T = TypeVar("T")


def cpu_of(clock: Clock) -> Cpu | None:
    """The processor's time of this thread; None on virtual time, where nothing may depend on it."""
    return time.thread_time if isinstance(clock, WallClock) else None


class Meter(Generic[T]):
    """Awaits a coroutine, and knows its longest step."""

    def __init__(self, work: Coroutine[Any, Any, T], cpu: Cpu) -> None:
        self._work = work
        self._cpu = cpu
        self.longest_s = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        step, given = self._work.send, None
        try:
            while True:
                began = self._cpu()
                try:
                    awaited = step(given)
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]  # T, by the type of the coroutine
                finally:
                    self.longest_s = max(self.longest_s, self._cpu() - began)
                try:
                    given, step = (yield awaited), self._work.send
                except BaseException as thrown:  # of whoever cancels: it is the coroutine's to handle
                    given, step = thrown, self._work.throw
        finally:
            self._work.close()
