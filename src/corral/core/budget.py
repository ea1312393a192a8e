"""What one thing may cost those who share its loop, and what happens to it when it costs more.

`Budget` says when a key has been too expensive several times in a row, and for how long it is set aside: at least so long that
it takes a tenth of the loop at most, and twice as long with every time. Times are the processor's, so that a busy machine
makes nobody look expensive; whoever measures hands them in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

SET_ASIDE = "SetAside"
"""The reason of the Event that tells of it, and the condition."""
STEP_S = 1.0
STRIKES = 3
PAUSE_S, MAX_PAUSE_S = 10.0, 320.0
SHARE = 10
REMEMBERED = 10_000
"""So many keys with strikes are remembered; those that are gone by now make room."""

Cpu = Callable[[], float]
K = TypeVar("K", bound=Hashable)


class Budget(Generic[K]):
    """The strikes of keys, and how long those that have too many are set aside."""

    def __init__(self) -> None:
        self._strikes: dict[K, int] = {}

    def spend(self, key: K, longest_s: float) -> float | None:
        """Note what `key` has cost; for how long it has to be set aside, None when it has not."""
        strikes = self._strikes.pop(key, 0) + 1
        if longest_s <= STEP_S:
            return None
        self._strikes[key] = strikes
        if len(self._strikes) > REMEMBERED:
            del self._strikes[next(iter(self._strikes))]
        if strikes < STRIKES:
            return None
        return max(min(PAUSE_S * 2.0 ** min(strikes - STRIKES, 60), MAX_PAUSE_S), SHARE * longest_s)
