"""What a worker's queue has free, read from the worker's own ClusterQueues, flavors and topologies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from corral.core import conditions
from corral.core.meta import Key, Obj, generation_of, key_of, name_of, spec_of, status_of
from corral.decide.dispatch.binding import WorkerView
from corral.decide.dispatch.room import FlavorRoom, Group
from corral.decide.queueing.model.amounts import parse_amount
from corral.decide.queueing.model.decode import flavor_from, topology_from
from corral.decide.queueing.model.values import Amounts, FlavorSpec

ByFlavor = dict[str, Amounts]


class Known(Protocol):
    """Objects of one kind on a worker: followed, or listed once."""

    def get(self, key: Key) -> Obj | None: ...

    def list(self) -> Iterable[Obj]: ...


class WorkerQueues:
    """A worker's ClusterQueues as the late-binding dispatcher sees them."""

    def __init__(self, queues: Known, flavors: Known, topologies: Known) -> None:
        self._queues, self._flavors, self._topologies = queues, flavors, topologies
        self._known: dict[Key, tuple[Obj, tuple[Group, ...]]] = {}
        """The rooms of queues as they were last worked out, until something changes."""

    def changed(self) -> None:
        """A queue, a flavor or a topology is not what it was."""
        self._known.clear()

    def behind(self, local_queue: Obj | None) -> Obj | None:
        """The ClusterQueue of a LocalQueue."""
        name = str(spec_of(local_queue).get("clusterQueue") or "") if local_queue else ""
        return self._queues.get(Key("", name)) if name else None

    def view(
        self,
        cluster: str,
        labels: Mapping[str, str],
        queue: Obj | None,
        *,
        serves: bool,
        promised: Mapping[str, int],
        refused: bool,
    ) -> WorkerView:
        if queue is None:
            return WorkerView(cluster, labels, serves_kind=serves, queue_found=False)
        return WorkerView(
            cluster,
            labels,
            serves_kind=serves,
            queue_active=not conditions.is_false(queue, "Active"),
            groups=self._groups(queue),
            promised=promised,
            waiting=int(status_of(queue).get("pendingWorkloads") or 0),
            refused=refused,
        )

    def _groups(self, queue: Obj) -> tuple[Group, ...]:
        known = self._known.get(key_of(queue))
        if known is None or known[0] is not queue:
            known = self._known[key_of(queue)] = (queue, self._rooms(queue))
        return known[1]

    def _rooms(self, queue: Obj) -> tuple[Group, ...]:
        used, lent, most = reserved(queue), *self._cohort(queue)
        return tuple(
            tuple(self._room(flavor, used, lent, most) for flavor in group.get("flavors") or [])
            for group in spec_of(queue).get("resourceGroups") or []
        )

    def _room(self, flavor: Obj, used: ByFlavor, lent: ByFlavor, most: ByFlavor) -> FlavorRoom:
        name = str(flavor["name"])
        own = _amounts(flavor.get("resources") or [], "nominalQuota")
        limit = _amounts(flavor.get("resources") or [], "borrowingLimit")

        def borrowed(offered: ByFlavor, resource: str) -> int:
            amount = offered.get(name, {}).get(resource, 0)
            return min(amount, limit[resource]) if resource in limit else amount

        stored = self._flavors.get(Key("", name))
        spec = flavor_from(stored) if stored is not None else FlavorSpec(name=name)
        topology = self._topologies.get(Key("", spec.topology)) if spec.topology else None
        return FlavorRoom(
            spec,
            None if topology is None else topology_from(topology).levels,
            free={resource: amount - used.get(name, {}).get(resource, 0) for resource, amount in own.items()},
            lent={resource: borrowed(lent, resource) for resource in own},
            nominal=own,
            most={resource: amount + borrowed(most, resource) for resource, amount in own.items()},
        )

    def _cohort(self, queue: Obj) -> tuple[ByFlavor, ByFlavor]:
        """What other queues of the same cohort leave unused, and what they have in all, as far as they lend it."""
        unused: ByFlavor = {}
        all_: ByFlavor = {}
        cohort = spec_of(queue).get("cohortName")
        others = [other for other in self._queues.list() if cohort and spec_of(other).get("cohortName") == cohort]
        for other in others:
            if name_of(other) == name_of(queue):
                continue
            used = reserved(other)
            for name, flavor in _flavors(other):
                lends = _amounts(flavor.get("resources") or [], "lendingLimit")
                for resource, amount in _amounts(flavor.get("resources") or [], "nominalQuota").items():
                    most = min(amount, lends.get(resource, amount))
                    left = min(most, max(0, amount - used.get(name, {}).get(resource, 0)))
                    _add(unused, name, resource, left)
                    _add(all_, name, resource, most)
        return unused, all_


def reserved(queue: Obj) -> ByFlavor:
    """What is in use or promised on the worker itself."""
    return {
        str(flavor["name"]): _amounts(flavor.get("resources") or [], "total")
        for flavor in status_of(queue).get("flavorsReservation") or []
    }


def usage_mark(queue: Obj) -> tuple[int, ByFlavor]:
    """Changes when a queue may have room it had not before."""
    return generation_of(queue), reserved(queue)


def _flavors(queue: Obj) -> Iterable[tuple[str, Obj]]:
    for group in spec_of(queue).get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            yield str(flavor["name"]), flavor


def _amounts(entries: Iterable[Mapping[str, Any]], field: str) -> Amounts:
    return {
        str(entry["name"]): parse_amount(str(entry["name"]), entry[field])
        for entry in entries
        if entry.get(field) is not None
    }


def _add(total: ByFlavor, flavor: str, resource: str, amount: int) -> None:
    by_resource = total.setdefault(flavor, {})
    by_resource[resource] = by_resource.get(resource, 0) + amount
