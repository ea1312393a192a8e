"""Letting children be made a step at a time: who just made a whole step pauses before the next."""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.pods.growth import PAUSE_S, STEP
from corral.runtime.clock import Clock


class Steps:
    """When each owner may go on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next: dict[Key, float] = {}

    def room(self, key: Key) -> int:
        """How many children may be made now."""
        return 0 if self.pause(key) is not None else STEP

    def made(self, key: Key, count: int) -> None:
        """So many children were made, or were about to be."""
        if count >= STEP:
            self._next[key] = self._clock.monotonic() + PAUSE_S

    def pause(self, key: Key) -> float | None:
        """Seconds until the next step, None when there is nothing to wait for."""
        due = self._next.get(key)
        if due is None:
            return None
        left = due - self._clock.monotonic()
        if left <= 0:
            del self._next[key]
            return None
        return left

    def wait(self, key: Key, other: float | None = None) -> float | None:
        """The shorter of the pause and another time to wait."""
        waits = [seconds for seconds in (self.pause(key), other) if seconds is not None]
        return min(waits, default=None)

    def forget(self, key: Key) -> None:
        self._next.pop(key, None)
