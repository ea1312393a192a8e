"""How much may be sent, how much may come, and how often a client may do what costs us more than it costs the client.

Counting only, without I/O or a clock of its own.
"""

from __future__ import annotations

from collections import deque

from corral.server.http.http2.frames import Code, ConnectionFault

DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = (1 << 31) - 1


def widened(window: int, by: int) -> int:
    """A window of what we may send, after the peer has widened it; a change of settings may make it negative."""
    if window + by > LARGEST_WINDOW:
        raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window is wider than windows can be")
    return window + by


class Arrivals:
    """The window of what a peer may send to the whole connection: what has come is given back in large steps."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def take(self, size: int) -> int:
        """Count what came; how much to give back now, 0 for nothing."""
        self._left -= size
        if self._left < 0:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more was sent than there was room for")
        if self._left > self._size // 2:
            return 0
        given, self._left = self._size - self._left, self._size
        return given


class Places:
    """A number of places for large bodies. Who comes when all are taken waits for the next that is given back."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._holders: set[int] = set()
        self._waiting: deque[int] = deque()

    def ask(self, who: int) -> bool:
        """Whether there is a place now; otherwise `who` is named by a later `leave`."""
        if self._free:
            self._free -= 1
            self._holders.add(who)
            return True
        self._waiting.append(who)
        return False

    def leave(self, who: int) -> int | None:
        """Give back the place, or stop waiting; who has it now, if somebody was waiting."""
        if who not in self._holders:
            if who in self._waiting:
                self._waiting.remove(who)
            return None
        self._holders.remove(who)
        if not self._waiting:
            self._free += 1
            return None
        following = self._waiting.popleft()
        self._holders.add(following)
        return following


class Patience:
    """How often a client may do something useless: `burst` times at once, and `per_second` in the long run."""

    def __init__(self, burst: int, per_second: float, now: float) -> None:
        self._burst, self._per_second = float(burst), per_second
        self._left, self._seen = self._burst, now

    def spend(self, now: float) -> None:
        self._left = min(self._burst, self._left + (now - self._seen) * self._per_second) - 1
        self._seen = now
        if self._left < 0:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many frames that lead to nothing")
