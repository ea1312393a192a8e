"""The façade of queueing: feed it objects, ask it for plans and views.

A controller calls the `upsert_…` and `delete_…` methods from its informers, in any order and as often as it likes;
equal objects cost a comparison. `plan_cycle` returns what to write. Admissions in a plan are counted as reserved at
once; the controller confirms by feeding back the object it wrote, or takes it back with `admission_failed`.
Nothing here reads a clock: `now` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import structs

from corral.core.conditions import is_true
from corral.core.meta import Key, Obj, is_deleting, key_of, labels_of, name_of, spec_of, uid_of
from corral.decide.queueing.activity import READY
from corral.decide.queueing.amounts import format_amount
from corral.decide.queueing.checks import required_checks
from corral.decide.queueing.clusterqueue import ClusterQueue
from corral.decide.queueing.decode import (
    admission_check_from,
    cluster_queue_from,
    cohort_from,
    flavor_from,
    local_queue_from,
    node_from,
    topology_from,
    version_of,
)
from corral.decide.queueing.explain import explain
from corral.decide.queueing.fairness import share_of
from corral.decide.queueing.intake import Intake, is_open, same_queue
from corral.decide.queueing.limits import NO_LIMITS, namespace_limits
from corral.decide.queueing.messages import NAMESPACE_MISMATCH
from corral.decide.queueing.model import Amounts, LocalQueueSpec, PodUsage, Usage, WorkloadInfo
from corral.decide.queueing.pending import PendingQueue
from corral.decide.queueing.plan import CyclePlan, PodSetAssignment
from corral.decide.queueing.requests import pod_requests
from corral.decide.queueing.tally import flavor_usage
from corral.decide.queueing.views import ClusterQueueView, CohortView, Explanation, LocalQueueView, PendingView
from corral.decide.queueing.workload import WorkloadDecoder


class QueueingState(Intake):
    """All queueing knowledge of one cluster."""

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
        self._settle_topology()
        self._refresh(queue)
        for key in self._homeless.pop(spec.name, ()):
            info = world.workloads.get(key)
            if info is not None and info.reserving and not info.finished and info.cluster_queue == spec.name:
                self._book(info)
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
        if old is not None and same_queue(old, spec):
            return
        if old is not None and old.cluster_queue != spec.cluster_queue:
            self._unqueue_members(old)
            self._local_queues_of.get(old.cluster_queue, {}).pop(spec.key, None)
        self._local_queues_of.setdefault(spec.cluster_queue, {})[spec.key] = None
        if is_open(spec):
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
            self._decoder = WorkloadDecoder(self.settings, self._overheads, self.devices, self._flavor_rank)
            self._decoder.limits = limits
            self._decode_waiting(lambda info: _runs_in(info, name))

    def set_limit_ranges(self, namespace: str, limit_ranges: Iterable[Obj]) -> None:
        """All LimitRanges of a namespace; they count for workloads that hold no quota yet."""
        limits = namespace_limits(limit_ranges)
        if limits == NO_LIMITS:
            self._decoder.limits.pop(namespace, None)
        else:
            self._decoder.limits[namespace] = limits
        self._decode_waiting(lambda info: info.key.namespace == namespace)

    def set_device_class(self, obj: Obj) -> None:
        """A DeviceClass: what selects its devices, and the extended resource it provides."""
        if self._is_news("device class", name_of(obj), spec_of(obj)):
            before = dict(self.devices.extended)
            self.devices.set_class(obj)
            self._devices_changed(before)

    def delete_device_class(self, name: str) -> None:
        before = dict(self.devices.extended)
        self._specs.pop(("device class", name), None)
        self.devices.delete_class(name)
        self._devices_changed(before)

    def _devices_changed(self, before: Mapping[str, str]) -> None:
        changed = {name for name, _ in before.items() ^ self.devices.extended.items()}

        def concerned(info: WorkloadInfo) -> bool:
            return info.uses_devices or any(not changed.isdisjoint(entry.pod_requests) for entry in info.pod_sets)

        self._decode_waiting(concerned)

    def set_claim_template(self, obj: Obj) -> None:
        """A ResourceClaimTemplate, from which pods get claims for devices."""
        key = key_of(obj)
        if self._is_news("claim template", str(key), spec_of(obj)):
            self.devices.templates[key] = obj
            self._decode_waiting(lambda info: info.uses_devices and info.key.namespace == key.namespace)

    def delete_claim_template(self, key: Key) -> None:
        self._specs.pop(("claim template", str(key)), None)
        if self.devices.templates.pop(key, None) is not None:
            self._decode_waiting(lambda info: info.uses_devices and info.key.namespace == key.namespace)

    def set_resource_slice(self, obj: Obj) -> None:
        """Devices as a driver publishes them; selectors and counters are read off them."""
        if self._is_news("slice", name_of(obj), spec_of(obj)):
            self.devices.slices[name_of(obj)] = obj
            self._decode_waiting(lambda info: info.uses_devices)

    def delete_resource_slice(self, name: str) -> None:
        self._specs.pop(("slice", name), None)
        if self.devices.slices.pop(name, None) is not None:
            self._decode_waiting(lambda info: info.uses_devices)

    def device_users(self) -> list[Key]:
        """Workloads whose pods use devices and that hold no quota."""
        return [key for key, info in self.world.workloads.items() if info.uses_devices and not info.reserving]

    def uncounted(self, key: Key) -> str:
        """Why the devices of a waiting workload cannot be counted; empty when they can."""
        info = self.world.workloads.get(key)
        return info.uncounted if info is not None else ""

    def _decode_waiting(self, concerned: Callable[[WorkloadInfo], bool]) -> None:
        """Work out anew what those who wait ask for."""
        for info in list(self.world.workloads.values()):
            if not info.reserving and not info.finished and concerned(info):
                self._accept(self._decoder.decode(info.obj), info)

    # -- workloads ------------------------------------------------------------------------------------------------

    def upsert_workload(self, obj: Obj) -> None:
        """Take over a Workload as it is now: pending, reserving, evicted or finished. Older versions are ignored."""
        key, version = key_of(obj), version_of(obj)
        old = self.world.workloads.get(key)
        if old is not None and old.uid != uid_of(obj):
            self.delete_workload(key)
            old = None
        if old is not None and version and version <= old.version:
            return
        if old is not None and is_true(obj, "Finished"):
            # Nothing but the end matters any more; what it asked for need not be read again.
            info = structs.replace(old, finished=True, version=version, obj=obj)
        else:
            info = self._decoder.decode(obj)
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
        self._pods_ready(key)
        if not info.reserving:
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
        homeless = self.world.unplaced.pop(key, None)
        if homeless is not None:
            self.world.second_pass[key] = homeless
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
        sampled = self.world.ledger.sample(str(key), self.world.running(str(key)), now)
        spec = self.world.local_queues.get(key)
        if sampled is not None and spec is not None and spec.cluster_queue in self.world.queues:
            self.world.stir(spec.cluster_queue)
        return sampled

    def next_sample_in(self, key: Key, now: float) -> float:
        """Seconds until `sample_local_queue` has something to do."""
        return self.world.ledger.next_sample_in(str(key), now)

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
            root_cohort=queue.node.root().name if queue.node.parent is not None else "",
            pending_requests=_requests(waiting, queue),
        )

    def ancestors(self, cluster_queue: str) -> list[str]:
        """Cohorts above a ClusterQueue, nearest first."""
        queue = self.world.queues.get(cluster_queue)
        if queue is None:
            return []
        self._settle_structure()
        return [node.name for node in queue.node.path()]

    def members(self, cohort: str) -> tuple[list[str], list[str]]:
        """Cohorts and ClusterQueues below a cohort at any depth, the cohort itself among the first."""
        node = self.world.forest.cohorts.get(cohort)
        if node is None:
            return [], []
        self._settle_structure()
        cohorts = [node]
        for member in cohorts:
            cohorts.extend(member.cohorts.values())
        return [member.name for member in cohorts], [queue.name for queue in node.subtree_queues()]

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
        tallies = [self.world.tally(queue.name) for queue in node.subtree_queues()]
        reserved: Usage = {}
        for tally in tallies:
            for column, amount in tally.reserved.items():
                reserved[column] = reserved.get(column, 0) + amount
        return CohortView(
            weighted_share=share_of(node).rounded if self.settings.fair_sharing else 0,
            subtree_quota=flavor_usage(node.subtree, node.subtree),
            subtree_usage=flavor_usage(node.subtree, node.usage),
            broken=self.world.forest.is_broken(node),
            parent=node.parent.name if node.parent is not None else "",
            root=node.root().name,
            subtree_reserved=tuple(
                (column.flavor, column.resource, format_amount(column.resource, reserved.get(column, 0)))
                for column in node.subtree
            ),
            subtree_admitted=sum(tally.admitted for tally in tallies),
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
        if info.uncounted:
            return ("Misconfigured" if granular else "Inadmissible"), info.uncounted
        if spec is None:
            return ("Misconfigured" if granular else "Inadmissible"), f"LocalQueue {info.queue} doesn't exist"
        if not is_open(spec):
            return ("Suspended" if granular else "Inadmissible"), f"LocalQueue {info.queue} is inactive"
        queue = self.world.queues.get(spec.cluster_queue)
        if queue is None:
            message = f"ClusterQueue {spec.cluster_queue} doesn't exist"
            return ("Misconfigured" if granular else "Inadmissible"), message
        if queue.inactive is not None:
            return ("Suspended" if granular else "Inadmissible"), f"ClusterQueue {queue.name} is inactive"
        return None

    def refusal(self, key: Key) -> str:
        """Why a waiting workload would be refused whatever the quota; empty when it would be tried."""
        info = self.world.workloads.get(key)
        spec = self.world.local_queues.get(Key(key.namespace, info.queue)) if info is not None else None
        queue = self.world.queues.get(spec.cluster_queue) if spec is not None else None
        if info is None or queue is None:
            return ""
        if not self.world.namespace_matches(queue, key.namespace):
            return NAMESPACE_MISMATCH
        return info.invalid

    def no_fit_reason(self, key: Key) -> str | None:
        """Why workloads like this one are known not to fit; None when it would be tried."""
        info = self.world.workloads.get(key)
        pending = self._queue_for(info) if info is not None else None
        return pending.no_fit_reason(key) if pending is not None else None

    def told(self, key: Key) -> tuple[str, str] | None:
        """Reason and message of the last verdict on a waiting workload, or on those like it."""
        info = self.world.workloads.get(key)
        pending = self._queue_for(info) if info is not None else None
        verdict = pending.verdict_of(key) if pending is not None else None
        return (verdict.reason, verdict.message) if verdict is not None and verdict.message else None

    def is_at_rest(self, key: Key, now: float) -> bool:
        """Whether a workload waits and no plan is due that could say something about it."""
        info = self.world.workloads.get(key)
        pending = self._queue_for(info) if info is not None else None
        return pending is not None and key in pending.items and not self.needs_cycle(now)

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


def _requests(waiting: PendingQueue, queue: ClusterQueue) -> tuple[tuple[str, str], ...]:
    """Sums of what waits; resources the queue has quota for are there even when nobody asks for them."""
    names = {column.resource for column in queue.spec.quotas} | {
        name for name, amount in waiting.requests.items() if amount
    }
    return tuple((name, format_amount(name, waiting.requests.get(name, 0))) for name in sorted(names))


def _runs_in(info: WorkloadInfo, runtime_class: str) -> bool:
    """Do pods of a workload name this RuntimeClass?"""
    return any(
        spec_of(pod_set.get("template") or {}).get("runtimeClassName") == runtime_class
        for pod_set in spec_of(info.obj).get("podSets") or ()
    )


def _local_queue_activity(spec: LocalQueueSpec, queue: ClusterQueue | None) -> tuple[bool, str, str]:
    if not is_open(spec):
        return False, "Stopped", "LocalQueue is stopped"
    if queue is None:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if queue.inactive is not None:
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"
