"""The façade of queueing: feed it objects, ask it for plans and views.

A controller calls the `upsert_…` and `delete_…` methods from its informers, in any order and as often as it likes;
equal objects cost a comparison. `plan_cycle` returns what to write. Admissions in a plan are counted as reserved at
once; the controller confirms by feeding back the object it wrote, or takes it back with `admission_failed`.
Nothing here reads a clock: `now` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from corral.core.meta import Key, Obj, is_deleting, key_of, labels_of, name_of, spec_of
from corral.decide.queueing.activity import READY, refresh_activity
from corral.decide.queueing.checks import required_checks
from corral.decide.queueing.clusterqueue import ClusterQueue, Reservation
from corral.decide.queueing.cycle import Cycle
from corral.decide.queueing.decode import (
    admission_check_from,
    cluster_queue_from,
    cohort_from,
    flavor_from,
    local_queue_from,
    node_from,
    topology_from,
)
from corral.decide.queueing.explain import explain
from corral.decide.queueing.fairness import share_of
from corral.decide.queueing.limits import NO_LIMITS, namespace_limits
from corral.decide.queueing.model import Amounts, LocalQueueSpec, PodUsage, WorkloadInfo
from corral.decide.queueing.pending import Pending, PendingQueue
from corral.decide.queueing.plan import CyclePlan, PodSetAssignment
from corral.decide.queueing.requests import pod_requests
from corral.decide.queueing.settings import QueueingSettings
from corral.decide.queueing.tally import flavor_usage
from corral.decide.queueing.topology.assigning import recorded_usage
from corral.decide.queueing.views import ClusterQueueView, CohortView, Explanation, LocalQueueView, PendingView
from corral.decide.queueing.workload import WorkloadDecoder
from corral.decide.queueing.world import World


class QueueingState:
    """All queueing knowledge of one cluster."""

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
        self._decoder = WorkloadDecoder(self.settings, self._overheads)
        self._cycle = Cycle(self.world)
        self._specs: dict[tuple[str, str], object] = {}
        self._by_local_queue: dict[Key, dict[Key, None]] = {}
        self._local_queues_of: dict[str, dict[Key, None]] = {}
        self._homeless: dict[str, dict[Key, None]] = {}
        """Reservations in ClusterQueues that do not exist (yet)."""
        self._to_flush: dict[str, None] = {}
        self._alarms: list[tuple[float, Key]] = []
        self._now = 0.0

    # -- ClusterQueues, Cohorts, LocalQueues ----------------------------------------------------------------------

    def upsert_cluster_queue(self, obj: Obj) -> None:
        """Add or change a ClusterQueue; a change of status alone does nothing."""
        if not self._is_news("cq", name_of(obj), (spec_of(obj), is_deleting(obj))):
            return
        spec = cluster_queue_from(obj)
        world = self.world
        queue = world.queues.get(spec.name)
        if queue is not None:
            self._flush_tree(queue)
        node = world.forest.set_queue(spec.name, spec.cohort, spec.quotas, spec.weight)
        if queue is None:
            queue = world.queues[spec.name] = ClusterQueue(spec, node, world.topology)
            world.by_node[node] = queue
            world.pending[spec.name] = self._new_pending(queue)
        else:
            rebuilt = (queue.spec.strict_fifo, queue.spec.admission_fair_sharing) != (
                spec.strict_fifo,
                spec.admission_fair_sharing,
            )
            queue.update(spec)
            if rebuilt:
                self._rebuild_pending(queue)
        world.topology.settle()
        self._refresh(queue)
        for key in list(self._homeless.pop(spec.name, ())):
            self._book(world.workloads[key])
        for local_queue in self._local_queues_of.get(spec.name, ()):
            self._queue_members(local_queue)
        self._flush_tree(queue)

    def delete_cluster_queue(self, name: str) -> None:
        world = self.world
        queue = world.queues.pop(name, None)
        self._specs.pop(("cq", name), None)
        if queue is None:
            return
        self._flush_tree(queue)
        for key in list(queue.reservations):
            world.release(key)
            self._homeless.setdefault(name, {})[key] = None
        world.by_node.pop(queue.node, None)
        world.pending.pop(name, None)
        world.forest.delete_queue(name)
        self._to_flush.pop(name, None)

    def upsert_cohort(self, obj: Obj) -> None:
        if not self._is_news("cohort", name_of(obj), spec_of(obj)):
            return
        spec = cohort_from(obj)
        self.world.cohorts[spec.name] = spec
        self._flush_cohort(spec.name)
        self.world.forest.set_cohort(spec.name, spec.parent, spec.quotas, spec.weight)
        self._flush_cohort(spec.name)
        self._refresh_all()

    def delete_cohort(self, name: str) -> None:
        if self._specs.pop(("cohort", name), None) is None:
            return
        self.world.cohorts.pop(name, None)
        self._flush_cohort(name)
        self.world.forest.delete_cohort(name)
        self._flush_cohort(name)
        self._refresh_all()

    def upsert_local_queue(self, obj: Obj) -> None:
        """Add or change a LocalQueue; stopping it takes its workloads out of the queue."""
        spec = local_queue_from(obj)
        self.world.ledger.set_queue(spec)
        old = self.world.local_queues.get(spec.key)
        self.world.local_queues[spec.key] = spec
        if old is not None and _same_queue(old, spec):
            return
        if old is not None and old.cluster_queue != spec.cluster_queue:
            self._unqueue_members(old)
            self._local_queues_of.get(old.cluster_queue, {}).pop(spec.key, None)
        self._local_queues_of.setdefault(spec.cluster_queue, {})[spec.key] = None
        if _is_open(spec):
            self._queue_members(spec.key)
        else:
            self._unqueue_members(spec)

    def delete_local_queue(self, key: Key) -> None:
        spec = self.world.local_queues.pop(key, None)
        if spec is not None:
            self._unqueue_members(spec)
            self._local_queues_of.get(spec.cluster_queue, {}).pop(key, None)
            self.world.ledger.delete_queue(key)

    # -- flavors, checks, topology, nodes, namespaces -------------------------------------------------------------

    def upsert_flavor(self, obj: Obj) -> None:
        if not self._is_news("flavor", name_of(obj), (spec_of(obj), is_deleting(obj))):
            return
        spec = flavor_from(obj)
        self.world.flavors[spec.name] = spec
        self.world.topology.set_flavor(spec)
        self._flavor_changed(spec.name)

    def delete_flavor(self, name: str) -> None:
        self._specs.pop(("flavor", name), None)
        if self.world.flavors.pop(name, None) is not None:
            self.world.topology.delete_flavor(name)
            self._flavor_changed(name)

    def upsert_admission_check(self, obj: Obj) -> None:
        spec = admission_check_from(obj)
        if self.world.checks.get(spec.name) != spec:
            self.world.checks[spec.name] = spec
            self._check_changed(spec.name)

    def delete_admission_check(self, name: str) -> None:
        if self.world.checks.pop(name, None) is not None:
            self._check_changed(name)

    def upsert_topology(self, obj: Obj) -> None:
        if self._is_news("topology", name_of(obj), spec_of(obj)):
            self.world.topology.set_topology(topology_from(obj))
            self._topology_changed()

    def delete_topology(self, name: str) -> None:
        if self._specs.pop(("topology", name), None) is not None:
            self.world.topology.delete_topology(name)
            self._topology_changed()

    def upsert_node(self, obj: Obj) -> None:
        if self.world.topology.set_node(node_from(obj)):
            self._topology_changed()

    def delete_node(self, name: str) -> None:
        if self.world.topology.delete_node(name):
            self._topology_changed()

    def upsert_pod(self, obj: Obj) -> None:
        """Count a pod outside topology scheduling against its node; finished and unbound pods count for nothing."""
        spec = spec_of(obj)
        node = spec.get("nodeName") or ""
        phase = (obj.get("status") or {}).get("phase")
        if not node or phase in ("Succeeded", "Failed"):
            self.delete_pod(key_of(obj))
        else:
            self.world.topology.set_pod(PodUsage(key_of(obj), node, pod_requests(spec)))

    def delete_pod(self, key: Key) -> None:
        if self.world.topology.delete_pod(key):
            self._topology_changed()

    def upsert_namespace(self, obj: Obj) -> None:
        name, labels = name_of(obj), labels_of(obj)
        if self.world.namespaces.get(name) == labels:
            return
        self.world.namespaces[name] = labels
        for key, spec in self.world.local_queues.items():
            queue = self.world.queues.get(spec.cluster_queue)
            if key.namespace == name and queue is not None:
                self._flush_tree(queue)

    def delete_namespace(self, name: str) -> None:
        self.world.namespaces.pop(name, None)

    def set_runtime_class(self, name: str, overhead: Mapping[str, str]) -> None:
        """Pod overhead of a RuntimeClass, for pods that do not carry their own."""
        if self._overheads.get(name) != overhead:
            self._overheads[name] = overhead
            limits = self._decoder.limits
            self._decoder = WorkloadDecoder(self.settings, self._overheads)
            self._decoder.limits = limits

    def set_limit_ranges(self, namespace: str, limit_ranges: Iterable[Obj]) -> None:
        """All LimitRanges of a namespace; they count for workloads that are fed afterwards."""
        limits = namespace_limits(limit_ranges)
        if limits == NO_LIMITS:
            self._decoder.limits.pop(namespace, None)
        else:
            self._decoder.limits[namespace] = limits
        for key in [key for key in self.world.workloads if key.namespace == namespace]:
            info = self.world.workloads[key]
            if not info.reserving and not info.finished:
                self._accept(self._decoder.decode(info.obj), info)

    # -- workloads ------------------------------------------------------------------------------------------------

    def upsert_workload(self, obj: Obj) -> None:
        """Take over a Workload as it is now: pending, reserving, evicted or finished. Older versions are ignored."""
        info = self._decoder.decode(obj)
        old = self.world.workloads.get(info.key)
        if old is not None and old.uid == info.uid and info.version and info.version <= old.version:
            return
        if old is not None and old.uid != info.uid:
            self.delete_workload(info.key)
            old = None
        self._accept(info, old)

    def delete_workload(self, key: Key) -> None:
        info = self.world.workloads.pop(key, None)
        if info is None:
            return
        self._by_local_queue.get(Key(key.namespace, info.queue), {}).pop(key, None)
        self._unqueue(info)
        self._release(key)
        self._homeless.get(info.cluster_queue, {}).pop(key, None)
        self._forget(info)

    def admission_failed(self, key: Key, *, gone: bool = False) -> None:
        """The write of a planned admission did not happen: give the quota back and try again, unless it is gone."""
        reservation = self.world.reservations.get(key)
        if reservation is None or not reservation.assumed:
            return
        info = reservation.info
        self._release(key)
        self.world.ledger.forgive(info.queue_key, key)
        current = self.world.workloads.get(key)
        if current is None or gone:
            return
        if current.reserving:
            self._book(current)
        else:
            self._queue(current)

    def eviction_failed(self, key: Key) -> None:
        """The eviction of a planned victim could not be written; a later cycle may plan it again."""
        self.world.expected_evictions.pop(key, None)
        reservation = self.world.reservations.get(key)
        if reservation is not None:
            self.world.stir(reservation.queue.name)

    # -- planning -------------------------------------------------------------------------------------------------

    def needs_cycle(self, now: float) -> bool:
        """Could a plan decide anything new?"""
        world = self.world
        due = bool(self._alarms) and self._alarms[0][0] <= now
        return bool(world.stirred or world.second_pass or self._to_flush or due)

    def plan_cycle(self, now: float) -> CyclePlan:
        """Decide everything that can be decided now. Admissions are booked; everything else is left to the caller."""
        self._now = max(now, self._now)
        self._ring(now)
        self._settle()
        plan = self._cycle.plan(now)
        if not self._alarms:
            return plan
        return CyclePlan(plan.decisions, plan.rounds, plan.skipped_preemptions, plan.more, next_at=self._alarms[0][0])

    def flush_cluster_queue(self, name: str) -> None:
        """Try everything that waits in the queue's tree again, as after any change of quota."""
        queue = self.world.queues.get(name)
        if queue is not None:
            self._flush_tree(queue)

    def sample_local_queue(self, key: Key, now: float) -> Amounts | None:
        """Decay a LocalQueue's usage history (billionths per resource); None when it is not yet time."""
        tally = self.world.tally(str(key))
        running: Amounts = {}
        for column, amount in tally.used.items():
            running[column.resource] = running.get(column.resource, 0) + amount
        sampled = self.world.ledger.sample(str(key), running, now)
        spec = self.world.local_queues.get(key)
        if sampled is not None and spec is not None and spec.cluster_queue in self.world.queues:
            self.world.stir(spec.cluster_queue)
        return sampled

    # -- views ----------------------------------------------------------------------------------------------------

    def pending(self, cluster_queue: str) -> list[PendingView]:
        """Waiting workloads of a ClusterQueue in the order they are tried, with their positions."""
        queue = self.world.pending.get(cluster_queue)
        views: list[PendingView] = []
        local: dict[str, int] = {}
        for position, item in enumerate(queue.ordered() if queue is not None else ()):
            info = item.info
            place = local[info.queue_key] = local.get(info.queue_key, -1) + 1
            views.append(PendingView(info.key, info.uid, info.queue, info.priority, info.created, position, place))
        return views

    def cluster_queue(self, name: str) -> ClusterQueueView | None:
        queue = self.world.queues.get(name)
        if queue is None:
            return None
        self._settle_structure()
        tally, waiting = self.world.tally(name), self.world.pending[name]
        nominal = {column: quota.nominal for column, quota in queue.spec.quotas.items()}
        reason, message = queue.inactive or READY
        return ClusterQueueView(
            pending=len(waiting),
            active_pending=waiting.active,
            reserving=tally.reserving,
            admitted=tally.admitted,
            flavors_reservation=flavor_usage(nominal, tally.reserved, nominal),
            flavors_usage=flavor_usage(nominal, tally.used, nominal),
            weighted_share=share_of(queue.node).rounded if self.settings.fair_sharing else 0,
            reason=reason,
            message=message,
        )

    def local_queue(self, key: Key) -> LocalQueueView | None:
        spec = self.world.local_queues.get(key)
        if spec is None:
            return None
        self._settle_structure()
        queue = self.world.queues.get(spec.cluster_queue)
        tally = self.world.tally(str(key))
        columns = queue.spec.quotas if queue is not None else {}
        waiting = self.world.pending.get(spec.cluster_queue)
        active, reason, message = _local_queue_activity(spec, queue)
        return LocalQueueView(
            pending=waiting.by_local_queue.get(str(key), 0) if waiting is not None else 0,
            reserving=tally.reserving,
            admitted=tally.admitted,
            flavors_reservation=flavor_usage(columns, tally.reserved),
            flavors_usage=flavor_usage(columns, tally.used),
            active=active,
            reason=reason,
            message=message,
            usage_share=self.world.ledger.usage(str(key)),
        )

    def cohort(self, name: str) -> CohortView | None:
        node = self.world.forest.cohorts.get(name)
        if node is None:
            return None
        self._settle_structure()
        return CohortView(
            weighted_share=share_of(node).rounded if self.settings.fair_sharing else 0,
            subtree_quota=flavor_usage(node.subtree, node.subtree),
            subtree_usage=flavor_usage(node.subtree, node.usage),
            broken=self.world.forest.is_broken(node),
        )

    def required_checks(
        self, cluster_queue: str, pod_sets: Iterable[PodSetAssignment] | None = None
    ) -> tuple[str, ...]:
        """Admission checks a workload of this queue must pass, given the flavors it was assigned."""
        queue = self.world.queues.get(cluster_queue)
        if queue is None:
            return ()
        return required_checks(queue, None if pod_sets is None else tuple(pod_sets))

    def inadmissible(self, key: Key) -> tuple[str, str] | None:
        """Reason and message for a workload that is in no queue; None when it is queued or has quota."""
        info = self.world.workloads.get(key)
        if info is None or info.reserving or info.finished:
            return None
        spec = self.world.local_queues.get(Key(key.namespace, info.queue))
        granular = self.settings.features.granular_reasons
        if spec is None:
            return ("Misconfigured" if granular else "Inadmissible"), f"LocalQueue {info.queue} doesn't exist"
        if not _is_open(spec):
            return ("Suspended" if granular else "Inadmissible"), f"LocalQueue {info.queue} is inactive"
        queue = self.world.queues.get(spec.cluster_queue)
        if queue is None:
            message = f"ClusterQueue {spec.cluster_queue} doesn't exist"
            return ("Misconfigured" if granular else "Inadmissible"), message
        if queue.inactive is not None:
            return ("Suspended" if granular else "Inadmissible"), f"ClusterQueue {queue.name} is inactive"
        return None

    def explain(self, key: Key) -> Explanation | None:
        """Where a workload stands and what it waits for."""
        info = self.world.workloads.get(key)
        if info is None:
            return None
        self._settle_structure()
        return explain(self.world, info, self.inadmissible(key))

    def local_queue_history(self, key: Key) -> tuple[Amounts, float | None]:
        """Consumed resources (billionths) and when they were last sampled, for the LocalQueue's status."""
        return self.world.ledger.consumed(str(key))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _is_news(self, kind: str, name: str, value: object) -> bool:
        if self._specs.get((kind, name)) == value:
            return False
        self._specs[kind, name] = value
        return True

    def _new_pending(self, queue: ClusterQueue) -> PendingQueue:
        pending = PendingQueue(strict=queue.spec.strict_fifo, hashing=self.settings.features.scheduling_hash)
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
            world.reservations[key].info = info
        else:
            self._release(key)
            world.not_ready.discard(key)
            self._requeue(info, old)

    def _forget(self, info: WorkloadInfo) -> None:
        world = self.world
        world.ledger.forgive(info.queue_key, info.key)
        world.second_pass.pop(info.key, None)
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
        lowered = old is not None and info.priority < old.priority
        if shrunk or lowered:
            self._flush_tree(queue)
        if info.admitted:
            world.ledger.settle(info.queue_key, info.key, self._now)
        if info.admitted and self.settings.block_on_pods_ready and not info.pods_ready and not info.evicted:
            world.not_ready.add(info.key)
        else:
            self._pods_ready(info.key)
        if info.needs_second_pass:
            world.second_pass[info.key] = Pending(info, 0)
        else:
            world.second_pass.pop(info.key, None)

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
        if spec is None or not _is_open(spec):
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
        if pending is None or not info.active or info.on_hold or info.deleting:
            self._unqueue(info)
            return
        backoff = self._in_backoff(info)
        pending.add(info, backoff=backoff)
        if backoff and info.requeue_at is not None and not info.requeue_blocked:
            heappush(self._alarms, (info.requeue_at, info.key))
        spec = self.world.local_queues[Key(info.key.namespace, info.queue)]
        self.world.stir(spec.cluster_queue)

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
        self.world.topology.settle()
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
        refresh_activity(queue, world.flavors, world.checks, world.topology, broken=broken)
        if was is not None and queue.inactive is None:
            self._to_flush[queue.name] = None

    def _settle_structure(self) -> None:
        world = self.world
        world.forest.settle()
        if world.topology.settle():
            self._refresh_all()
            self._rebook_topology()

    def _rebook_topology(self) -> None:
        """Flavors got (or lost) their trees: what recorded assignments use is counted anew where it was not yet."""
        world = self.world
        for reservation in list(world.reservations.values()):
            if reservation.assumed or not any(entry.topology for entry in reservation.pod_sets):
                continue
            usage = recorded_usage(reservation.info, world.topology.capacities)
            if usage != reservation.topology_usage:
                world.release(reservation.info.key)
                reservation.topology_usage = usage
                world.reserve(reservation)

    def _settle(self) -> None:
        """Bring trees up to date and give parked workloads of changed trees another chance."""
        self._settle_structure()
        world = self.world
        done: set[str] = set()
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


def _is_open(spec: LocalQueueSpec) -> bool:
    return spec.stop_policy == "None" and not spec.deleting


def _same_queue(one: LocalQueueSpec, other: LocalQueueSpec) -> bool:
    return (one.cluster_queue, _is_open(one)) == (other.cluster_queue, _is_open(other))


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
            info.reserving,
        )

    return view(old) == view(new)


def _local_queue_activity(spec: LocalQueueSpec, queue: ClusterQueue | None) -> tuple[bool, str, str]:
    if not _is_open(spec):
        return False, "Stopped", "LocalQueue is stopped"
    if queue is None:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if queue.inactive is not None:
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"
