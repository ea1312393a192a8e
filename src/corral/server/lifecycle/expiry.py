"""Events are forgotten an hour after their last change, and the oldest earlier where there are very many."""

from __future__ import annotations

import asyncio
from collections import deque

from corral.runtime.controller import Manager
from corral.server.api import Api
from corral.store import Event, ObjectKey, StoreError

TTL_S = 3600.0
MOST = 100_000
BUCKET = "events"


class EventExpiry:
    """Deletes Event objects when their time is up, or when there are too many. Sleeps while there are none."""

    def __init__(self, api: Api, manager: Manager, ttl: float = TTL_S, most: int = MOST) -> None:
        self._api = api
        self._manager = manager
        self._ttl = ttl
        self._most = most
        self._due: deque[tuple[float, ObjectKey, int]] = deque()
        self._some = asyncio.Event()
        self._too_many = asyncio.Event()
        now = self._api.clock.now
        self._api.store.observe(self._changed)
        if self._api.store.count(BUCKET):
            started = now()
            self._due.extend(
                (started + self._ttl, stored.key, stored.revision) for stored in self._api.store.scan(BUCKET)
            )
            self._some.set()
        manager.run_task(self._run, "event expiry")

    def _changed(self, event: Event) -> None:
        if event.stored.key.resource == BUCKET and event.type != "DELETED":
            self._due.append((self._api.clock.now() + self._ttl, event.stored.key, event.revision))
            self._some.set()
            if self._is_crowded():
                self._too_many.set()

    def _is_crowded(self) -> bool:
        return self._api.store.count(BUCKET) > self._most

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            wait = self._due[0][0] - self._api.clock.now()
            if wait > 0 and not self._is_crowded():
                await self._until_crowded(wait)
            self._too_many.clear()
            await self._expire(self._api.clock.now())
            if not self._due:
                self._some.clear()

    async def _until_crowded(self, most_s: float) -> None:
        """Sleep for so long, or until there are too many."""
        sleeps = asyncio.ensure_future(self._api.clock.sleep(most_s))
        crowd = asyncio.ensure_future(self._too_many.wait())
        try:
            await asyncio.wait((sleeps, crowd), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeps.cancel()
            crowd.cancel()

    async def _expire(self, now: float) -> None:
        store = self._api.store
        while self._due and (self._due[0][0] <= now or self._is_crowded()):
            _, key, revision = self._due.popleft()
            current = store.head(key)
            if current is not None and current.revision == revision:
                try:
                    await store.delete(key, revision)
                except StoreError:
                    continue  # it changed in this moment, or the disk refused; a later change queues it again
