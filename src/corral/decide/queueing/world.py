"""What is kept: everything a cycle looks at, in one place and always current.

`state` keeps it up to date from API objects; the cycle reads it and books admissions in it. Nothing here is copied for
a cycle: trials change usage and change it back.
"""

from __future__ import annotations

from collections.abc import Hashable

from corral.core.budget import Budget, Cpu
from corral.core.meta import Key
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import (
    AdmissionCheckSpec,
    Amounts,
    CohortSpec,
    FlavorSpec,
    LocalQueueSpec,
    WorkloadInfo,
)
from corral.decide.queueing.queue.pending import Pending, PendingQueue
from corral.decide.queueing.quota.admission_fair_sharing import UsageLedger
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.totals import Tally
from corral.decide.queueing.quota.tree import QuotaForest, QuotaNode
from corral.decide.queueing.topology.cluster import TopologyCluster

_NO_LABELS: dict[str, str] = {}


class World:
    """Queues, quota, reservations, waiting workloads and nodes of one cluster."""

    def __init__(self, settings: QueueingSettings) -> None:
        self.settings = settings
        self.cpu: Cpu = _free_of_charge
        self.costs: Budget[Hashable] = Budget()
        """What looking for a place for workloads of a shape has cost."""
        self.set_aside: dict[Hashable, float] = {}
        """Shapes that cost too much, and until when nobody looks for them."""
        self.forest = QuotaForest()
        self.queues: dict[str, ClusterQueue] = {}
        self.by_node: dict[QuotaNode, ClusterQueue] = {}
        self.pending: dict[str, PendingQueue] = {}
        self.local_queues: dict[Key, LocalQueueSpec] = {}
        self.cohorts: dict[str, CohortSpec] = {}
        self.flavors: dict[str, FlavorSpec] = {}
        self.checks: dict[str, AdmissionCheckSpec] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.workloads: dict[Key, WorkloadInfo] = {}
        self.reservations: dict[Key, Reservation] = {}
        self.topology = TopologyCluster(shared_hosts=settings.features.topology_overlapping_flavors)
        self.ledger = UsageLedger(settings.admission_fair_sharing)
        self.second_pass: dict[Key, Pending] = {}
        """Workloads with quota whose places have to be looked for now."""
        self.unplaced: dict[Key, Pending] = {}
        """Those for which there was no place; they are due again when something changes."""
        self.expected_evictions: dict[Key, str] = {}
        """Victims whose eviction was planned and not yet seen, with their uid."""
        self._planned: list[Key] = []
        """Those of them that were planned in this round."""
        self.gave_way: dict[Key, Key] = {}
        """Those that were evicted to make room, and for whom; see `gives_way`."""
        self.not_ready: set[Key] = set()
        """Admitted workloads whose pods are not ready yet."""
        self.tallies: dict[str, Tally] = {}
        """Totals per ClusterQueue name and per LocalQueue `namespace/name`."""
        self.dirty: dict[str, None] = {}
        """ClusterQueues whose tree has to be looked at again."""
        self.assumed = 0
        """How many admissions have been planned."""
        self.now = 0.0
        """The time of the latest plan."""

    def mark_dirty(self, name: str) -> None:
        self.dirty[name] = None

    def local_queue_of(self, info: WorkloadInfo) -> LocalQueueSpec | None:
        return self.local_queues.get(Key(info.key.namespace, info.queue))

    def pending_of(self, info: WorkloadInfo) -> PendingQueue | None:
        """Where a workload may wait; None while its LocalQueue is missing, closed or leads nowhere."""
        spec = self.local_queue_of(info)
        return self.pending.get(spec.cluster_queue) if spec is not None and spec.is_open else None

    def flavor_rank(self, local_queue: Key, flavor: str) -> int:
        """How far down the list of the queue it leads to a flavor is."""
        spec = self.local_queues.get(local_queue)
        queue = self.queues.get(spec.cluster_queue) if spec is not None else None
        flavors = queue.spec.groups[0].flavors if queue is not None and queue.spec.groups else ()
        return flavors.index(flavor) if flavor in flavors else 0

    def tally(self, name: str) -> Tally:
        return self.tallies.get(name) or self.tallies.setdefault(name, Tally())

    def running(self, local_queue: str) -> Amounts:
        """What admitted workloads of a LocalQueue use, by resource."""
        running: Amounts = {}
        for column, amount in self.tally(local_queue).used.items():
            running[column.resource] = running.get(column.resource, 0) + amount
        return running

    def tree_of(self, queue: ClusterQueue) -> list[ClusterQueue]:
        """All ClusterQueues that share quota with `queue`, itself included."""
        root = queue.node.root()
        return [self.by_node[node] for node in root.subtree_queues() if node in self.by_node]

    def in_backoff(self, info: WorkloadInfo) -> bool:
        if info.requeue_blocked or (info.requeue_at is not None and info.requeue_at > self.now):
            return True
        return bool(self.set_aside) and self.is_set_aside(info)

    def is_set_aside(self, info: WorkloadInfo) -> bool:
        return self.set_aside.get(info.shape, self.now) > self.now

    def namespace_matches(self, queue: ClusterQueue, namespace: str) -> bool:
        selector = queue.spec.namespace_selector
        return selector is not None and selector.matches(self.namespaces.get(namespace, _NO_LABELS))

    def reserve(self, reservation: Reservation) -> None:
        """Book a reservation in the quota tree and on nodes."""
        key = reservation.info.key
        self.reservations[key] = reservation
        reservation.leaving = self.expected_evictions.get(key) == reservation.info.uid
        reservation.queue.add(reservation)
        self.topology.take(reservation.topology_usage)
        self._count(reservation, 1)

    def release(self, key: Key) -> Reservation | None:
        """Give back what a workload held; the caller decides who gets another chance."""
        reservation = self.reservations.pop(key, None)
        if reservation is None:
            return None
        reservation.queue.remove(reservation)
        self.topology.give_back(reservation.topology_usage)
        self._count(reservation, -1)
        return reservation

    # -- planned evictions ----------------------------------------------------------------------------------------

    def expect_eviction(self, key: Key, uid: str) -> None:
        """An eviction was planned. Whoever looks for victims in the same round does not see it yet."""
        self.expected_evictions[key] = uid
        self._planned.append(key)

    def end_round(self) -> None:
        """From now on those whose eviction was planned leave anyway."""
        for key in self._planned:
            self._set_leaving(key, key in self.expected_evictions)
        self._planned.clear()

    def spare(self, key: Key) -> None:
        """A planned victim was not evicted."""
        self.expected_evictions.pop(key, None)
        self._set_leaving(key, False)

    def _set_leaving(self, key: Key, leaving: bool) -> None:
        reservation = self.reservations.get(key)
        if reservation is not None and reservation.leaving is not leaving:
            reservation.queue.set_leaving(reservation, leaving)

    def gives_way(self, info: WorkloadInfo) -> Key | None:
        """The preemptor that still waits for the room this workload was evicted from, if there is one.

        Admitted before it, the workload would be evicted again, and again. Where the preemptor had to leave in its turn, the room
        is for whom it left.
        """
        met = {info.key}
        key = self.gave_way.get(info.key)
        while key is not None and key not in met:
            if key in self.reservations:
                return None
            if self._preempts(key):
                return key
            met.add(key)
            key = self.gave_way.get(key)
        return None

    def _preempts(self, key: Key) -> bool:
        info = self.workloads.get(key)
        home = self.local_queue_of(info) if info is not None else None
        queue = self.queues.get(home.cluster_queue) if home is not None else None
        return queue is not None and queue.inactive is None and self.pending[queue.name].still_preempts(key)

    def forget_places(self, key: Key) -> None:
        """Its places on nodes need not be looked for any more."""
        self.second_pass.pop(key, None)
        self.unplaced.pop(key, None)

    def _count(self, reservation: Reservation, by: int) -> None:
        if by > 0:
            reservation.counted_admitted = reservation.info.admitted or reservation.admits
        admitted = reservation.counted_admitted
        self.tally(reservation.queue.name).count(reservation.usage, admitted, by)
        self.tally(reservation.info.queue_key).count(reservation.usage, admitted, by)


def _free_of_charge() -> float:
    """The processor's time where nobody pays for it."""
    return 0.0
