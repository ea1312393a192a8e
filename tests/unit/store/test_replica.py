"""A replica shows what its owner has kept, and writes through it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from corral.core.meta import Obj
from corral.store import MemoryJournal, ObjectKey, SqliteJournal, Stale, Store, StoreError, TooLarge
from corral.store.errors import Homeless
from corral.store.journal import JournalWrite
from corral.store.replica import Replica
from corral.store.replication import Change, Drafts, Follower, FromOwner, Loaded, Progress, Replication, Snapshot

decode_from_owner = msgspec.msgpack.Decoder(FromOwner).decode
decode_drafts = msgspec.msgpack.Decoder(Drafts).decode
MARK = "\ue000revision\ue000"


def key(name: str, resource: str = "configmaps", namespace: str = "default") -> ObjectKey:
    return ObjectKey(resource, namespace, name)


def obj(name: str, value: str = "") -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def home(of: ObjectKey) -> ObjectKey | None:
    return ObjectKey("namespaces", "", of.namespace) if of.namespace else None


class Pair:
    """A store and a replica of it in one loop; what they send each other takes `delay` turns."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.replication = Replication(store)
        self._sent: list[bytes] = []
        self._replica: Replica | None = None
        self.follower: Follower = self.replication.add(self._arrives)
        for _ in self.follower.begin():
            pass
        objects: list[Change] = []
        revision = 0
        for frame in self._sent:
            message = decode_from_owner(frame)
            if isinstance(message, Snapshot):
                objects += message.objects
            elif isinstance(message, Loaded):
                revision = message.revision
        self._replica = Replica(
            objects,
            revision,
            Progress(self.replication.progress.descriptor),
            self._to_owner,
            mark=MARK,
            now=lambda: 0.0,
            home=home,
        )

    @property
    def replica(self) -> Replica:
        assert self._replica is not None
        return self._replica

    def _arrives(self, frame: bytes) -> None:
        if self._replica is None:
            self._sent.append(frame)
        else:
            asyncio.get_running_loop().call_soon(self._replica.take, decode_from_owner(frame))

    def _to_owner(self, frame: bytes) -> None:
        asyncio.get_running_loop().call_soon(self.follower.take, decode_drafts(frame))


@pytest.fixture
async def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(SqliteJournal(tmp_path / "store.db"), now=lambda: 0.0)
    await store.put(ObjectKey("namespaces", "", "default"), {"metadata": {"name": "default"}})
    yield store
    await store.close()


async def test_what_was_there_is_there(store: Store) -> None:
    kept = await store.put(key("a"), obj("a", "1"))
    replica = Pair(store).replica
    found = replica.get(key("a"))
    assert found is not None
    assert found.obj == kept.obj
    assert replica.revision == store.revision


async def test_what_the_owner_writes_is_shown_in_order(store: Store) -> None:
    pair = Pair(store)
    watch = pair.replica.watch("configmaps", after=pair.replica.revision)
    await store.put(key("a"), obj("a", "1"))
    await store.put(key("a"), obj("a", "2"))
    await store.delete(key("a"))
    await pair.replica.current()
    assert [(event.type, event.stored.obj["data"]["value"]) for event in watch.poll()] == [
        ("ADDED", "1"),
        ("MODIFIED", "2"),
        ("DELETED", "2"),
    ]
    assert pair.replica.get(key("a")) is None


async def test_what_is_written_through_a_replica_is_the_owners(store: Store) -> None:
    pair = Pair(store)
    written = await pair.replica.put(key("a"), obj("a", "1"), expected=0)
    assert pair.replica.get(key("a")) is written
    kept = store.get(key("a"))
    assert kept is not None
    assert kept.obj == written.obj
    assert kept.raw == written.raw
    assert written.obj["metadata"]["resourceVersion"] == str(store.revision)


async def test_bytes_are_those_the_owner_would_have_stored(store: Store) -> None:
    there = await store.put(key("a"), obj("a", "1"))
    pair = Pair(store)
    here = await pair.replica.put(key("b"), obj("b", "1"))
    assert here.raw == there.raw.replace(b'"a"', b'"b"').replace(b'"%d"' % there.revision, b'"%d"' % here.revision)


async def test_a_write_that_builds_on_something_old_is_stale_once_the_newer_is_here(store: Store) -> None:
    first = await store.put(key("a"), obj("a", "1"))
    pair = Pair(store)
    theirs = asyncio.create_task(store.put(key("a"), obj("a", "2"), expected=first.revision))
    ours = asyncio.create_task(pair.replica.put(key("a"), obj("a", "3"), expected=first.revision))
    newer = await theirs
    with pytest.raises(Stale) as refused:
        await ours
    assert refused.value.current is not None
    assert refused.value.current.revision == newer.revision


async def test_of_many_writers_through_replicas_one_wins_each_round(store: Store) -> None:
    pair, other = Pair(store), Pair(store)
    await store.put(key("a"), obj("a", "0"))

    async def count(replica: Replica) -> None:
        for _ in range(20):
            while True:
                await replica.current()
                current = replica.get(key("a"))
                assert current is not None
                value = str(int(current.obj["data"]["value"]) + 1)
                try:
                    await replica.put(key("a"), obj("a", value), expected=current.revision)
                    break
                except Stale:
                    continue

    await asyncio.gather(*(count(replica) for replica in (pair.replica, other.replica, pair.replica)))
    kept = store.get(key("a"))
    assert kept is not None
    assert kept.obj["data"]["value"] == "60"


async def test_who_waits_to_be_current_reads_what_was_acknowledged_elsewhere(store: Store) -> None:
    pair, other = Pair(store), Pair(store)
    for number in range(50):
        await pair.replica.put(key("a"), obj("a", str(number)))
        await other.replica.current()
        found = other.replica.get(key("a"))
        assert found is not None
        assert found.obj["data"]["value"] == str(number)


async def test_deletions_carry_the_last_state(store: Store) -> None:
    await store.put(key("a"), obj("a", "1"))
    pair = Pair(store)
    gone = await pair.replica.delete(key("a"))
    assert gone.obj["data"]["value"] == "1"
    assert gone.revision == store.revision
    assert store.get(key("a")) is None
    with pytest.raises(Stale):
        await pair.replica.delete(key("a"))


async def test_nothing_is_created_in_a_namespace_that_is_gone(store: Store) -> None:
    pair = Pair(store)
    space = ObjectKey("namespaces", "", "default")
    leaving = asyncio.create_task(store.delete(space))
    with pytest.raises(Homeless):
        await pair.replica.put(key("a"), obj("a"), expected=0)
    await leaving
    assert store.count("configmaps") == 0


async def test_nothing_comes_to_be_in_what_has_changed_since_it_was_looked_at(store: Store) -> None:
    """Whoever decided about the old state has to decide about the new one."""
    space = ObjectKey("namespaces", "", "default")
    await store.put(space, obj("default"))
    pair = Pair(store)
    ending = asyncio.create_task(store.put(space, obj("default", "it ends")))
    with pytest.raises(Homeless):
        await pair.replica.put(key("a"), obj("a"), expected=0)
    await ending
    assert store.count("configmaps") == 0
    await asyncio.sleep(0.01)
    await pair.replica.put(key("a"), obj("a"), expected=0)


async def test_what_is_too_large_is_refused_here(store: Store) -> None:
    with pytest.raises(TooLarge):
        await Pair(store).replica.put(key("a"), obj("a", "x" * 2_000_000))
    assert store.count("configmaps") == 0


async def test_an_object_that_contains_anything_but_the_mark_is_kept_as_it_is(store: Store) -> None:
    pair = Pair(store)
    written = await pair.replica.put(key("a"), obj("a", '"resourceVersion":"7"\ue000 \\u0000 \U0001f40e'))
    kept = store.get(key("a"))
    assert kept is not None
    assert kept.obj["data"] == written.obj["data"] == {"value": '"resourceVersion":"7"\ue000 \\u0000 \U0001f40e'}


async def test_writes_the_journal_loses_are_refused_and_nobody_waits_for_them() -> None:
    store = Store(_Losing(), now=lambda: 0.0)
    pair = Pair(store)
    with pytest.raises(StoreError, match="no room"):
        await pair.replica.put(key("a"), obj("a"))
    assert pair.replica.get(key("a")) is None


async def test_when_the_owner_is_gone_nobody_waits(store: Store) -> None:
    pair = Pair(store)
    pair.replication.remove(pair.follower)
    waiting = asyncio.create_task(pair.replica.put(key("a"), obj("a"), expected=7))
    await asyncio.sleep(0)
    pair.replica.lose("the process that owns the store is gone")
    with pytest.raises(StoreError, match="is gone"):
        await waiting
    with pytest.raises(StoreError, match="is gone"):
        await pair.replica.put(key("b"), obj("b"))


async def test_what_changes_while_the_snapshot_is_sent_comes_after_it(store: Store) -> None:
    for number in range(8):
        await store.put(key(f"a{number}"), obj(f"a{number}", "x" * 100_000))
    replication = Replication(store)
    sent: list[bytes] = []
    follower = replication.add(sent.append)
    await store.put(key("a1"), obj("a1", "newer"))
    portions = follower.begin()
    next(portions)
    await store.put(key("a0"), obj("a0", "newer"))
    for _ in portions:
        pass
    kinds = [type(decode_from_owner(frame)).__name__ for frame in sent]
    assert kinds == [*["Snapshot"] * (len(kinds) - 3), "Loaded", "Changes", "Changes"]
    assert kinds.count("Snapshot") > 2, "sent in portions"


class _Losing(MemoryJournal):
    """A journal that takes nothing."""

    immediate = False

    def start(self, kept: object, failed: object) -> None:
        self._failed = failed

    def append(self, write: JournalWrite) -> None:
        asyncio.get_running_loop().call_soon(self._failed, OSError("no room"))  # type: ignore[arg-type]
