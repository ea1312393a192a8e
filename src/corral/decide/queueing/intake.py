"""How objects become state: who is queued, who holds quota, and who gets another chance when something changes.

`QueueingState` adds the public methods. Everything here is bookkeeping on the world: a reservation is booked or
released, a workload is queued or taken out, and trees in which quota may have come free are marked to be flushed at
the next plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from corral.core.meta import Key
from corral.decide.queueing import messages
from corral.decide.queueing.activity import refresh_activity
from corral.decide.queueing.clusterqueue import ClusterQueue, Reservation, as_reserving
from corral.decide.queueing.cycle import Cycle
from corral.decide.queueing.devices import Devices
from corral.decide.queueing.model import LocalQueueSpec, WorkloadInfo
from corral.decide.queueing.pending import Pending, PendingQueue
from corral.decide.queueing.plan import PodSetAssignment
from corral.decide.queueing.settings import QueueingSettings
from corral.decide.queueing.topology.assigning import recorded_usage
from corral.decide.queueing.workload import WorkloadDecoder, priority_changed
from corral.decide.queueing.world import World


class Intake:
    """The bookkeeping half of the queueing state."""

    def __init__(
        self,
        settings: QueueingSettings | None = None,
        *,
        overheads: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`overheads` gives the pod overhead of RuntimeClasses by name; see `set_runtime_class`."""
        self.settings = settings or QueueingSettings()
        self.world = World(self.settings)
        self._overheads: dict[str, Mapping[str, str]] = dict(overheads or {})
        self.devices = Devices(self.settings)
        self._decoder = WorkloadDecoder(self.settings, self._overheads, self.devices, self._flavor_rank)
        self._cycle = Cycle(self.world)
        self._specs: dict[tuple[str, str], object] = {}
        self._by_local_queue: dict[Key, dict[Key, None]] = {}
        self._local_queues_of: dict[str, dict[Key, None]] = {}
        self._homeless: dict[str, dict[Key, None]] = {}
        """Reservations in ClusterQueues that do not exist (yet)."""
        self._preempting: dict[Key, None] = {}
        """Workloads that were preempting when a former process ended; they go on as the first of their queue."""
        self._to_flush: dict[str, None] = {}
        self._alarms: list[tuple[float, Key]] = []
        self._now = 0.0

    def _is_news(self, kind: str, name: str, value: object) -> bool:
        if self._specs.get((kind, name)) == value:
            return False
        self._specs[kind, name] = value
        return True

    def _new_pending(self, queue: ClusterQueue) -> PendingQueue:
        features = self.settings.features
        pending = PendingQueue(
            strict=queue.spec.strict_fifo,
            hashing=features.scheduling_hash,
            resuming=features.preserve_scan_progress,
        )
        if queue.spec.admission_fair_sharing and self.settings.admission_fair_sharing is not None:
            pending.usage_of = self.world.ledger.usage
        return pending

    def _rebuild_pending(self, queue: ClusterQueue) -> None:
        old = self.world.pending[queue.name]
        new = self.world.pending[queue.name] = self._new_pending(queue)
        for item in old.items.values():
            new.add(item.info, backoff=self._in_backoff(item.info))

    def _accept(self, info: WorkloadInfo, old: WorkloadInfo | None) -> None:
        world, key = self.world, info.key
        if old is None or old.queue != info.queue:
            if old is not None:
                self._by_local_queue.get(Key(key.namespace, old.queue), {}).pop(key, None)
                self._unqueue(old)
                world.ledger.forgive(old.queue_key, key)
            self._by_local_queue.setdefault(Key(key.namespace, info.queue), {})[key] = None
        world.workloads[key] = info
        if old is None and not info.reserving and messages.was_preempting(info.obj):
            self._preempting[key] = None
        if info.evicted or not info.reserving:
            world.expected_evictions.pop(key, None)
        if info.finished:
            self._unqueue(info)
            self._release(key)
            self._forget(info)
        elif info.reserving:
            self._unqueue(info)
            self._book(info, old)
        elif key in world.reservations and world.reservations[key].assumed:
            # The admission was planned and is being written; what we see is the workload before that.
            world.reservations[key].info = as_reserving(info)
        else:
            self._release(key)
            self._pods_ready(key)
            world.second_pass.pop(key, None)
            world.unplaced.pop(key, None)
            if not info.active:
                world.ledger.forgive(info.queue_key, key)
            self._requeue(info, old)

    def _forget(self, info: WorkloadInfo) -> None:
        world = self.world
        world.ledger.forgive(info.queue_key, info.key)
        world.second_pass.pop(info.key, None)
        world.unplaced.pop(info.key, None)
        world.expected_evictions.pop(info.key, None)
        self._pods_ready(info.key)

    def _pods_ready(self, key: Key) -> None:
        if key in self.world.not_ready:
            self.world.not_ready.discard(key)
            if not self.world.not_ready:
                for name in self.world.queues:
                    self.world.stir(name)

    def _book(self, info: WorkloadInfo, old: WorkloadInfo | None = None) -> None:
        """Count a reservation as the object states it."""
        world = self.world
        queue = world.queues.get(info.cluster_queue)
        if queue is None:
            self._release(info.key)
            self._homeless.setdefault(info.cluster_queue, {})[info.key] = None
            return
        before = world.release(info.key)
        usage = info.usage
        replaced = world.reservations.get(info.replaces) if info.replaces is not None else None
        if replaced is not None:
            usage = {column: amount - replaced.usage.get(column, 0) for column, amount in usage.items()}
        pod_sets = tuple(
            PodSetAssignment(
                entry.name,
                entry.count,
                entry.flavors,
                entry.requests,
                entry.topology_assignment,
                entry.delayed_topology,
            )
            for entry in info.pod_sets
        )
        reservation = Reservation(info, queue, pod_sets, usage, recorded_usage(info, world.topology.capacities))
        world.reserve(reservation)
        if before is not None and before.queue is not queue:
            self._flush_tree(before.queue)
        shrunk = before is not None and any(usage.get(column, 0) < held for column, held in before.usage.items())
        if shrunk or (old is not None and priority_changed(old, info)):
            self._flush_tree(queue)
        if info.variant_of and before is not None and before.assumed:
            # A sibling may wait to take over from it.
            world.stir(queue.name)
        if info.admitted and info.active and world.ledger.has_penalty(info.queue_key, info.key):
            world.ledger.settle(info.queue_key, info.key, world.running(info.queue_key), self._now)
        if self.settings.block_on_pods_ready and not info.pods_ready:
            world.not_ready.add(info.key)
        else:
            self._pods_ready(info.key)
        if info.needs_second_pass:
            world.second_pass[info.key] = Pending(info, 0)
        else:
            world.second_pass.pop(info.key, None)
            world.unplaced.pop(info.key, None)

    def _release(self, key: Key) -> None:
        reservation = self.world.release(key)
        if reservation is None:
            return
        self._flush_tree(reservation.queue)
        for flavor in self.world.topology.sharing_nodes(reservation.topology_usage):
            self._flush_users_of(flavor)
        self._rebook_successor(reservation)

    def _rebook_successor(self, replaced: Reservation) -> None:
        """A slice that was counted as the difference to the one it replaced holds everything once that is gone."""
        key = replaced.info.key
        for reservation in list(replaced.queue.reservations.values()):
            if reservation.info.replaces == key:
                world = self.world
                world.release(reservation.info.key)
                for column, amount in replaced.usage.items():
                    reservation.usage = {**reservation.usage, column: reservation.usage.get(column, 0) + amount}
                world.reserve(reservation)

    # queueing

    def _queue_for(self, info: WorkloadInfo) -> PendingQueue | None:
        spec = self.world.local_queues.get(Key(info.key.namespace, info.queue))
        if spec is None or not is_open(spec):
            return None
        return self.world.pending.get(spec.cluster_queue)

    def _requeue(self, info: WorkloadInfo, old: WorkloadInfo | None) -> None:
        """Queue a pending workload, unless nothing changed that could matter to its turn."""
        pending = self._queue_for(info)
        item = pending.items.get(info.key) if pending is not None else None
        if pending is not None and item is not None and old is not None and _waits_alike(old, info):
            pending.replace(item, info)
            return
        self._queue(info)

    def _queue(self, info: WorkloadInfo) -> None:
        pending = self._queue_for(info)
        if pending is None or not info.active or info.on_hold or info.deleting or info.uncounted:
            self._unqueue(info)
            return
        if self.settings.features.concurrent_admission and not info.variant_of and self._admits_variants(info):
            return
        backoff = self._in_backoff(info)
        pending.add(info, backoff=backoff)
        if self._preempting and not backoff and self._preempting.pop(info.key, 0) is None:
            pending.resume_preemption(info.key)
        if backoff and info.requeue_at is not None and not info.requeue_blocked:
            heappush(self._alarms, (info.requeue_at, info.key))
        spec = self.world.local_queues[Key(info.key.namespace, info.queue)]
        self.world.stir(spec.cluster_queue)

    def _flavor_rank(self, local_queue: Key, flavor: str) -> int:
        spec = self.world.local_queues.get(local_queue)
        queue = self.world.queues.get(spec.cluster_queue) if spec is not None else None
        flavors = queue.spec.groups[0].flavors if queue is not None and queue.spec.groups else ()
        return flavors.index(flavor) if flavor in flavors else 0

    def _admits_variants(self, info: WorkloadInfo) -> bool:
        """Does its queue take variants of a workload instead of the workload?"""
        spec = self.world.local_queues[Key(info.key.namespace, info.queue)]
        return bool(self.world.queues[spec.cluster_queue].spec.concurrent_admission)

    def _in_backoff(self, info: WorkloadInfo) -> bool:
        return info.requeue_blocked or (info.requeue_at is not None and info.requeue_at > self._now)

    def _unqueue(self, info: WorkloadInfo) -> None:
        spec = self.world.local_queues.get(Key(info.key.namespace, info.queue))
        pending = self.world.pending.get(spec.cluster_queue) if spec is not None else None
        if spec is not None and pending is not None and pending.delete(info.key) is not None:
            self.world.stir(spec.cluster_queue)

    def _queue_members(self, local_queue: Key) -> None:
        for key in list(self._by_local_queue.get(local_queue, ())):
            info = self.world.workloads[key]
            if not info.reserving and not info.finished and key not in self.world.reservations:
                self._queue(info)

    def _unqueue_members(self, spec: LocalQueueSpec) -> None:
        pending = self.world.pending.get(spec.cluster_queue)
        if pending is not None:
            for key in self._by_local_queue.get(spec.key, ()):
                pending.delete(key)
            self.world.stir(spec.cluster_queue)

    # another chance for parked workloads

    def _flush_tree(self, queue: ClusterQueue) -> None:
        self._to_flush[queue.name] = None

    def _flush_cohort(self, name: str) -> None:
        node = self.world.forest.cohorts.get(name)
        if node is not None:
            for leaf in node.root().subtree_queues():
                self._to_flush[leaf.name] = None

    def _flush_users_of(self, flavor: str) -> None:
        for queue in self.world.queues.values():
            if flavor in queue.spec.flavors:
                self._to_flush[queue.name] = None

    def _flavor_changed(self, flavor: str) -> None:
        self._settle_topology()
        for queue in self.world.queues.values():
            if flavor in queue.spec.flavors:
                self._refresh(queue)
                self._to_flush[queue.name] = None

    def _check_changed(self, check: str) -> None:
        for queue in self.world.queues.values():
            if any(rule.name == check for rule in queue.spec.checks):
                self._refresh(queue)
                self._to_flush[queue.name] = None

    def _topology_changed(self) -> None:
        """Nodes or topologies changed: queues with topology flavors get another chance at the next plan."""
        for queue in self.world.queues.values():
            if any(name in self.world.flavors and self.world.flavors[name].topology for name in queue.spec.flavors):
                self._to_flush[queue.name] = None

    def _refresh_all(self) -> None:
        for queue in self.world.queues.values():
            self._refresh(queue)

    def _refresh(self, queue: ClusterQueue) -> None:
        world = self.world
        was = queue.inactive
        broken = world.forest.is_broken(queue.node)
        aware = self.settings.features.topology
        refresh_activity(queue, world.flavors, world.checks, world.topology, broken=broken, topology_aware=aware)
        if was is not None and queue.inactive is None:
            self._to_flush[queue.name] = None
            for item in world.pending[queue.name].items.values():
                item.verdict = None  # meanwhile it was told something else

    def _settle_structure(self) -> None:
        self.world.forest.settle()
        self._settle_topology()

    def _settle_topology(self) -> None:
        if self.world.topology.settle():
            self._refresh_all()
        if self.world.topology.remapped:
            self._recount_topology()

    def _recount_topology(self) -> None:
        """Count what assignments take of nodes anew, now that flavors have other trees."""
        world = self.world
        world.topology.forget_usage()
        for reservation in world.reservations.values():
            if not reservation.assumed:
                reservation.topology_usage = recorded_usage(reservation.info, world.topology.capacities)
            for flavor, domains in reservation.topology_usage.items():
                world.topology.change(flavor, domains, 1)

    def _settle(self) -> None:
        """Bring trees up to date and give parked workloads of changed trees another chance."""
        self._settle_structure()
        world = self.world
        done: set[str] = set()
        if self._to_flush and world.unplaced:
            world.second_pass.update(world.unplaced)
            world.unplaced.clear()
        for name in list(self._to_flush):
            queue = world.queues.get(name)
            if queue is None or name in done:
                continue
            for member in world.tree_of(queue):
                done.add(member.name)
                member.generation += 1
                world.pending[member.name].flush(self._may_retry(member))
                world.stir(member.name)
        self._to_flush.clear()

    def _may_retry(self, queue: ClusterQueue) -> Callable[[WorkloadInfo], bool]:
        return lambda info: self.world.namespace_matches(queue, info.key.namespace)

    def _ring(self, now: float) -> None:
        """End back-offs whose time has come."""
        while self._alarms and self._alarms[0][0] <= now:
            _, key = heappop(self._alarms)
            info = self.world.workloads.get(key)
            if info is None or info.requeue_blocked or (info.requeue_at or 0.0) > now:
                continue
            pending = self._queue_for(info)
            if pending is not None and pending.wake(key):
                self.world.stir(self.world.local_queues[Key(key.namespace, info.queue)].cluster_queue)


def is_open(spec: LocalQueueSpec) -> bool:
    return spec.stop_policy == "None" and not spec.deleting


def same_queue(one: LocalQueueSpec, other: LocalQueueSpec) -> bool:
    return (one.cluster_queue, is_open(one)) == (other.cluster_queue, is_open(other))


def _waits_alike(old: WorkloadInfo, new: WorkloadInfo) -> bool:
    """Would the queue treat both versions the same?"""

    def view(info: WorkloadInfo) -> tuple[object, ...]:
        return (
            info.shape,
            info.order_time,
            info.active,
            info.on_hold,
            info.deleting,
            info.evicted,
            info.evicted_reason,
            info.requeue_at,
            info.requeue_blocked,
            info.gated_preemption,
            info.failed_checks,
            info.invalid,
            info.uncounted,
            info.reserving,
        )

    return view(old) == view(new)
