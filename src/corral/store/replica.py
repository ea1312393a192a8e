"""A store whose owner is another process: what is visible there is visible here, and what is written here is kept there.

Reading, paging and watching are those of any store. A write is prepared here and answered when the owner has kept it and it has come
back, so whoever writes through a replica reads his own writes from it. Writes on their way are not known here: one that builds on
something older than the owner has is refused as stale, when the newer state has come.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from corral.core.meta import Obj
from corral.store.errors import Homeless, Stale, StoreError, TooLarge
from corral.store.journal import JournalWrite, Row
from corral.store.replication import (
    HOMELESS,
    STALE,
    TOO_LARGE,
    Change,
    Changes,
    Drafted,
    Drafts,
    Forgotten,
    FromOwner,
    Kept,
    Progress,
    Refused,
    Void,
    encode,
)
from corral.store.store import MAX_BYTES, Retention, Store
from corral.store.stored import ObjectKey, Stored

_encode_object = msgspec.json.Encoder().encode
HISTORY = Retention(seconds=60.0, bytes=16 << 20)
"""Less than the owner keeps, which is there for whoever needs more."""


_REFUSALS = {HOMELESS: Homeless, TOO_LARGE: TooLarge}


class _Outdated(StoreError):
    """A draft builds on something older than this revision."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"outdated at revision {revision}")
        self.revision = revision


class _Owner:
    """The journal of a store that has none: what its owner had at the beginning."""

    immediate = False

    def __init__(self, objects: Iterable[Change], revision: int) -> None:
        self._objects = sorted(objects, key=lambda change: change.revision)
        self._revision = revision

    def load(self) -> Iterator[Row]:
        objects, self._objects = self._objects, []
        for change in objects:
            key = ObjectKey(change.resource, change.namespace, change.name)
            yield Row(change.revision, key, change.deleted, change.raw)

    def floor(self) -> int:
        return self._revision

    def start(self, kept: Callable[[Sequence[JournalWrite]], None], failed: Callable[[Exception], None]) -> None:
        pass

    def append(self, write: JournalWrite) -> None:
        raise AssertionError("a replica sends what it writes to the owner")

    def forget(self, revisions: Sequence[int], compacted: int) -> None:
        pass

    async def close(self) -> None:
        pass


class Replica(Store):
    """`take` what the owner sends; `send` leads to the owner, `mark` is a text that no object contains, and `home` says what has to
    be there for an object to be created."""

    def __init__(
        self,
        objects: Iterable[Change],
        revision: int,
        progress: Progress,
        send: Callable[[bytes], None],
        *,
        mark: str,
        now: Callable[[], float],
        home: Callable[[ObjectKey], ObjectKey | None],
        retention: Retention = HISTORY,
    ) -> None:
        super().__init__(_Owner(objects, revision), now=now, retention=retention)
        self._progress = progress
        self._send = send
        self._mark = mark
        self._home = home
        self._numbers = itertools.count(1)
        self._drafts: list[Drafted] = []
        self._waiting: dict[int, asyncio.Future[Stored]] = {}
        self._behind: list[tuple[int, int, asyncio.Future[None]]] = []
        self._latest: dict[int, Stored] = {}  # by revision, of the group that came last

    # -- what differs from a store of one's own ---------------------------------------------------------------------

    def head(self, key: ObjectKey) -> Stored | None:
        return self.get(key)

    async def settled(self) -> None:
        """What is on its way to disk is not known here, so nothing was decided by it."""

    async def put(self, key: ObjectKey, obj: Obj, expected: int | None = None) -> Stored:
        return await self._write(key, obj, expected, deleted=False)

    async def delete(self, key: ObjectKey, expected: int | None = None, obj: Obj | None = None) -> Stored:
        current = self.get(key)
        if current is None:
            raise Stale(key, expected or 0, None)
        return await self._write(key, obj if obj is not None else current.obj, expected, deleted=True)

    async def close(self) -> None:
        self.lose("the process that owns the store is gone")

    # -- what the owner says ----------------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether everything is here that has been acknowledged to anybody."""
        return self._revision >= self._progress.revision

    async def current(self) -> None:
        """Return when everything is here that had been acknowledged to anybody when this was called."""
        await self._reached(self._progress.revision)

    def take(self, message: FromOwner) -> None:
        """Take in what the owner has to say after the snapshot."""
        match message:
            case Changes(changes):
                self._latest = {change.revision: self._changed(change) for change in changes}
                self._pass_those_behind()
            case Kept(drafts):
                for number, revision in drafts:
                    self._settle(number, self._latest[revision])
            case Refused():
                self._refused(message)
            case Forgotten(revision):
                self.compact(revision)
            case Void(revision):
                self._revision = self._assigned = max(self._revision, revision)
                self._pass_those_behind()

    def lose(self, why: str) -> None:
        """The owner is gone: nobody knows what became of the writes that were sent."""
        self._trouble = why
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(StoreError(why))
                future.exception()
        behind, self._behind = self._behind, []
        for _, _, late in behind:
            if not late.done():
                late.set_exception(StoreError(why))
                late.exception()

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _write(self, key: ObjectKey, obj: Obj, expected: int | None, *, deleted: bool) -> Stored:
        if self._trouble:
            raise StoreError(self._trouble)
        metadata = {**obj["metadata"], "resourceVersion": self._mark}
        head, _, tail = _encode_object({**obj, "metadata": metadata}).partition(self._mark.encode())
        if len(head) + len(tail) > MAX_BYTES:
            raise TooLarge(f"{key} has more than {MAX_BYTES} bytes")
        inside = self._seen(self._home(key)) if expected == 0 else None
        number = next(self._numbers)
        written: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._waiting[number] = written
        if not self._drafts:
            asyncio.get_running_loop().call_soon(self._send_drafts)
        self._drafts.append(Drafted(number, *key, expected, head, tail, deleted, inside))
        try:
            return await written
        except _Outdated as outdated:
            await self._reached(outdated.revision)
            raise Stale(key, expected or 0, self.get(key)) from None

    def _seen(self, home: ObjectKey | None) -> tuple[str, str, str, int] | None:
        if home is None:
            return None
        stored = self.get(home)
        return (*home, stored.revision if stored is not None else 0)

    def _send_drafts(self) -> None:
        """What was written in one turn of the loop goes together."""
        drafts, self._drafts = self._drafts, []
        self._send(encode(Drafts(drafts)))

    def _changed(self, change: Change) -> Stored:
        key = ObjectKey(change.resource, change.namespace, change.name)
        stored = Stored(key, change.revision, raw=change.raw, cache=self._cache)
        self._assigned = change.revision
        self._publish((JournalWrite(stored, self.get(key), change.deleted),))
        return stored

    def _settle(self, number: int, outcome: Stored | Exception) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
            future.exception()  # a caller that went away leaves nobody to look at it
        else:
            future.set_result(outcome)

    def _refused(self, refused: Refused) -> None:
        if refused.reason == STALE:
            self._settle(refused.draft, _Outdated(refused.revision))
        else:
            self._settle(refused.draft, _REFUSALS.get(refused.reason, StoreError)(refused.message))

    async def _reached(self, revision: int) -> None:
        if self._revision >= revision:
            return
        if self._trouble:
            raise StoreError(self._trouble)
        reached = asyncio.get_running_loop().create_future()
        heapq.heappush(self._behind, (revision, next(self._numbers), reached))
        await reached

    def _pass_those_behind(self) -> None:
        while self._behind and self._behind[0][0] <= self._revision:
            reached = heapq.heappop(self._behind)[2]
            if not reached.done():
                reached.set_result(None)
