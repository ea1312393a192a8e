"""A ClusterQueue at run time: its spec, its node in the quota tree, and the workloads that hold its quota."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import structs

from corral.core.meta import Key
from corral.decide.queueing.cycle.assignment import TopologyUsage
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.model.values import ClusterQueueSpec, FlavorResource, ResourceGroup, Usage, WorkloadInfo
from corral.decide.queueing.quota.tree import QuotaNode

if TYPE_CHECKING:
    from corral.decide.queueing.topology.capacity import FlavorCapacity
    from corral.decide.queueing.topology.cluster import TopologyCluster


_FEW = 16

Rank = tuple[bool, int, float, int, str, Key]
"""The order in which reservations are considered for eviction: leaving ones, lower priority, newer, uid."""


def eviction_rank(reservation: Reservation, unknown: float = math.inf) -> Rank:
    """Where a reservation stands among those of its queue; `unknown` stands for the time of one that is not written yet."""
    info = reservation.info
    stays = not (info.evicted or reservation.leaving)
    if info.reserved_at is None:
        return stays, info.priority, -unknown, -reservation.assumed, info.uid, info.key
    return stays, info.priority, -info.reserved_at, 0, info.uid, info.key


def as_reserving(info: WorkloadInfo) -> WorkloadInfo:
    """A waiting workload as it will be once its reservation is written: an earlier eviction is history."""
    return structs.replace(info, evicted=False, evicted_reason="") if info.evicted and not info.reserving else info


class Reservation:
    """Quota held by one workload: reserved, admitted, or assumed until the write is seen."""

    __slots__ = (
        "admits",
        "assumed",
        "counted_admitted",
        "counted_priority",
        "info",
        "leaving",
        "pod_sets",
        "queue",
        "rank",
        "topology_usage",
        "usage",
    )

    def __init__(
        self,
        info: WorkloadInfo,
        queue: ClusterQueue,
        pod_sets: tuple[PodSetAssignment, ...],
        usage: Usage,
        topology_usage: TopologyUsage,
        *,
        assumed: int = 0,
        admits: bool = False,
    ) -> None:
        self.info = info
        self.queue = queue
        self.pod_sets = pod_sets
        self.usage = usage
        self.topology_usage = topology_usage
        self.assumed = assumed
        """Not written yet, and the how many-th of these; times have whole seconds, in which many are admitted."""
        self.admits = admits
        """It will be admitted by the same write, and counts as running from now on."""
        self.leaving = False
        """Its eviction was planned in an earlier round and is not seen yet."""
        self.rank: Rank = eviction_rank(self)
        self.counted_admitted = False
        self.counted_priority = 0

    def requested(self, pod_set: str, resource: str) -> int:
        return next((entry.requests.get(resource, 0) for entry in self.pod_sets if entry.name == pod_set), 0)

    def flavor_of(self, pod_set: str, resource: str) -> str:
        return next((entry.flavors.get(resource, "") for entry in self.pod_sets if entry.name == pod_set), "")


class ClusterQueue:
    """One ClusterQueue as the cycle sees it."""

    __slots__ = (
        "_ranked",
        "_unranked",
        "generation",
        "groups",
        "has_multikueue",
        "inactive",
        "is_topology_only",
        "name",
        "node",
        "provisioning_flavors",
        "reservations",
        "spec",
        "topology",
        "topology_flavors",
        "usage_by_priority",
    )

    def __init__(self, spec: ClusterQueueSpec, node: QuotaNode, topology: TopologyCluster) -> None:
        self.name = spec.name
        self.node = node
        self.topology = topology
        self.reservations: dict[Key, Reservation] = {}
        self._ranked: list[tuple[Rank, Reservation]] = []
        self._unranked: dict[Key, Reservation] = {}
        self.usage_by_priority: dict[int, Usage] = {}
        """Sums over the reservations, to see at a glance what evicting the less important could free."""
        self.generation = 0
        """Grows when quota or usage in its tree changes in a way that could let more workloads in."""
        self.inactive: tuple[str, str] | None = None
        """Reason and message while it cannot admit."""
        self.topology_flavors: dict[str, FlavorCapacity] = {}
        self.is_topology_only = False
        self.has_multikueue = False
        self.provisioning_flavors: frozenset[str] = frozenset()
        """Flavors whose placement waits for a provisioning check."""
        self.update(spec)

    def update(self, spec: ClusterQueueSpec) -> None:
        self.spec = spec
        self.groups: dict[str, ResourceGroup] = {}
        for group in spec.groups:
            for resource in group.covered:
                self.groups.setdefault(resource, group)

    def add(self, reservation: Reservation) -> None:
        """Book a reservation with this queue."""
        self.reservations[reservation.info.key] = reservation
        self.node.add(reservation.usage)
        self._count(reservation, 1)

    def remove(self, reservation: Reservation) -> None:
        del self.reservations[reservation.info.key]
        self.node.remove(reservation.usage)
        self._count(reservation, -1)

    def set_leaving(self, reservation: Reservation, leaving: bool) -> None:
        """Those that leave anyway come first when somebody looks for victims."""
        self._take_rank(reservation)
        reservation.leaving = leaving
        self._rank(reservation)

    def _rank(self, reservation: Reservation) -> None:
        reservation.rank = eviction_rank(reservation)
        self._unranked[reservation.info.key] = reservation

    def _take_rank(self, reservation: Reservation) -> None:
        if self._unranked.pop(reservation.rank[-1], None) is None:
            del self._ranked[bisect_left(self._ranked, reservation.rank, key=itemgetter(0))]

    def _count(self, reservation: Reservation, by: int) -> None:
        if by > 0:
            reservation.counted_priority = reservation.info.priority
            self._rank(reservation)
        else:
            self._take_rank(reservation)
        totals = self.usage_by_priority.setdefault(reservation.counted_priority, {})
        for column, amount in reservation.usage.items():
            totals[column] = totals.get(column, 0) + by * amount

    @property
    def ranked(self) -> list[tuple[Rank, Reservation]]:
        """Reservations in the order they would be evicted; brought up to date when somebody looks."""
        if self._unranked:
            fresh = [(reservation.rank, reservation) for reservation in self._unranked.values()]
            self._unranked.clear()
            if len(fresh) <= _FEW:
                for entry in fresh:
                    insort(self._ranked, entry, key=itemgetter(0))
            else:
                self._ranked.extend(fresh)
                self._ranked.sort(key=itemgetter(0))
        return self._ranked

    def usage_below(self, column: FlavorResource, priority: int) -> int:
        """What workloads of lower priority than `priority` hold of a column."""
        return sum(totals.get(column, 0) for rank, totals in self.usage_by_priority.items() if rank < priority)

    @property
    def cohort_path(self) -> str:
        """`/root/…/queue`, as messages name it."""
        names = [ancestor.name for ancestor in self.node.path()]
        return "/" + "/".join([*reversed(names), self.name])
