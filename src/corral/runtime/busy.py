"""How busy a loop's thread and the machine are, as shares of a stretch of time."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


class Busy:
    """How much of the time since the last look this thread was computing."""

    def __init__(self) -> None:
        self._looked, self._computed = time.monotonic(), time.thread_time()

    def share(self) -> float:
        now, computed = time.monotonic(), time.thread_time()
        passed, used = now - self._looked, computed - self._computed
        self._looked, self._computed = now, computed
        return used / passed if passed > 0 else 0.0


class IdleCores:
    """How many cores of the machine had nothing to do since the last look; none where that cannot be found out."""

    def __init__(self) -> None:
        self._total, self._idle = self._ticks()

    def count(self) -> float:
        total, idle = self._ticks()
        passed, unused = total - self._total, idle - self._idle
        self._total, self._idle = total, idle
        return (os.cpu_count() or 1) * unused / passed if passed > 0 else 0.0

    @staticmethod
    def _ticks() -> tuple[int, int]:
        try:
            with _STAT.open() as file:
                ticks = [int(word) for word in file.readline().split()[1:9]]
        except (OSError, ValueError):
            return 0, 0
        return sum(ticks), ticks[3] + ticks[4]
