"""The work queue of a controller: each key at most once, never two workers on one key, retries with back-off.

A key added while it is being worked on is handed out again when the worker is done, so no change is ever lost. Delays
live on one timer heap; an earlier time for a waiting key wins, unless the key is held back.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from corral.core.backoff import doubled

K = TypeVar("K", bound=Hashable)

BASE_DELAY_S = 0.005
MAX_DELAY_S = 1000.0


class WorkQueue(Generic[K]):
    """A deduplicating queue with delays and per-key exponential back-off."""

    def __init__(self, *, base_delay: float = BASE_DELAY_S, max_delay: float = MAX_DELAY_S) -> None:
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._held: set[K] = set()
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._waking = False
        self._closed = False
        self._base_delay = base_delay
        self._max_delay = max_delay

    def __len__(self) -> int:
        """Keys ready to be worked on."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing is ready or being worked on (delayed keys do not count)."""
        return not self._ready and not self._processing

    def add(self, key: K) -> None:
        """Make `key` due now."""
        if self._closed or key in self._dirty or key in self._held:
            return
        self._dirty.add(key)
        self._due.pop(key, None)
        if key not in self._processing:
            self._ready.append(key)
            self._wake_one()

    def add_after(self, key: K, delay: float) -> None:
        """Make `key` due in `delay` seconds, unless it is due earlier already."""
        if delay <= 0:
            self.add(key)
            return
        if self._closed or key in self._dirty or key in self._held:
            return
        due = asyncio.get_running_loop().time() + delay
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        self._arm()

    def add_rate_limited(self, key: K, *, at_least: float = 0.0) -> None:
        """Make `key` due after its back-off, which doubles with each call until `forget`, and not before `at_least`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, max(doubled(self._base_delay, failures, self._max_delay), at_least))

    def hold(self, key: K, delay: float) -> None:
        """Hand out `key`, which is being worked on, in `delay` seconds and not before, whoever adds it meanwhile."""
        self._dirty.discard(key)
        self._due.pop(key, None)
        self.add_after(key, delay)
        self._held.add(key)

    def forget(self, key: K) -> None:
        """End the back-off of `key`."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K | None:
        """The next key, now being worked on; None once the queue is closed and empty."""
        while not self._ready:
            if self._closed:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._waking = False
                    self._wake_one()
                raise
            self._waking = False
        key = self._ready.popleft()
        self._processing.add(key)
        self._dirty.discard(key)
        if self._ready:
            self._wake_one()
        return key

    def done(self, key: K) -> None:
        """The worker is finished with `key`; it becomes ready again if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._wake_one()

    def close(self) -> None:
        """Wake every waiter and refuse new keys."""
        self._closed = True
        self._ready.clear()
        if self._timer is not None:
            self._timer.cancel()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _wake_one(self) -> None:
        """Wake a waiter, unless one is on its way, who wakes the next if there is more to do than he takes: a worker
        that never has to wait does everything by itself, and the others are not disturbed."""
        while self._waiters and not self._waking:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._waking = True

    def _arm(self) -> None:
        due = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_at(due, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self._held.discard(key)
                self.add(key)
        if self._heap and not self._closed:
            self._arm()
