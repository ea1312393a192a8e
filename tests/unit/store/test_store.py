"""The store: revisions, expectations, pages, history, and what the durable journal brings back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.store import Compacted, ObjectKey, Retention, SqliteJournal, Stale, Store, Stored, StoreError
from corral.store.bucket import Bucket


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def key(name: str, namespace: str = "ns", resource: str = "configmaps") -> ObjectKey:
    return ObjectKey(resource, namespace, name)


def thing(name: str, namespace: str = "ns", **data: Any) -> dict[str, Any]:
    labels = data.pop("labels", None)
    owners = data.pop("owners", None)
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    if owners:
        metadata["ownerReferences"] = [{"uid": uid} for uid in owners]
    return {"metadata": metadata, "data": data}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    journal = SqliteJournal(tmp_path / "state.db") if request.param == "sqlite" else None
    store = Store(journal, now=Time())
    yield store
    await store.close()


async def test_put_gives_increasing_revisions_and_get_shows_them(store: Store) -> None:
    first = await store.put(key("a"), thing("a", x=1))
    second = await store.put(key("b"), thing("b"))
    assert (first.revision, second.revision, store.revision) == (1, 2, 2)
    found = store.get(key("a"))
    assert found is first
    assert found.obj["metadata"]["resourceVersion"] == "1"
    assert found.raw == b'{"metadata":{"name":"a","namespace":"ns","resourceVersion":"1"},"data":{"x":1}}'
    assert store.get(key("zz")) is None


async def test_put_is_stale_when_the_object_moved_on(store: Store) -> None:
    await store.put(key("a"), thing("a"), expected=0)
    with pytest.raises(Stale) as caught:
        await store.put(key("a"), thing("a"), expected=0)
    assert caught.value.current is store.get(key("a"))
    second = await store.put(key("a"), thing("a"), expected=1)
    with pytest.raises(Stale):
        await store.delete(key("a"), expected=1)
    await store.delete(key("a"), expected=second.revision)
    assert store.get(key("a")) is None
    with pytest.raises(Stale):
        await store.delete(key("a"))


async def test_pending_write_is_seen_by_writers_but_not_by_readers(tmp_path: Path) -> None:
    store = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    task = asyncio.ensure_future(store.put(key("a"), thing("a")))
    await asyncio.sleep(0)
    head = store.head(key("a"))
    assert head is not None
    assert store.get(key("a")) is None
    with pytest.raises(Stale):
        await store.put(key("a"), thing("a"), expected=0)
    await store.settled()
    assert store.get(key("a")) is head
    await task
    await store.close()


async def test_list_is_in_key_order_across_namespaces(store: Store) -> None:
    for namespace, name in [("a", "y"), ("a-b", "x"), ("a", "b")]:
        await store.put(key(name, namespace), thing(name, namespace))
    page = store.page("configmaps")
    assert [s.key[1:] for s in page.items] == [("a-b", "x"), ("a", "b"), ("a", "y")]
    assert [s.key.name for s in store.page("configmaps", "a").items] == ["b", "y"]


async def test_pages_are_consistent_at_their_revision_while_writes_go_on(store: Store) -> None:
    for index in range(10):
        await store.put(key(f"o{index}"), thing(f"o{index}", v=1))
    first = store.page("configmaps", limit=4)
    assert (len(first.items), first.remaining, first.last) == (4, 6, ("ns", "o3"))
    await store.delete(key("o5"))
    await store.put(key("o55"), thing("o55"))
    await store.put(key("o6"), thing("o6", v=2))
    await store.delete(key("o9"))
    await store.put(key("o9"), thing("o9", v=3))
    second = store.page("configmaps", limit=4, after=first.last, revision=first.revision)
    third = store.page("configmaps", limit=4, after=second.last, revision=first.revision)
    names = [s.key.name for s in first.items + second.items + third.items]
    assert names == [f"o{index}" for index in range(10)]
    assert all(s.obj["data"] == {"v": 1} for s in second.items + third.items)
    assert third.last is None


async def test_page_limit_counts_matching_objects(store: Store) -> None:
    for index in range(10):
        await store.put(key(f"o{index}"), thing(f"o{index}", labels={"even": str(index % 2 == 0)}))
    page = store.page("configmaps", match=lambda s: s.labels.get("even") == "True", limit=3)
    assert [s.key.name for s in page.items] == ["o0", "o2", "o4"]
    assert page.last == ("ns", "o4")


async def test_owner_index_follows_changes(store: Store) -> None:
    await store.put(key("a"), thing("a", owners=["u1"]))
    assert store.owned_by("u1") == [key("a")]
    await store.put(key("b"), thing("b", owners=["u1", "u2"]))
    assert store.owned_by("u1") == [key("a"), key("b")]
    await store.put(key("a"), thing("a", owners=["u2"]))
    assert store.owned_by("u1") == [key("b")]
    await store.delete(key("b"))
    assert (store.owned_by("u1"), store.owned_by("u2")) == ([], [key("a")])


async def test_watch_continues_from_any_revision(store: Store) -> None:
    await store.put(key("a"), thing("a"))
    await store.put(key("a"), thing("a", v=2))
    await store.put(key("p", resource="pods"), thing("p"))
    watch = store.watch("configmaps", after=1)
    assert [(e.type, e.revision) for e in await watch.next()] == [("MODIFIED", 2)]
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    await store.delete(key("a"))
    batch = await waiting
    assert [(e.type, e.revision) for e in batch] == [("DELETED", 4)]
    assert batch[0].stored.obj["metadata"]["resourceVersion"] == "4"
    assert batch[0].previous is not None
    assert batch[0].previous.revision == 2
    watch.close()
    assert await watch.next() == []


async def test_namespaced_watch_sleeps_through_other_namespaces_and_compaction(store: Store) -> None:
    watch = store.watch("configmaps", "ns", after=0)
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    for index in range(5):
        await store.put(key("x", "other"), thing("x", "other", v=index))
    store.compact(store.revision)
    assert not waiting.done()
    mine = await store.put(key("a"), thing("a"))
    assert [e.stored for e in await waiting] == [mine]


async def test_watch_that_overflows_is_told_to_start_again(store: Store) -> None:
    await store.put(key("a"), thing("a"))
    watch = store.watch("configmaps", after=1)
    for index in range(3):
        await store.put(key("a"), thing("a", v=index))
    store.compact(3)
    with pytest.raises(Compacted):
        await watch.next()
    with pytest.raises(Compacted):
        store.watch("configmaps", after=2)
    with pytest.raises(Compacted):
        store.page("configmaps", revision=2)
    assert [e.revision for e in await store.watch("configmaps", after=3).next()] == [4]


async def test_interrupted_watch_returns_and_goes_on(store: Store) -> None:
    watch = store.watch("configmaps", after=0)
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    watch.interrupt()
    assert await waiting == []
    stored = await store.put(key("a"), thing("a"))
    assert [e.stored for e in await watch.next()] == [stored]


async def test_cancelled_watch_leaves_nothing_behind(store: Store) -> None:
    watch = store.watch("configmaps", "ns", after=0)
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert store._bucket("configmaps").idle_in == {}


async def test_history_is_trimmed_by_age() -> None:
    time = Time()
    store = Store(now=time, retention=Retention(seconds=60, step=10))
    for index in range(20):
        time.now += 10
        await store.put(key("a"), thing("a", v=index))
    assert 10 <= store.compacted <= 15
    assert store.watch("configmaps", after=store.compacted).poll()[0].revision == store.compacted + 1


async def test_history_is_trimmed_early_when_it_weighs_too_much() -> None:
    time = Time()
    store = Store(now=time, retention=Retention(seconds=3600, step=1, bytes=40 * 2048))
    for index in range(200):
        time.now += 1
        await store.put(key("a"), thing("a", v=index))
    assert store.compacted > 100
    assert store.get(key("a")).revision == 200  # type: ignore[union-attr]


async def test_reopened_store_has_objects_history_and_revision(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(SqliteJournal(path), now=Time())
    await store.put(key("a"), thing("a", owners=["u"], labels={"k": "v"}))
    await store.put(key("b"), thing("b"))
    await store.put(key("b"), thing("b", v=2))
    await store.delete(key("b"))
    await store.close()
    store = Store(SqliteJournal(path), now=Time())
    assert store.revision == 4
    assert [s.key.name for s in store.page("configmaps").items] == ["a"]
    assert store.page("configmaps").items[0].labels == {"k": "v"}
    assert store.owned_by("u") == [key("a")]
    events = store.watch("configmaps", after=1).poll()
    assert [(e.type, e.revision) for e in events] == [("ADDED", 2), ("MODIFIED", 3), ("DELETED", 4)]
    store.compact(4)
    await store.close()
    store = Store(SqliteJournal(path), now=Time())
    assert (store.revision, store.compacted) == (4, 4)
    assert (await store.put(key("c"), thing("c"))).revision == 5
    assert store.watch("configmaps", after=4).poll()[0].revision == 5
    await store.close()


async def test_versions_left_by_an_interrupted_compaction_do_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(SqliteJournal(path), now=Time())
    await store.put(key("a"), thing("a", v=1))
    await store.put(key("a"), thing("a", v=2))
    # as if the process died after noting the compaction and before deleting version 1
    store._journal.forget([], 2)
    await store.close()
    store = Store(SqliteJournal(path), now=Time())
    await store.delete(key("a"))
    store.compact(3)
    await store.close()
    store = Store(SqliteJournal(path), now=Time())
    assert store.get(key("a")) is None
    await store.close()


async def test_two_processes_cannot_open_one_state(tmp_path: Path) -> None:
    store = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    with pytest.raises(StoreError, match=r"another process"):
        SqliteJournal(tmp_path / "state.db")
    await store.close()


async def test_failed_journal_loses_pending_writes_together_and_recovers(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "state.db")
    store = Store(journal, now=Time())
    await store.put(key("a"), thing("a"))
    journal._connection.execute("PRAGMA max_page_count=1")
    big = "x" * 1_000_000
    results = await asyncio.gather(
        store.put(key("b"), thing("b", v=big)), store.put(key("b"), thing("b", v=2)), return_exceptions=True
    )
    assert all(isinstance(result, StoreError) for result in results)
    assert store.head(key("b")) is None
    journal._connection.execute("PRAGMA max_page_count=1000000")
    again = await store.put(key("b"), thing("b", v=3))
    assert store.get(key("b")) is again
    assert [s.key.name for s in store.page("configmaps").items] == ["a", "b"]
    await store.close()


async def test_many_concurrent_writers_share_commits_and_keep_order(tmp_path: Path) -> None:
    store = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    watch = store.watch("configmaps", after=0)

    async def writer(number: int) -> None:
        for index in range(20):
            await store.put(key(f"w{number}"), thing(f"w{number}", v=index))

    await asyncio.gather(*(writer(number) for number in range(30)))
    seen: list[int] = []
    while batch := watch.poll():
        seen += [event.revision for event in batch]
    assert seen == list(range(1, 601))
    await store.close()


async def test_compaction_gives_way_to_writers(tmp_path: Path) -> None:
    store = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    for index in range(40):
        await asyncio.gather(*(store.put(key(f"o{n}"), thing(f"o{n}", v=index)) for n in range(50)))
    store.compact(store.revision)
    written = await store.put(key("new"), thing("new"))
    assert store.get(key("new")) is written
    await store.close()
    store = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    assert (store.compacted, store.count("configmaps")) == (2000, 51)
    rows = store._journal._connection.execute("SELECT count(*) FROM log").fetchone()  # type: ignore[attr-defined]
    assert rows == (51,)
    await store.close()


async def test_broken_journal_refuses_instead_of_hanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = SqliteJournal(tmp_path / "state.db")
    store = Store(journal, now=Time())
    await store.put(key("a"), thing("a"))

    def fail(group: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(journal, "_keep", fail)
    with pytest.raises(StoreError, match=r"no such luck"):
        await store.put(key("b"), thing("b"))
    with pytest.raises(StoreError, match=r"the journal has stopped"):
        await store.put(key("b"), thing("b"))
    assert store.head(key("b")) is None
    await store.close()


@pytest.mark.parametrize("limit", [64 << 20, 1 << 16], ids=["aside", "in line"])
async def test_the_log_is_moved_into_the_database_while_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("corral.store.sqlite.WAL_BYTES", 1 << 15)
    monkeypatch.setattr("corral.store.sqlite.WAL_LIMIT", limit)
    path = tmp_path / "state.db"
    store = Store(SqliteJournal(path), now=Time())
    for index in range(200):
        await store.put(key(f"n{index}"), thing(f"n{index}", v="x" * 2000))
    moved = path.stat().st_size
    await store.close()
    assert moved > 1 << 17, "nothing was moved before the end"
    store = Store(SqliteJournal(path), now=Time())
    assert store.count("configmaps") == 200
    await store.close()


async def test_versions_that_were_dropped_are_gone_after_a_write(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "state.db")
    store = Store(journal, now=Time())
    for index in range(5):
        await store.put(key("a"), thing("a", v=index))
    store.compact(5)
    await store.put(key("a"), thing("a", v="last"))
    await store.close()
    connection = sqlite3.connect(tmp_path / "state.db")
    assert [row[0] for row in connection.execute("SELECT revision FROM log")] == [5, 6]
    connection.close()


async def test_a_list_in_pages_looks_at_each_object_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store, looked = Store(now=Time()), 0
    for number in range(100):
        await store.put(key(f"a{number:03}", namespace=f"ns{number % 3}"), thing(f"a{number:03}", f"ns{number % 3}"))
    scan = Bucket.scan

    def counted(*args: Any, **named: Any) -> Iterator[Stored]:
        nonlocal looked
        for stored in scan(*args, **named):
            looked += 1
            yield stored

    monkeypatch.setattr(Bucket, "scan", counted)
    page, remaining = store.page("configmaps", limit=7), []
    revision = page.revision
    while page.last is not None:
        remaining.append(page.remaining)
        page = store.page("configmaps", limit=7, after=page.last, revision=revision)
    assert remaining == list(range(93, 0, -7))
    assert looked == 100


async def test_what_a_restart_brings_back_is_in_order_whatever_order_it_was_written_in(tmp_path: Path) -> None:
    store = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    for name in ("b", "a", "d", "c"):
        await store.put(key(name), thing(name))
    await store.put(key("only", "other"), thing("only", "other"))
    await store.delete(key("d"))
    await store.delete(key("only", "other"))
    await store.close()
    again = Store(SqliteJournal(tmp_path / "state.db"), now=Time())
    assert [stored.key.name for stored in again.scan("configmaps")] == ["a", "b", "c"]
    assert again.count("configmaps", "other") == 0
    await again.put(key("bb"), thing("bb"))
    await again.delete(key("a"))
    assert [stored.key.name for stored in again.scan("configmaps")] == ["b", "bb", "c"]
    await again.close()
