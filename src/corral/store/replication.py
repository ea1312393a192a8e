"""How a store in one process is copied to others, and written through: the owner's side, and the messages both sides send.

The owner alone gives revisions and keeps the journal. A replica is told everything that is kept, in order and in groups as the
journal kept them; what it wants to write it prepares down to the last byte and sends as a draft, which the owner checks
against the revision the writer saw, numbers, journals and tells everybody of. So a write costs the owner little more than moving its
bytes, whatever it cost to decide. A counter in shared memory says how far the store has come: who waits until his replica has
come that far reads what has been acknowledged to anybody, whichever process that was.

This module knows bytes, not sockets.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from corral.store.errors import Homeless, Stale, StoreError, TooLarge
from corral.store.journal import JournalWrite
from corral.store.store import Draft, Store
from corral.store.stored import ObjectKey, Stored

PORTION = 256 * 1024
"""Bytes of a snapshot that are sent between two turns of the owner's loop."""

Send = Callable[[bytes], None]


class Change(msgspec.Struct, array_like=True, frozen=True):
    """One version of one object, as it was kept."""

    revision: int
    resource: str
    namespace: str
    name: str
    deleted: bool
    raw: bytes


class Snapshot(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Objects that were there at the beginning, in no particular order."""

    objects: list[Change]


class Loaded(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """The whole of the snapshot has been sent; it is of this revision."""

    revision: int


class Changes(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """What the journal kept together."""

    changes: list[Change]


class Kept(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Drafts of the receiver that were kept: their numbers and revisions. Their changes were sent before."""

    drafts: list[tuple[int, int]]


class Refused(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """A draft that was not kept, and why; of one that came too late, the revision its writer has to see first."""

    draft: int
    reason: str
    message: str
    revision: int = 0


class Void(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """Revisions up to this one that were not told of will never be: what was written under them is lost."""

    revision: int


class Forgotten(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """History up to this revision is no longer kept."""

    revision: int


class Drafted(msgspec.Struct, array_like=True, frozen=True):
    """A draft as it is sent, under a number of its writer's."""

    number: int
    resource: str
    namespace: str
    name: str
    expected: int | None
    head: bytes
    tail: bytes
    deleted: bool
    inside: tuple[str, str, str, int] | None = None

    def draft(self) -> Draft:
        key = ObjectKey(self.resource, self.namespace, self.name)
        inside = (ObjectKey(*self.inside[:3]), self.inside[3]) if self.inside is not None else None
        return Draft(key, self.expected, self.head, self.tail, self.deleted, inside)


class Drafts(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """What a replica wrote in one turn of its loop."""

    drafts: list[Drafted]


FromOwner = Snapshot | Loaded | Changes | Kept | Refused | Void | Forgotten
STALE, HOMELESS, TOO_LARGE, LOST = "stale", "homeless", "too large", "lost"

encode = msgspec.msgpack.Encoder().encode


class Progress:
    """How far a store has come, in memory that its processes share: one writer, any number of readers."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Made anew, or read through the descriptor of one that was made."""
        self.descriptor = os.memfd_create("corral-progress") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, mmap.PAGESIZE)
        self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE)
        self._cells = memoryview(self._memory).cast("Q")  # one cell is written and read in one piece

    @property
    def revision(self) -> int:
        return self._cells[0]

    @revision.setter
    def revision(self, revision: int) -> None:
        self._cells[0] = revision

    def close(self) -> None:
        self._cells.release()
        self._memory.close()
        os.close(self.descriptor)


class Follower:
    """One replica, as the owner sees it."""

    def __init__(self, store: Store, send: Send) -> None:
        self._store = store
        self._send = send
        # A list of references is taken at once; encoding them takes its time, while the store goes on.
        self._objects = [stored for resource in store.resources() for stored in store.scan(resource)]
        self._revision = store.revision
        self._held: list[bytes] | None = []

    def _portions(self) -> Iterator[bytes]:
        objects, self._objects = self._objects, []
        portion: list[Change] = []
        size = 0
        for stored in objects:
            portion.append(_change(stored, deleted=False))
            size += stored.encoded_size()
            if size > PORTION:
                yield encode(Snapshot(portion))
                portion, size = [], 0
        yield encode(Snapshot(portion))
        yield encode(Loaded(self._revision))

    def begin(self) -> Iterator[None]:
        """Send what is there, a portion for each step. What changes meanwhile is sent after it."""
        for portion in self._portions():
            self._send(portion)
            yield
        held, self._held = self._held, None
        for message in held or ():
            self._send(message)

    def tell(self, message: bytes) -> None:
        if self._held is not None:
            self._held.append(message)
        else:
            self._send(message)

    def take(self, sent: Drafts) -> None:
        """Drafts of this replica."""
        for drafted in sent.drafts:
            try:
                self._store.commit(drafted.draft(), _Origin(self, drafted.number))
            except Stale as stale:
                current = stale.current.revision if stale.current is not None else self._store.assigned
                self._refuse(drafted.number, STALE, stale, current)
            except Homeless as error:
                self._refuse(drafted.number, HOMELESS, error)
            except TooLarge as error:
                self._refuse(drafted.number, TOO_LARGE, error)

    def _refuse(self, number: int, reason: str, error: StoreError, revision: int = 0) -> None:
        self.tell(encode(Refused(number, reason, str(error), revision)))


class _Origin(NamedTuple):
    """Whose draft a write was."""

    follower: Follower
    number: int


class Replication:
    """Tells all replicas of one store what becomes of its writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.progress = Progress()
        self.progress.revision = store.revision
        self._followers: list[Follower] = []
        store.follow(self)

    def add(self, send: Send) -> Follower:
        """A new replica, to which `send` leads; `begin` it until everything is there."""
        follower = Follower(self._store, send)
        self._followers.append(follower)
        return follower

    def remove(self, follower: Follower) -> None:
        self._followers.remove(follower)

    def kept(self, writes: Sequence[JournalWrite]) -> None:
        # Before anybody learns that his write is kept, which happens in later turns of the loop.
        self.progress.revision = writes[-1].stored.revision
        if not self._followers:
            return
        changes = encode(Changes([_change(write.stored, deleted=write.deleted) for write in writes]))
        for follower in self._followers:
            follower.tell(changes)
        for follower, drafts in _by_follower(writes).items():
            follower.tell(encode(Kept(drafts)))

    def forgotten(self, revision: int) -> None:
        for follower in self._followers:
            follower.tell(encode(Forgotten(revision)))

    def lost(self, writes: Sequence[JournalWrite], why: str) -> None:
        void = encode(Void(self._store.assigned))
        for follower in self._followers:
            follower.tell(void)
        for follower, drafts in _by_follower(writes).items():
            for number, _ in drafts:
                follower.tell(encode(Refused(number, LOST, why)))


def _change(stored: Stored, *, deleted: bool) -> Change:
    resource, namespace, name = stored.key
    return Change(stored.revision, resource, namespace, name, deleted, stored.raw)


def _by_follower(writes: Sequence[JournalWrite]) -> dict[Follower, list[tuple[int, int]]]:
    """Whose drafts these writes were, by number and revision."""
    found: dict[Follower, list[tuple[int, int]]] = {}
    for write in writes:
        if isinstance(write.origin, _Origin):
            found.setdefault(write.origin.follower, []).append((write.origin.number, write.stored.revision))
    return found
