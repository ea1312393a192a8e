"""Waking the many who wait for one event a portion at a time, so that the loop has its turn in between."""

from __future__ import annotations

import asyncio
from collections import deque

WAKES = 100


class Waking:
    """Completes futures, at most WAKES between two turns of the loop, in the order they came."""

    __slots__ = ("_armed", "_left", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._left = WAKES
        self._armed = False

    def wake(self, waiter: asyncio.Future[bool]) -> None:
        """Complete `waiter` with False: now, or when its turn comes."""
        if self._left and not self._waiting:
            waiter.set_result(False)
            self._left -= 1
        else:
            self._waiting.append(waiter)
        self._arm(waiter.get_loop())

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._armed:
            self._armed = True
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._armed, self._left = False, WAKES
        waiting = self._waiting
        while waiting and self._left:
            waiter = waiting.popleft()
            if not waiter.done():  # else it was interrupted, or its watcher has left
                waiter.set_result(False)
                self._left -= 1
        if self._left < WAKES:
            self._arm(loop)
