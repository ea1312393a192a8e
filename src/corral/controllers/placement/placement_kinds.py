"""The two worlds of placement, cluster-scoped and namespaced: the same controllers run once in each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corral.core.meta import Key, Obj, labels_of, name_of, namespace_of
from corral.core.resource import Resource
from corral.decide.placement.bindings import Binding, binding_of
from corral.decide.placement.snapshots import latest
from corral.kinds import fleet
from corral.kinds.fleet.names import PARENT_PLACEMENT, POLICY_INDEX, RESOURCE_INDEX
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer


@dataclass(frozen=True, slots=True)
class Scope:
    """The kinds of one world."""

    placements: Resource
    policies: Resource
    snapshots: Resource
    bindings: Resource
    runs: Resource
    strategies: Resource
    approvals: Resource

    @property
    def prefix(self) -> str:
        """The prefix of condition types."""
        return self.placements.kind

    @property
    def namespaced(self) -> bool:
        return self.placements.namespaced

    @property
    def word(self) -> str:
        return "rp" if self.namespaced else "crp"


CLUSTER = Scope(
    fleet.CLUSTER_RESOURCE_PLACEMENTS,
    fleet.CLUSTER_POLICY_SNAPSHOTS,
    fleet.CLUSTER_RESOURCE_SNAPSHOTS,
    fleet.CLUSTER_BINDINGS,
    fleet.CLUSTER_UPDATE_RUNS,
    fleet.CLUSTER_UPDATE_STRATEGIES,
    fleet.CLUSTER_APPROVAL_REQUESTS,
)
NAMESPACED = Scope(
    fleet.RESOURCE_PLACEMENTS,
    fleet.POLICY_SNAPSHOTS,
    fleet.RESOURCE_SNAPSHOTS,
    fleet.BINDINGS,
    fleet.UPDATE_RUNS,
    fleet.UPDATE_STRATEGIES,
    fleet.APPROVAL_REQUESTS,
)
SCOPES = (CLUSTER, NAMESPACED)


def parent_key(obj: Obj) -> Iterable[Key]:
    """The placement a snapshot or a binding belongs to."""
    parent = labels_of(obj).get(PARENT_PLACEMENT)
    return (Key(namespace_of(obj), parent),) if parent else ()


def _parent(obj: Obj) -> Iterable[str]:
    return (str(key) for key in parent_key(obj))


class Records:
    """Cached placements of one scope with everything derived from them."""

    def __init__(self, manager: Manager, scope: Scope) -> None:
        self.scope = scope
        self.placements = manager.informer(scope.placements)
        self._policies = _indexed(manager.informer(scope.policies))
        self._snapshots = _indexed(manager.informer(scope.snapshots))
        self._bindings = _indexed(manager.informer(scope.bindings))

    def policies(self, key: Key) -> list[Obj]:
        return self._policies.by_index("parent", str(key))

    def policy(self, key: Key) -> Obj | None:
        """The latest policy snapshot."""
        return latest(self.policies(key), POLICY_INDEX)

    def snapshots(self, key: Key) -> list[Obj]:
        return self._snapshots.by_index("parent", str(key))

    def snapshot(self, key: Key) -> Obj | None:
        """The master of the latest resource snapshot."""
        return latest(self.snapshots(key), RESOURCE_INDEX)

    def named_snapshot(self, key: Key, name: str) -> Obj | None:
        return self._snapshots.get(Key(key.namespace, name))

    def group(self, key: Key, master: Obj) -> list[Obj]:
        """All snapshots of the master's index, the master first."""
        index = labels_of(master).get(RESOURCE_INDEX)
        members = [one for one in self.snapshots(key) if labels_of(one).get(RESOURCE_INDEX) == index]
        return sorted(members, key=lambda one: (name_of(one) != name_of(master), len(name_of(one)), name_of(one)))

    def latest_group(self, key: Key) -> list[Obj]:
        """The latest resource snapshot, master first; empty while there is none."""
        master = self.snapshot(key)
        return [] if master is None else self.group(key, master)

    def bindings(self, key: Key) -> list[Binding]:
        return [binding_of(obj) for obj in self._bindings.by_index("parent", str(key))]

    def binding(self, key: Key) -> Binding | None:
        obj = self._bindings.get(key)
        return None if obj is None else binding_of(obj)

    def shows_binding(self, written: Obj) -> bool:
        """Whether the cache has come as far as this write of a binding."""
        return self._bindings.shows(written)


def _indexed(informer: Informer) -> Informer:
    informer.add_index("parent", _parent)
    return informer
