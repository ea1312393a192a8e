"""All objects of one resource: sorted by namespace and name, with the retained history of their changes.

Order is that of the keys a Kubernetes server writes (`namespace/name`), so pages and lists come in the same order.
A past state is the present one with the later events undone, which is cheap because history is short.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from operator import attrgetter

from corral.store.stored import Event, Stored
from corral.store.waking import Waking
from corral.store.watch import StoreWatch

_revision = attrgetter("revision")
Match = Callable[[Stored], bool]


class Partition:
    """The objects of one namespace by name; `names` is kept sorted."""

    __slots__ = ("items", "names")

    def __init__(self) -> None:
        self.items: dict[str, Stored] = {}
        self.names: list[str] = []

    def put(self, name: str, stored: Stored) -> None:
        if name not in self.items:
            if not self.names or name > self.names[-1]:
                self.names.append(name)
            else:
                insort(self.names, name)
        self.items[name] = stored

    def remove(self, name: str) -> None:
        if self.items.pop(name, None) is not None:
            del self.names[bisect_left(self.names, name)]


class Bucket:
    """One resource of the store."""

    def __init__(self, resource: str, waking: Waking):
        self.resource = resource
        self.waking = waking
        self.partitions: dict[str, Partition] = {}
        self.events: list[Event] = []
        self.first = 0  # absolute position of events[0]
        self.revision = 0  # of the last change of this resource
        self.idle: dict[StoreWatch, None] = {}
        self.idle_in: dict[str, dict[StoreWatch, None]] = {}

    def get(self, namespace: str, name: str) -> Stored | None:
        partition = self.partitions.get(namespace)
        return partition.items.get(name) if partition is not None else None

    def count(self, namespace: str = "") -> int:
        if namespace:
            partition = self.partitions.get(namespace)
            return len(partition.names) if partition is not None else 0
        return sum(len(partition.names) for partition in self.partitions.values())

    def count_after(self, namespace: str, after: tuple[str, str] | None) -> int:
        """How many objects `scan` would give, without going through them."""
        if after is None:
            return self.count(namespace)
        count = 0
        for space in self._spaces(namespace, after):
            partition = self.partitions.get(space)
            if partition is not None:
                names = partition.names
                count += len(names) - (bisect_right(names, after[1]) if space == after[0] else 0)
        return count

    def load(self, event: Event) -> None:
        """Take in a journalled change at start, when nobody watches; names are put in order by `loaded`."""
        stored = event.stored
        _, namespace, name = stored.key
        partition = self.partitions.get(namespace)
        if partition is None:
            partition = self.partitions[namespace] = Partition()
        if event.type == "DELETED":
            partition.items.pop(name, None)
        else:
            partition.items[name] = stored
        self.events.append(event)

    def loaded(self) -> None:
        """All of the journal was taken in."""
        if self.events:
            self.revision = self.events[-1].revision
        self.partitions = {namespace: partition for namespace, partition in self.partitions.items() if partition.items}
        for partition in self.partitions.values():
            partition.names = sorted(partition.items)

    def publish(self, event: Event) -> None:
        """Make a change visible and wake the watches it concerns."""
        self._change(event)
        self.events.append(event)
        if self.idle or self.idle_in:
            self._wake(event.stored.key.namespace, self.first + len(self.events) - 1)

    def _change(self, event: Event) -> None:
        stored = event.stored
        _, namespace, name = stored.key
        self.revision = stored.revision
        partition = self.partitions.get(namespace)
        if event.type == "DELETED":
            if partition is not None:
                partition.remove(name)
                if not partition.names:
                    del self.partitions[namespace]
            return
        if partition is None:
            partition = self.partitions[namespace] = Partition()
        partition.put(name, stored)

    def _wake(self, namespace: str, position: int) -> None:
        woken, self.idle = self.idle, {}
        for watch in woken:
            watch.wake(position)
        for watch in self.idle_in.pop(namespace, ()):
            watch.wake(position)

    def position_after(self, revision: int) -> int:
        """The absolute position of the first event later than `revision`."""
        return self.first + bisect_right(self.events, revision, key=_revision)

    def forget(self, revision: int) -> list[Event]:
        """Drop and return the events up to `revision`."""
        count = bisect_right(self.events, revision, key=_revision)
        dropped = self.events[:count]
        del self.events[:count]
        self.first += count
        return dropped

    def undone(self, revision: int) -> dict[tuple[str, str], Stored | None]:
        """What differs from the present at `revision`: the object that was there, or None where there was none."""
        past: dict[tuple[str, str], Stored | None] = {}
        start = bisect_right(self.events, revision, key=_revision)
        for event in reversed(self.events[start:]):
            past[event.stored.key[1:]] = event.previous
        return past

    def scan(
        self, namespace: str, after: tuple[str, str] | None = None, revision: int | None = None
    ) -> Iterator[Stored]:
        """Objects in key order, from behind `after`, as of `revision` (the present when None)."""
        past = self.undone(revision) if revision is not None and revision < self.revision else {}
        if past:
            yield from self._scan_past(namespace, after, past)
            return
        for space in self._spaces(namespace, after):
            partition = self.partitions.get(space)
            if partition is None:
                continue
            items = partition.items
            for name in _names_after(partition.names, space, after):
                yield items[name]

    def _scan_past(
        self, namespace: str, after: tuple[str, str] | None, past: dict[tuple[str, str], Stored | None]
    ) -> Iterator[Stored]:
        revived: dict[str, list[str]] = {}
        for space, name in past:
            revived.setdefault(space, []).append(name)
        for space in self._spaces(namespace, after, revived):
            partition = self.partitions.get(space)
            names = sorted({*(partition.names if partition else ()), *revived.get(space, ())})
            for name in _names_after(names, space, after):
                stored = past[space, name] if (space, name) in past else self.get(space, name)
                if stored is not None:
                    yield stored

    def _spaces(
        self, namespace: str, after: tuple[str, str] | None, more: dict[str, list[str]] | None = None
    ) -> list[str]:
        if namespace:
            return [namespace]
        spaces = sorted({*self.partitions, *(more or ())}, key=_namespace_order)
        if after is not None:
            spaces = spaces[bisect_left(spaces, _namespace_order(after[0]), key=_namespace_order) :]
        return spaces


def _namespace_order(namespace: str) -> str:
    return namespace + "/"


def _names_after(names: list[str], namespace: str, after: tuple[str, str] | None) -> list[str]:
    if after is None or after[0] != namespace:
        return list(names)
    return names[bisect_right(names, after[1]) :]
