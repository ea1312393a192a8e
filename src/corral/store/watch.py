"""Following the changes of one resource from a revision on, without gap or repetition.

A watch owns no queue: it is a position in the history its bucket keeps anyway. However many watchers there are, an
event is stored once, and publishing one touches only the watches that sleep, which wake in portions. A watch that falls behind the retained
history has overflowed and is told to start again (`Compacted`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from corral.store.errors import Compacted

if TYPE_CHECKING:
    from corral.store.bucket import Bucket
    from corral.store.stored import Event

BATCH = 1000


class StoreWatch:
    """Events of a bucket, optionally of one namespace, from a position on."""

    __slots__ = ("_bucket", "_closed", "_namespace", "_position", "_reached", "_waited", "_waiter")

    def __init__(self, bucket: Bucket, position: int, reached: int, namespace: str = ""):
        self._bucket = bucket
        self._position = position
        self._namespace = namespace
        self._reached = reached
        self._waiter: asyncio.Future[bool] | None = None  # True: interrupted
        self._closed = False
        self._waited = True

    def poll(self) -> list[Event]:
        """Events that are there now, at most one batch; empty when the watch has caught up."""
        bucket = self._bucket
        start = self._position - bucket.first
        if start < 0:
            oldest = bucket.events[0].revision - 1 if bucket.events else bucket.revision
            raise Compacted(self._reached, oldest)
        while True:
            batch = bucket.events[start : start + BATCH]
            if not batch:
                return batch
            start += len(batch)
            self._position += len(batch)
            self._reached = batch[-1].revision
            if self._namespace:
                namespace = self._namespace
                batch = [event for event in batch if event.stored.key.namespace == namespace]
            if batch:
                return batch

    async def next(self) -> list[Event]:
        """The next batch, waiting for one; may be empty when the watch was closed or interrupted."""
        if not self._waited:
            await asyncio.sleep(0)  # others must have their turn, however far behind this watch is
        self._waited = False
        batch = self.poll()
        while not batch and not self._closed:
            self._waited = True
            self._sleep()
            assert self._waiter is not None
            try:
                interrupted = await self._waiter
            finally:
                self._waiter = None
                self._rouse()
            batch = self.poll()
            if interrupted:
                break
        return batch

    def wake(self, position: int) -> None:
        """Called by the bucket when an event at `position` concerns this sleeping watch."""
        # Whatever lies between was of no concern, or the bucket would have called earlier.
        self._position = position
        if self._waiter is not None and not self._waiter.done():
            self._bucket.waking.wake(self._waiter)

    def interrupt(self) -> None:
        """Make a waiting `next` return at once with nothing."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    def close(self) -> None:
        self._closed = True
        self._rouse()
        self.interrupt()

    def _sleep(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        bucket = self._bucket
        if self._namespace:
            bucket.idle_in.setdefault(self._namespace, {})[self] = None
        else:
            bucket.idle[self] = None

    def _rouse(self) -> None:
        """Leave the sleepers; what was published to others meanwhile did not concern this watch."""
        bucket = self._bucket
        sleepers = bucket.idle_in.get(self._namespace) if self._namespace else bucket.idle
        if sleepers is not None and sleepers.pop(self, True) is None:
            if self._namespace and not sleepers:
                del bucket.idle_in[self._namespace]
            self._position = bucket.first + len(bucket.events)
