"""Override snapshots: every edit of an override frozen, the last ten kept; and which of them concern a placement."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from corral.client.protocol import Client
from corral.controllers.placement.members import Members
from corral.controllers.placement.placement_kinds import Scope
from corral.controllers.placement.writes import drop_finalizer, ensure_finalizer, remove
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    with_labels,
)
from corral.core.resource import Resource
from corral.decide.placement.bindings import Overrides
from corral.decide.placement.overrides import concerns_placement, for_cluster, matching
from corral.decide.placement.snapshots import contents, index_of, latest, outdated, sha256_of
from corral.kinds.fleet import CLUSTER_OVERRIDE_SNAPSHOTS, CLUSTER_OVERRIDES, OVERRIDE_SNAPSHOTS, OVERRIDES
from corral.kinds.fleet.names import IS_LATEST, OVERRIDE_CLEANUP, OVERRIDE_INDEX, PARENT_OVERRIDE
from corral.runtime.controller import Manager, Watch

HISTORY = 10


class Pair(NamedTuple):
    """An override kind and its snapshots."""

    overrides: Resource
    snapshots: Resource


PAIRS = (Pair(CLUSTER_OVERRIDES, CLUSTER_OVERRIDE_SNAPSHOTS), Pair(OVERRIDES, OVERRIDE_SNAPSHOTS))


def _parent(obj: Obj) -> Iterable[Key]:
    parent = labels_of(obj).get(PARENT_OVERRIDE)
    return (Key(namespace_of(obj), parent),) if parent else ()


class OverrideController:
    """Freezes the overrides of one kind."""

    def __init__(self, manager: Manager, pair: Pair) -> None:
        self.name = f"override-{pair.overrides.plural}"
        self._pair = pair
        self._client: Client = manager.client
        self._overrides = manager.informer(self._pair.overrides)
        self._snapshots = manager.informer(self._pair.snapshots)
        self._snapshots.add_index("parent", lambda obj: map(str, _parent(obj)))
        manager.add(self, watches=[Watch(self._pair.overrides), Watch(self._pair.snapshots, map=_parent)])

    async def reconcile(self, key: Key) -> None:
        override = self._overrides.get(key)
        if override is None:
            return
        existing = self._snapshots.by_index("parent", str(key))
        if is_deleting(override):
            if OVERRIDE_CLEANUP in finalizers_of(override):
                for snapshot in sorted(existing, key=_index):  # the latest at last: nobody falls back to an older one
                    await remove(self._client, self._pair.snapshots, snapshot)
                await drop_finalizer(self._client, self._pair.overrides, override, OVERRIDE_CLEANUP)
            return
        override = await ensure_finalizer(self._client, self._pair.overrides, override, OVERRIDE_CLEANUP)
        await self._freeze(override, existing)

    async def _freeze(self, override: Obj, existing: list[Obj]) -> None:
        """Keep one snapshot of the override as it is, marked as the latest.

        The new one is there before the old one loses its mark, so that no rollout ever finds the override missing.
        """
        current, gone = latest(existing, OVERRIDE_INDEX), list[Obj]()
        if current is None or spec_of(current).get("overrideSpec") != spec_of(override):
            gone = outdated(existing, OVERRIDE_INDEX, HISTORY)
            for old in gone:
                await remove(self._client, self._pair.snapshots, old)
            index = max(map(_index, existing), default=-1) + 1
            current = await self._client.create(self._pair.snapshots, _snapshot(override, index))
        elif not _is_marked(current):
            await self._client.update(self._pair.snapshots, with_labels(current, {IS_LATEST: "true"}))
        for old in existing:
            if _is_marked(old) and key_of(old) != key_of(current) and old not in gone:
                await self._client.update(self._pair.snapshots, with_labels(old, {IS_LATEST: "false"}))


def _is_marked(snapshot: Obj) -> bool:
    return labels_of(snapshot).get(IS_LATEST) == "true"


def _snapshot(override: Obj, index: int) -> Obj:
    metadata: Obj = {
        "name": f"{name_of(override)}-{index}",
        "labels": {PARENT_OVERRIDE: name_of(override), OVERRIDE_INDEX: str(index), IS_LATEST: "true"},
        "ownerReferences": [owner_ref(override)],
    }
    if namespace_of(override):
        metadata["namespace"] = namespace_of(override)
    spec = spec_of(override)
    return {"metadata": metadata, "spec": {"overrideSpec": spec, "overrideHash": _base64(sha256_of(spec))}}


def _index(snapshot: Obj) -> int:
    return index_of(snapshot, OVERRIDE_INDEX)


def _current(snapshots: Iterable[Obj]) -> Iterable[Obj]:
    """The latest snapshot of every override: of two that are marked so, while one takes over, the newer."""
    marked = (one for one in snapshots if _is_marked(one) and not is_deleting(one))
    return {next(iter(_parent(one)), key_of(one)): one for one in sorted(marked, key=_index)}.values()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class OverrideRecords:
    """Cached override snapshots."""

    def __init__(self, manager: Manager, members: Members) -> None:
        self._members = members
        self._wide = manager.informer(CLUSTER_OVERRIDE_SNAPSHOTS)
        self._narrow = manager.informer(OVERRIDE_SNAPSHOTS)
        self._narrow.add_index("namespace", lambda obj: (namespace_of(obj),))

    def on_change(self, handler: Callable[[], None]) -> None:
        for informer in (self._wide, self._narrow):
            informer.on_change(lambda old, new: handler())

    def for_clusters(
        self, scope: Scope, key: Key, group: Sequence[Obj], clusters: Iterable[str]
    ) -> dict[str, Overrides]:
        """The overrides of each of the clusters when a placement rolls out this group of snapshots; a cluster without
        any may be missing."""
        wide, narrow = self._matching(scope, key, contents(group))
        if not wide and not narrow:
            return {}
        members = {name: member for name in clusters if (member := self._members.get(name)) is not None}
        return {name: for_cluster(wide, narrow, member) for name, member in members.items()}

    def _matching(self, scope: Scope, key: Key, resources: Sequence[Obj]) -> tuple[list[Obj], list[Obj]]:
        """The latest snapshots, of either kind, that concern a placement and something it selects."""
        wide = [] if scope.namespaced else self._wide.list()
        narrow = self._narrow.by_index("namespace", key.namespace) if scope.namespaced else self._narrow.list()

        def concern(snapshots: list[Obj]) -> list[Obj]:
            return [
                one for one in _current(snapshots) if concerns_placement(one, key.name, namespaced=scope.namespaced)
            ]

        return matching(resources, concern(wide), concern(narrow))

    def named(self, spec: Obj) -> list[Obj]:
        """The snapshots a binding names, in order of precedence."""
        wide = [self._wide.get(Key("", name)) for name in spec.get("clusterResourceOverrideSnapshots") or ()]
        narrow = [
            self._narrow.get(Key(one.get("namespace", ""), one["name"]))
            for one in spec.get("resourceOverrideSnapshots") or ()
        ]
        found = [one for one in (*wide, *narrow) if one is not None]
        if len(found) < len(wide) + len(narrow):
            raise LookupError("an override snapshot of the binding is not known yet")
        return sorted(found, key=lambda one: (bool(namespace_of(one)), key_of(one)))
