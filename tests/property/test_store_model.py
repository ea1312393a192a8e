"""The store and its watches against a model simple enough to be obviously right: a dict, and a list of changes."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from corral.store import Compacted, Event, ObjectKey, Retention, SqliteJournal, Stale, Store, StoreWatch

RESOURCES = ("configmaps", "jobs.batch")
NAMESPACES = ("a", "a-b", "b")
keys = st.builds(ObjectKey, st.sampled_from(RESOURCES), st.sampled_from(NAMESPACES), st.sampled_from(["x", "y", "z"]))
values = st.integers(0, 5)


class Follower:
    """A watch and what it must still deliver."""

    def __init__(self, watch: StoreWatch, resource: str, namespace: str, after: int):
        self.watch = watch
        self.resource = resource
        self.namespace = namespace
        self.after = after


class StoreMachine(RuleBasedStateMachine):
    """Random writes, watches, pages, compactions and restarts."""

    followers = Bundle("followers")
    durable = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.time = 0.0
        self.objects: dict[ObjectKey, tuple[int, int]] = {}  # key -> (value, revision)
        self.changes: list[tuple[int, str, ObjectKey, int]] = []  # (revision, type, key, value)
        self.states: dict[int, dict[ObjectKey, tuple[int, int]]] = {0: {}}
        self.revision = 0
        self.compacted = 0
        self.store = self.open()

    def open(self) -> Store:
        journal = SqliteJournal(Path(self.folder.name) / "state.db") if self.durable else None
        return Store(journal, now=lambda: self.time, retention=Retention(seconds=1e9), decoded=2)

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    def note(self, kind: str, key: ObjectKey, value: int) -> None:
        self.revision += 1
        self.changes.append((self.revision, kind, key, value))
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = (value, self.revision)
        self.states[self.revision] = dict(self.objects)

    def thing(self, key: ObjectKey, value: int) -> dict[str, Any]:
        owners = [{"uid": f"owner-{value}"}] if value else []
        metadata = {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {"v": str(value)},
            "ownerReferences": owners,
        }
        return {"metadata": metadata, "value": value}

    # -- writes -------------------------------------------------------------------------------------------------------

    @rule(key=keys, value=values)
    def put(self, key: ObjectKey, value: int) -> None:
        current = self.objects.get(key)
        stored = self.run(self.store.put(key, self.thing(key, value), expected=current[1] if current else 0))
        self.note("MODIFIED" if current else "ADDED", key, value)
        assert stored.revision == self.revision

    @rule(key=keys, value=values, off=st.integers(1, 5))
    def put_stale(self, key: ObjectKey, value: int, off: int) -> None:
        current = self.objects.get(key)
        revision = current[1] if current else 0
        with pytest.raises(Stale) as caught:
            self.run(self.store.put(key, self.thing(key, value), expected=revision + off))
        found = caught.value.current
        assert (found.revision if found else 0) == revision

    @rule(key=keys)
    def delete(self, key: ObjectKey) -> None:
        current = self.objects.get(key)
        if current is None:
            return
        self.run(self.store.delete(key, current[1]))
        self.note("DELETED", key, current[0])

    @rule(batch=st.lists(st.tuples(keys, values), min_size=2, max_size=6))
    def put_together(self, batch: list[tuple[ObjectKey, int]]) -> None:
        async def write() -> None:
            await asyncio.gather(*(self.store.put(key, self.thing(key, value)) for key, value in batch))

        self.run(write())
        for key, value in batch:
            self.note("MODIFIED" if key in self.objects else "ADDED", key, value)

    # -- history ------------------------------------------------------------------------------------------------------

    @rule(
        target=followers,
        resource=st.sampled_from(RESOURCES),
        namespace=st.sampled_from(("", *NAMESPACES)),
        back=st.integers(0, 8),
    )
    def watch(self, resource: str, namespace: str, back: int) -> Any:
        after = max(0, self.revision - back)
        try:
            watch = self.store.watch(resource, namespace, after=after)
        except Compacted:
            assert after < self.compacted
            return multiple()
        assert after >= self.compacted
        return Follower(watch, resource, namespace, after)

    @rule(follower=followers)
    def poll(self, follower: Follower) -> None:
        try:
            events = drain(follower.watch)
        except Compacted:
            missed = [change for change in self.expected(follower) if change[0] <= self.compacted]
            assert missed or follower.after < self.compacted
            follower.watch = self.store.watch(follower.resource, follower.namespace, after=self.revision)
            follower.after = self.revision
            return
        seen = [(e.revision, e.type, e.stored.key, e.stored.obj["value"]) for e in events]
        assert seen == self.expected(follower)
        follower.after = self.revision

    @rule(follower=consumes(followers))
    def unwatch(self, follower: Follower) -> None:
        follower.watch.close()

    def expected(self, follower: Follower) -> list[tuple[int, str, ObjectKey, int]]:
        return [
            change
            for change in self.changes
            if change[0] > follower.after
            and change[2].resource == follower.resource
            and follower.namespace in ("", change[2].namespace)
        ]

    @rule(back=st.integers(0, 6))
    def compact(self, back: int) -> None:
        revision = max(0, self.revision - back)
        self.store.compact(revision)
        self.compacted = max(self.compacted, revision)

    @rule(
        resource=st.sampled_from(RESOURCES),
        namespace=st.sampled_from(("", *NAMESPACES)),
        back=st.integers(0, 8),
        limit=st.integers(1, 4),
    )
    def pages(self, resource: str, namespace: str, back: int, limit: int) -> None:
        revision = max(0, self.revision - back)
        if revision < self.compacted:
            return
        found: list[tuple[ObjectKey, int]] = []
        after = None
        while True:
            page = self.store.page(resource, namespace, limit=limit, after=after, revision=revision)
            found += [(stored.key, stored.obj["value"]) for stored in page.items]
            after = page.last
            if after is None:
                break
        past = self.states[revision]
        wanted = [(key, past[key][0]) for key in past if key.resource == resource and namespace in ("", key.namespace)]
        assert found == sorted(wanted, key=lambda item: f"{item[0].namespace}/{item[0].name}")

    # -- always -------------------------------------------------------------------------------------------------------

    @invariant()
    def shows_what_was_written(self) -> None:
        assert self.store.revision == self.revision
        assert self.store.compacted == self.compacted
        for key, (value, revision) in self.objects.items():
            stored = self.store.get(key)
            assert stored is not None
            assert (stored.obj["value"], stored.revision) == (value, revision)
            assert stored.obj["metadata"]["resourceVersion"] == str(revision)
        assert sum(self.store.count(resource) for resource in RESOURCES) == len(self.objects)

    @invariant()
    def indexes_owners(self) -> None:
        for value in (1, 5):
            wanted = {key for key, (held, _) in self.objects.items() if held == value}
            assert set(self.store.owned_by(f"owner-{value}")) == wanted

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()
        self.folder.cleanup()


def drain(watch: StoreWatch) -> list[Event]:
    events: list[Event] = []
    while batch := watch.poll():
        events += batch
    return events


class DurableStoreMachine(StoreMachine):
    """The same on disk, with restarts: history and watches go on where they were."""

    durable = True

    @initialize()
    def begin(self) -> None:
        """Nothing to do; rules start from an empty file."""

    @rule()
    def restart(self) -> None:
        self.run(self.store.close())
        self.store = self.open()

    @rule(follower=StoreMachine.followers)
    def poll(self, follower: Follower) -> None:
        # A watch does not survive its store, but its revision does.
        try:
            events = drain(self.store.watch(follower.resource, follower.namespace, after=follower.after))
        except Compacted:
            assert follower.after < self.compacted
            return
        assert [(e.revision, e.type, e.stored.key, e.stored.obj["value"]) for e in events] == self.expected(follower)
        follower.after = self.revision


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestDurableStore = DurableStoreMachine.TestCase
TestDurableStore.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
