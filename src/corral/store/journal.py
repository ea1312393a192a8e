"""Where writes go before anyone may see them. The memory journal keeps nothing and accepts at once: it serves
simulation and tests, with no threads and a deterministic order. `sqlite.py` is the durable one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from corral.store.stored import ObjectKey, Stored


class JournalWrite:
    """One write on its way to the journal; `done` resolves when it is kept. `origin` says who outside this process waits for it."""

    __slots__ = ("deleted", "done", "origin", "previous", "stored")

    def __init__(self, stored: Stored, previous: Stored | None, deleted: bool, origin: object = None):
        self.stored = stored
        self.previous = previous
        self.deleted = deleted
        self.origin = origin
        self.done: asyncio.Future[None] | None = None


class Row(NamedTuple):
    """One journalled version, as read back at start."""

    revision: int
    key: ObjectKey
    deleted: bool
    raw: bytes


class Journal(Protocol):
    """Keeps writes in order. `kept` is called on the event loop with writes in the order they were appended."""

    immediate: bool  # append() keeps the write before it returns

    def load(self) -> Iterator[Row]:
        """Everything kept, in order of revision."""
        ...

    def floor(self) -> int:
        """The revision up to which history was compacted; later ones are in the rows."""
        ...

    def start(self, kept: Callable[[Sequence[JournalWrite]], None], failed: Callable[[Exception], None]) -> None: ...

    def append(self, write: JournalWrite) -> None: ...

    def forget(self, revisions: Sequence[int], compacted: int) -> None:
        """Drop versions that no reader can ask for any more."""
        ...

    async def close(self) -> None: ...


class MemoryJournal:
    """Keeps nothing; a write is accepted at once."""

    immediate = True

    def load(self) -> Iterator[Row]:
        return iter(())

    def floor(self) -> int:
        return 0

    def start(self, kept: Callable[[Sequence[JournalWrite]], None], failed: Callable[[Exception], None]) -> None:
        self._kept = kept

    def append(self, write: JournalWrite) -> None:
        self._kept((write,))

    def forget(self, revisions: Sequence[int], compacted: int) -> None:
        pass

    async def close(self) -> None:
        pass
