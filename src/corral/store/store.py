"""The store itself: gives revisions, checks expectations, publishes what the journal has kept, and forgets old history.

All methods run on one event loop. Between `put` and the journal's word a write is pending: `head` shows it, so that the
next writer of the same object builds on it, while `get`, `list` and watches do not. Pending writes are kept or lost
together and in order, so building on one is safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from corral.core.meta import Obj
from corral.store.bucket import Bucket, Match
from corral.store.errors import Compacted, Homeless, Stale, StoreError, TooLarge
from corral.store.journal import Journal, JournalWrite, MemoryJournal
from corral.store.stored import DecodedCache, Event, ObjectKey, Stored
from corral.store.waking import Waking
from corral.store.watch import StoreWatch

MAX_BYTES = 1_572_864  # what a Kubernetes server takes in one object


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept for watches and consistent pages. Beyond `bytes` of superseded versions the oldest go early."""

    seconds: float = 300.0
    bytes: int = 256 << 20
    step: float = 5.0  # history is trimmed at most this often, and in pieces of that length


class Page(NamedTuple):
    """Part of a list, consistent at `revision`. `last` is where the next page starts behind, None at the end."""

    items: list[Stored]
    revision: int
    last: tuple[str, str] | None
    remaining: int


class Draft(NamedTuple):
    """A write that another process has prepared: everything but its revision, which goes between `head` and `tail`."""

    key: ObjectKey
    expected: int | None
    head: bytes
    tail: bytes
    deleted: bool = False
    inside: tuple[ObjectKey, int] | None = None
    """What has to be as its writer saw it, such as its namespace: the key and the revision."""


class Follower(Protocol):
    """Who is told what becomes of all writes."""

    def kept(self, writes: Sequence[JournalWrite]) -> None: ...

    def lost(self, writes: Sequence[JournalWrite], why: str) -> None: ...

    def forgotten(self, revision: int) -> None: ...


class Store:
    """All objects of one cluster."""

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        now: Callable[[], float],
        retention: Retention | None = None,
        decoded: int = 2048,
        limit: int = MAX_BYTES,
    ):
        self._journal: Journal = journal or MemoryJournal()
        self._now = now
        self._limit = limit
        self._retention = retention or Retention()
        self._cache = None if self._journal.immediate else DecodedCache(decoded)
        self._buckets: dict[str, Bucket] = {}
        self._waking = Waking()
        self._pending: dict[ObjectKey, JournalWrite] = {}
        self._unkept: deque[JournalWrite] = deque()
        self._owned: dict[str, dict[ObjectKey, None]] | None = None
        self._marks: deque[tuple[float, int]] = deque()  # (time, revision): nothing later was published before
        self._barriers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._weigh: Callable[[Stored], int] = _nominal if self._journal.immediate else _measured
        self._observers: list[Callable[[Event], None]] = []
        self._followers: list[Follower] = []
        self._superseded = 0  # bytes of old versions that history holds
        self._trimmed = now()
        self._compacted = self._assigned = self._journal.floor()
        leftover = self._load()
        self._revision = self._assigned
        self._trouble = ""
        self._journal.start(self._publish, self._lose)
        if leftover:
            self._journal.forget(leftover, self._compacted)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The last revision that is visible."""
        return self._revision

    @property
    def trouble(self) -> str:
        """Why the last write was not kept; empty when it was."""
        return self._trouble

    @property
    def assigned(self) -> int:
        """The last revision that was given out; it may still be on its way to disk."""
        return self._assigned

    @property
    def compacted(self) -> int:
        """The oldest revision from which a watch or an exact list can still start."""
        return self._compacted

    def get(self, key: ObjectKey) -> Stored | None:
        """The object as kept and visible."""
        bucket = self._buckets.get(key.resource)
        return bucket.get(key.namespace, key.name) if bucket is not None else None

    def head(self, key: ObjectKey) -> Stored | None:
        """The object as the next writer must see it, pending writes included."""
        write = self._pending.get(key)
        if write is not None:
            return None if write.deleted else write.stored
        return self.get(key)

    def count(self, resource: str, namespace: str = "") -> int:
        bucket = self._buckets.get(resource)
        return bucket.count(namespace) if bucket is not None else 0

    def scan(self, resource: str, namespace: str = "") -> Iterator[Stored]:
        """The visible objects of a resource in key order. Do not write while iterating."""
        bucket = self._buckets.get(resource)
        return bucket.scan(namespace) if bucket is not None else iter(())

    def named(self, resource: str, name: str) -> list[Stored]:
        """The visible objects of this name, in whatever namespace."""
        bucket = self._buckets.get(resource)
        spaces = bucket.partitions.values() if bucket is not None else ()
        return [partition.items[name] for partition in spaces if name in partition.items]

    def page(
        self,
        resource: str,
        namespace: str = "",
        *,
        match: Match | None = None,
        limit: int = 0,
        after: tuple[str, str] | None = None,
        revision: int | None = None,
    ) -> Page:
        """Objects in key order as of `revision`; at most `limit` of those that match, from behind `after`."""
        if revision is not None and revision < self._compacted:
            raise Compacted(revision, self._compacted)
        at = self._revision if revision is None else revision
        bucket = self._buckets.get(resource)
        if bucket is None:
            return Page([], at, None, 0)
        found = bucket.scan(namespace, after, revision)
        if match is not None:
            found = filter(match, found)
        if not limit:
            return Page(list(found), at, None, 0)
        items = list(islice(found, limit))
        if match is not None:
            # How many match further on is never told, so one is enough to know.
            following = sum(1 for _ in islice(found, 1))
        elif revision is None or revision >= bucket.revision:
            following = bucket.count_after(namespace, after) - len(items)
        else:
            following = sum(1 for _ in found)
        last = items[-1].key[1:] if following else None
        return Page(items, at, last, following)

    def owned_by(self, uid: str) -> list[ObjectKey]:
        """The keys of visible objects that name `uid` as an owner, oldest reference first."""
        return list(self._owner_index().get(uid, ()))

    def resources(self) -> list[str]:
        """Resources that have or had objects, by name."""
        return sorted(self._buckets)

    # -- watching -----------------------------------------------------------------------------------------------------

    def watch(self, resource: str, namespace: str = "", *, after: int) -> StoreWatch:
        """Changes later than revision `after`, which may lie in the future."""
        if after < self._compacted:
            raise Compacted(after, self._compacted)
        bucket = self._bucket(resource)
        return StoreWatch(bucket, bucket.position_after(after), after, namespace)

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Call `observer` with every change of any resource as it becomes visible. It must neither write nor fail."""
        self._observers.append(observer)

    def follow(self, follower: Follower) -> None:
        """Tell `follower` of everything that is kept, group by group, before anybody who waits for it; and of what was lost."""
        self._followers.append(follower)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def put(self, key: ObjectKey, obj: Obj, expected: int | None = None) -> Stored:
        """Store `obj`, which now belongs to the store, under the next revision. `expected` is the revision the writer
        saw (0: nothing there); None overwrites."""
        previous = self._expect(key, expected)
        revision = self._assigned + 1
        metadata = {**obj["metadata"], "resourceVersion": str(revision)}
        stored = Stored(key, revision, obj={**obj, "metadata": metadata}, cache=self._cache)
        self._check_size(stored)
        self._assigned = revision
        await self._append(JournalWrite(stored, previous, deleted=False))
        return stored

    async def delete(self, key: ObjectKey, expected: int | None = None, obj: Obj | None = None) -> Stored:
        """Remove the object. What watchers see as its last state is `obj` if given, under the deletion's revision."""
        previous = self._expect(key, expected)
        if previous is None:
            raise Stale(key, expected or 0, None)
        revision = self._assigned = self._assigned + 1
        final = obj if obj is not None else previous.obj
        metadata = {**final["metadata"], "resourceVersion": str(revision)}
        stored = Stored(key, revision, obj={**final, "metadata": metadata}, cache=self._cache)
        await self._append(JournalWrite(stored, previous, deleted=True))
        return stored

    def commit(self, draft: Draft, origin: object) -> None:
        """Take in a write that another process has prepared. Followers are told, by its `origin`, when it is kept or lost."""
        key = draft.key
        previous = self._expect(key, draft.expected)
        if draft.deleted and previous is None:
            raise Stale(key, draft.expected or 0, None)
        if draft.inside is not None:
            inside, seen = draft.inside
            home = self.head(inside)
            if home is None or home.revision != seen:
                raise Homeless(f"{key} cannot be created: {inside} has changed")
        revision = self._assigned + 1
        stored = Stored(key, revision, raw=b"%b%d%b" % (draft.head, revision, draft.tail), cache=self._cache)
        self._check_size(stored)
        self._assigned = revision
        self._enqueue(JournalWrite(stored, previous, draft.deleted, origin))

    async def settled(self) -> None:
        """Return when everything written so far is visible."""
        if self._unkept:
            barrier = asyncio.get_running_loop().create_future()
            self._barriers.append((self._assigned, barrier))
            await barrier

    async def close(self) -> None:
        """Keep what is pending and let go of the journal."""
        await self._journal.close()

    def compact(self, revision: int) -> None:
        """Forget history up to `revision`: watches and exact lists can no longer start before it."""
        revision = min(revision, self._revision)
        if revision <= self._compacted:
            return
        self._compacted = revision
        self._journal.forget(self._forget(revision), revision)
        for follower in self._followers:
            follower.forgotten(revision)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _bucket(self, resource: str) -> Bucket:
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Bucket(resource, self._waking)
        return bucket

    def _expect(self, key: ObjectKey, expected: int | None) -> Stored | None:
        current = self.head(key)
        if expected is not None and expected != (current.revision if current is not None else 0):
            raise Stale(key, expected, current)
        return current

    def _check_size(self, stored: Stored) -> None:
        if self._limit and stored.encoded_size() > self._limit:
            raise TooLarge(f"{stored.key} has more than {self._limit} bytes")

    async def _append(self, write: JournalWrite) -> None:
        if not self._journal.immediate:
            write.done = asyncio.get_running_loop().create_future()
        self._enqueue(write)
        if write.done is not None:
            await write.done

    def _enqueue(self, write: JournalWrite) -> None:
        if self._journal.immediate:
            self._journal.append(write)
            return
        write.stored.encoded_size()  # encoded here, so that the journal's thread only moves bytes
        self._journal.append(write)
        self._pending[write.stored.key] = write
        self._unkept.append(write)

    def _publish(self, writes: Sequence[JournalWrite]) -> None:
        """The journal has these: show them, in order."""
        self._trouble = ""
        pending, unkept = self._pending, self._unkept
        for write in writes:
            stored = write.stored
            self._show(write)
            if unkept and unkept[0] is write:
                unkept.popleft()
                if pending.get(stored.key) is write:
                    del pending[stored.key]
                if write.done is not None and not write.done.done():
                    write.done.set_result(None)
        self._revision = writes[-1].stored.revision
        for follower in self._followers:
            follower.kept(writes)
        if self._barriers:
            self._pass_barriers(self._revision)
        self._trim()

    def _pass_barriers(self, revision: int) -> None:
        while self._barriers and self._barriers[0][0] <= revision:
            _, barrier = self._barriers.popleft()
            if not barrier.done():
                barrier.set_result(None)

    def _show(self, write: JournalWrite) -> None:
        stored, previous = write.stored, write.previous
        if previous is not None:
            self._superseded += self._weigh(previous)
        event = Event(_event_type(previous, write.deleted), stored, previous)
        self._bucket(stored.key.resource).publish(event)
        if self._owned is not None:
            self._index_owners(stored, previous, write.deleted)
        for observer in self._observers:
            observer(event)

    def _lose(self, error: Exception) -> None:
        """The journal failed: nothing pending was kept, and nothing that builds on it may be."""
        self._trouble = f"the journal could not keep the write: {error}"
        lost, self._unkept = list(self._unkept), deque()
        self._pending.clear()
        for write in lost:
            if write.done is not None and not write.done.done():
                write.done.set_exception(StoreError(self._trouble))
                write.done.exception()  # a caller that went away leaves nobody to look at it
        for follower in self._followers:
            follower.lost(lost, self._trouble)
        self._pass_barriers(self._assigned)

    def _trim(self) -> None:
        now = self._now()
        if self._superseded > self._retention.bytes and len(self._marks) > 1:
            self.compact(self._marks.popleft()[1])  # little at a time: everybody waits for it
        if now - self._trimmed < self._retention.step:
            return
        self._trimmed = now
        horizon = now - self._retention.seconds
        while self._marks and self._marks[0][0] <= horizon:
            self.compact(self._marks.popleft()[1])
        while self._marks and self._marks[0][1] <= self._compacted:
            self._marks.popleft()
        self._marks.append((now, self._revision))

    def _forget(self, revision: int) -> list[int]:
        """Drop events up to `revision`; return the versions nobody can reach any more, a tombstone after its object."""
        gone: list[int] = []
        for bucket in self._buckets.values():
            for event in bucket.forget(revision):
                if event.previous is not None:
                    gone.append(event.previous.revision)
                    self._superseded -= self._weigh(event.previous)
                if event.type == "DELETED":
                    gone.append(event.revision)
        return gone

    def _load(self) -> list[int]:
        """Rebuild state and history; return versions that an interrupted compaction left behind."""
        for revision, key, deleted, raw in self._journal.load():
            stored = Stored(key, revision, raw=raw, cache=self._cache)
            bucket = self._bucket(key.resource)
            previous = bucket.get(key.namespace, key.name)
            self._assigned = max(self._assigned, revision)
            if previous is not None:
                self._superseded += self._weigh(previous)
            bucket.load(Event(_event_type(previous, deleted), stored, previous))
        for bucket in self._buckets.values():
            bucket.loaded()
        if self._assigned:
            self._marks.append((self._now(), self._assigned))
        return self._forget(self._compacted)

    def _owner_index(self) -> dict[str, dict[ObjectKey, None]]:
        if self._owned is None:
            self._owned = {}
            for bucket in self._buckets.values():
                for stored in bucket.scan(""):
                    self._index_owners(stored, None, deleted=False)
        return self._owned

    def _index_owners(self, stored: Stored, previous: Stored | None, deleted: bool) -> None:
        assert self._owned is not None
        new = () if deleted else stored.owners
        old = previous.owners if previous is not None else ()
        if new == old:
            return
        for uid in old:
            if uid not in new:
                keys = self._owned.get(uid, {})
                keys.pop(stored.key, None)
                if not keys:
                    self._owned.pop(uid, None)
        for uid in new:
            self._owned.setdefault(uid, {})[stored.key] = None


def _event_type(previous: Stored | None, deleted: bool) -> str:
    if deleted:
        return "DELETED"
    return "ADDED" if previous is None else "MODIFIED"


def _measured(stored: Stored) -> int:
    return len(stored.raw)


def _nominal(stored: Stored) -> int:
    """What an old version is taken to weigh where nothing is encoded until somebody asks."""
    return 2048
