"""What changed among pods elsewhere, in order, for watchers that come and go.

Every change is stamped with the manager's revision at that moment, so that a watch can go on after a list. A list leaves a
mark, because many changes may happen within one revision of the manager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from corral.core.errors import Expired
from corral.core.remote_pods import PodChange

KEPT = 4000
MARKS = 200


class _Entry(NamedTuple):
    number: int
    revision: int
    change: PodChange


class PodChangeFeed:
    """One watcher's changes."""

    def __init__(self, history: History, held: list[PodChange]) -> None:
        self._history = history
        self._held = held
        self._arrived = asyncio.Event()
        if held:
            self._arrived.set()

    def put(self, change: PodChange) -> None:
        self._held.append(change)
        self._arrived.set()

    def poll(self) -> list[PodChange]:
        found, self._held = self._held, []
        self._arrived.clear()
        return found

    async def wait(self) -> None:
        await self._arrived.wait()

    def close(self) -> None:
        self._history.feeds.pop(self, None)


class History:
    """The last changes, and who follows them."""

    def __init__(self) -> None:
        self.feeds: dict[PodChangeFeed, None] = {}
        self._entries: deque[_Entry] = deque()
        self._marks: dict[int, int] = {}
        self._number = 0
        self._floor = 0

    def start(self, revision: int) -> None:
        """Forget everything; what was before `revision` is not known."""
        self._entries.clear()
        self._marks.clear()
        self._floor = revision

    def add(self, revision: int, change: PodChange) -> None:
        self._number += 1
        self._entries.append(_Entry(self._number, revision, change))
        if len(self._entries) > KEPT:
            self._floor = self._entries.popleft().revision + 1
        for feed in self.feeds:
            feed.put(change)

    def mark(self, revision: int) -> None:
        """A list of this revision was answered with what is known now."""
        self._marks.setdefault(revision, self._number)
        if len(self._marks) > MARKS:
            del self._marks[next(iter(self._marks))]

    def follow(self, after: int | None) -> PodChangeFeed:
        """Changes after a revision, or only those to come."""
        held: list[PodChange] = []
        if after is not None:
            if after < self._floor:
                raise Expired(f"too old resource version: {after} ({self._floor})")
            mark = self._marks.get(after)
            held = [
                entry.change
                for entry in self._entries
                if (entry.number > mark if mark is not None else entry.revision >= after)
            ]
        feed = PodChangeFeed(self, held)
        self.feeds[feed] = None
        return feed
