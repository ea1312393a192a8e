"""The façade of queueing: feed it objects, ask it for plans and views.

A controller calls the `upsert_…` and `delete_…` methods from its informers, in any order and as often as it likes;
equal objects cost a comparison. `plan_cycle` returns what to write. Admissions in a plan are counted as reserved at
once; the controller confirms by feeding back the object it wrote, or takes it back with `admission_failed`.
What may be asked is in its `questions`. Nothing here reads a clock: `now` is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from corral.core.budget import Cpu
from corral.core.conditions import is_true
from corral.core.meta import Key, Obj, is_deleting, key_of, labels_of, name_of, spec_of, status_of, uid_of
from corral.decide.queueing.cycle.cycle import Cycle
from corral.decide.queueing.cycle.plan import CyclePlan
from corral.decide.queueing.model.decode import (
    admission_check_from,
    cluster_queue_from,
    cohort_from,
    flavor_from,
    local_queue_from,
    node_from,
    topology_from,
    version_of,
)
from corral.decide.queueing.model.request_inputs import RequestInputs, WorkloadPredicate
from corral.decide.queueing.model.requests import pod_requests
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import Amounts, ClusterQueueSpec, PodUsage
from corral.decide.queueing.questions import Questions
from corral.decide.queueing.queue.requeue_triggers import RequeueTriggers
from corral.decide.queueing.queue.waiting import WaitingWorkloads
from corral.decide.queueing.queue.workload_updates import WorkloadUpdates
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.quota.reservations import Reservations
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
        self._requeue_triggers = RequeueTriggers(self.world)
        self._waiting = WaitingWorkloads(self.world)
        self.questions = Questions(self.world, self._requeue_triggers, self._waiting)
        self._reservations = Reservations(self.world, self._requeue_triggers)
        self._workload_updates = WorkloadUpdates(self.world, self._waiting, self._reservations)
        self._request_inputs = RequestInputs(self.settings, overheads or {}, self.world.flavor_rank)
        self._cycle = Cycle(self.world)
        self._specs: dict[tuple[str, str], object] = {}
        self._local_queues_of: dict[str, dict[Key, None]] = {}
        """LocalQueues by the ClusterQueue they lead to."""

    def charge(self, cpu: Cpu) -> None:
        """From now on a plan, and a shape of workloads, may take only so much of the processor's time."""
        self.world.cpu = cpu

    def _is_news(self, kind: str, name: str, value: object) -> bool:
        if self._specs.get((kind, name)) == value:
            return False
        self._specs[kind, name] = value
        return True

    def _forget(self, kind: str, name: str) -> bool:
        """Forget what an object was like; False when it was not known."""
        return self._specs.pop((kind, name), None) is not None

    # -- ClusterQueues, Cohorts, LocalQueues ----------------------------------------------------------------------

    def upsert_cluster_queue(self, obj: Obj) -> None:
        """Add or change a ClusterQueue; a change of status alone does nothing."""
        if not self._is_news("cq", name_of(obj), (spec_of(obj), is_deleting(obj))):
            return
        spec = cluster_queue_from(obj)
        queue = self.world.queues.get(spec.name)
        if queue is None:
            queue = self._add_cluster_queue(spec)
        else:
            self._change_cluster_queue(queue, spec)
        self._requeue_triggers.retry(queue)
        self._requeue_triggers.settle_topology()
        self._requeue_triggers.refresh(queue)
        self._reservations.adopt(queue)
        for local_queue in self._local_queues_of.get(spec.name, ()):
            self._waiting.join_all(local_queue)

    def _add_cluster_queue(self, spec: ClusterQueueSpec) -> ClusterQueue:
        world = self.world
        node = world.forest.set_queue(spec.name, spec.cohort, spec.quotas, spec.weight)
        queue = world.queues[spec.name] = world.by_node[node] = ClusterQueue(spec, node, world.topology)
        self._waiting.open(queue)
        return queue

    def _change_cluster_queue(self, queue: ClusterQueue, spec: ClusterQueueSpec) -> None:
        old = queue.spec
        self.world.forest.set_queue(spec.name, spec.cohort, spec.quotas, spec.weight)
        queue.update(spec)
        if (old.strict_fifo, old.admission_fair_sharing) != (spec.strict_fifo, spec.admission_fair_sharing):
            self._waiting.rebuild(queue)

    def delete_cluster_queue(self, name: str) -> None:
        world = self.world
        self._forget("cq", name)
        queue = world.queues.pop(name, None)
        if queue is None:
            return
        self._reservations.orphan(queue)
        del world.by_node[queue.node], world.pending[name]
        world.forest.delete_queue(name)
        self._requeue_triggers.drop(queue)

    def upsert_cohort(self, obj: Obj) -> None:
        if not self._is_news("cohort", name_of(obj), spec_of(obj)):
            return
        spec = cohort_from(obj)
        self.world.cohorts[spec.name] = spec
        self._requeue_triggers.retry_cohort(spec.name)
        self.world.forest.set_cohort(spec.name, spec.parent, spec.quotas, spec.weight)
        self._requeue_triggers.retry_cohort(spec.name)
        self._requeue_triggers.refresh_all()

    def delete_cohort(self, name: str) -> None:
        if not self._forget("cohort", name):
            return
        self.world.cohorts.pop(name, None)
        self._requeue_triggers.retry_cohort(name)
        self.world.forest.delete_cohort(name)
        self._requeue_triggers.retry_cohort(name)
        self._requeue_triggers.refresh_all()

    def upsert_local_queue(self, obj: Obj) -> None:
        """Add or change a LocalQueue; stopping it takes its workloads out of the queue."""
        spec = local_queue_from(obj)
        self.world.ledger.set_queue(spec)
        old = self.world.local_queues.get(spec.key)
        self.world.local_queues[spec.key] = spec
        if old is not None and (old.cluster_queue, old.is_open) == (spec.cluster_queue, spec.is_open):
            return
        if old is not None and old.cluster_queue != spec.cluster_queue:
            self._waiting.leave_all(old)
            self._local_queues_of.get(old.cluster_queue, {}).pop(spec.key, None)
        self._local_queues_of.setdefault(spec.cluster_queue, {})[spec.key] = None
        if spec.is_open:
            self._waiting.join_all(spec.key)
        else:
            self._waiting.leave_all(spec)

    def delete_local_queue(self, key: Key) -> None:
        spec = self.world.local_queues.pop(key, None)
        if spec is not None:
            self._waiting.leave_all(spec)
            self._local_queues_of.get(spec.cluster_queue, {}).pop(key, None)
            self.world.ledger.delete_queue(key)

    # -- flavors, checks, topologies, nodes, namespaces -----------------------------------------------------------

    def upsert_flavor(self, obj: Obj) -> None:
        if not self._is_news("flavor", name_of(obj), (spec_of(obj), is_deleting(obj))):
            return
        spec = flavor_from(obj)
        self.world.flavors[spec.name] = spec
        self.world.topology.set_flavor(spec)
        self._requeue_triggers.flavor_changed(spec.name)

    def delete_flavor(self, name: str) -> None:
        self._forget("flavor", name)
        if self.world.flavors.pop(name, None) is not None:
            self.world.topology.delete_flavor(name)
            self._requeue_triggers.flavor_changed(name)

    def upsert_admission_check(self, obj: Obj) -> None:
        spec = admission_check_from(obj)
        if self.world.checks.get(spec.name) != spec:
            self.world.checks[spec.name] = spec
            self._requeue_triggers.check_changed(spec.name)

    def delete_admission_check(self, name: str) -> None:
        if self.world.checks.pop(name, None) is not None:
            self._requeue_triggers.check_changed(name)

    def upsert_topology(self, obj: Obj) -> None:
        if self._is_news("topology", name_of(obj), spec_of(obj)):
            self.world.topology.set_topology(topology_from(obj))
            self._requeue_triggers.nodes_changed()

    def delete_topology(self, name: str) -> None:
        if self._forget("topology", name):
            self.world.topology.delete_topology(name)
            self._requeue_triggers.nodes_changed()

    def upsert_node(self, obj: Obj) -> None:
        if self.world.topology.set_node(node_from(obj)):
            self._requeue_triggers.nodes_changed()

    def delete_node(self, name: str) -> None:
        if self.world.topology.delete_node(name):
            self._requeue_triggers.nodes_changed()

    def upsert_pod(self, obj: Obj) -> None:
        """Count a pod outside topology scheduling against its node; finished and unbound pods count for nothing."""
        spec = spec_of(obj)
        node = spec.get("nodeName") or ""
        if not node or status_of(obj).get("phase") in ("Succeeded", "Failed"):
            self.delete_pod(key_of(obj))
        else:
            self.world.topology.set_pod(PodUsage(key_of(obj), node, pod_requests(spec)))

    def delete_pod(self, key: Key) -> None:
        if self.world.topology.delete_pod(key):
            self._requeue_triggers.nodes_changed()

    def upsert_namespace(self, obj: Obj) -> None:
        name, labels = name_of(obj), labels_of(obj)
        if self.world.namespaces.get(name) == labels:
            return
        self.world.namespaces[name] = labels
        for key, spec in self.world.local_queues.items():
            if key.namespace == name:
                self.flush_cluster_queue(spec.cluster_queue)

    def delete_namespace(self, name: str) -> None:
        self.world.namespaces.pop(name, None)

    # -- what requests depend on ----------------------------------------------------------------------------------

    def set_runtime_class(self, name: str, overhead: Mapping[str, str]) -> None:
        """Pod overhead of a RuntimeClass, for pods that do not carry their own."""
        self._decode_again(self._request_inputs.set_runtime_class(name, overhead))

    def set_limit_ranges(self, namespace: str, limit_ranges: Iterable[Obj]) -> None:
        """All LimitRanges of a namespace; they count for workloads that hold no quota yet."""
        self._decode_again(self._request_inputs.set_limit_ranges(namespace, limit_ranges))

    def set_device_class(self, obj: Obj) -> None:
        """A DeviceClass: what selects its devices, and the extended resource it provides."""
        if self._is_news("device class", name_of(obj), spec_of(obj)):
            self._decode_again(self._request_inputs.set_device_class(obj))

    def delete_device_class(self, name: str) -> None:
        self._forget("device class", name)
        self._decode_again(self._request_inputs.delete_device_class(name))

    def set_claim_template(self, obj: Obj) -> None:
        """A ResourceClaimTemplate, from which pods get claims for devices."""
        if self._is_news("claim template", str(key_of(obj)), spec_of(obj)):
            self._decode_again(self._request_inputs.set_claim_template(obj))

    def delete_claim_template(self, key: Key) -> None:
        self._forget("claim template", str(key))
        self._decode_again(self._request_inputs.delete_claim_template(key))

    def set_resource_slice(self, obj: Obj) -> None:
        """Devices as a driver publishes them; selectors and counters are read off them."""
        if self._is_news("slice", name_of(obj), spec_of(obj)):
            self._decode_again(self._request_inputs.set_resource_slice(obj))

    def delete_resource_slice(self, name: str) -> None:
        self._forget("slice", name)
        self._decode_again(self._request_inputs.delete_resource_slice(name))

    def _decode_again(self, concerned: WorkloadPredicate | None) -> None:
        """Work out anew what those who wait ask for."""
        if concerned is None:
            return
        for info in list(self.world.workloads.values()):
            if not info.reserving and not info.finished and concerned(info):
                self._workload_updates.accept(self._request_inputs.decode(info.obj), info)

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
            info = self._request_inputs.decode(obj)
        self._workload_updates.accept(info, old)

    def delete_workload(self, key: Key) -> None:
        info = self.world.workloads.get(key)
        if info is not None:
            self._workload_updates.delete(info)

    def admission_failed(self, key: Key, *, gone: bool = False) -> None:
        """The write of a planned admission did not happen: give the quota back and try again, unless it is gone."""
        if self._workload_updates.withdraw(key) and not gone:
            self._workload_updates.resume(key)

    def eviction_failed(self, key: Key) -> None:
        """The eviction of a planned victim could not be written; a later cycle may plan it again."""
        self._workload_updates.spare(key)

    # -- planning -------------------------------------------------------------------------------------------------

    def plan_cycle(self, now: float) -> CyclePlan:
        """Decide everything that can be decided now. Admissions are booked; everything else is left to the caller."""
        self.world.now = max(now, self.world.now)
        self._waiting.ring(now)
        self.settle()
        plan = self._cycle.plan(now)
        return structs.replace(plan, next_at=self.questions.next_alarm)

    def settle(self) -> None:
        """Bring everything up to date that follows from the objects; a plan begins with it."""
        self._requeue_triggers.settle(self.world.now)

    def flush_cluster_queue(self, name: str) -> None:
        """Try everything that waits in the queue's tree again, as after any change of quota."""
        queue = self.world.queues.get(name)
        if queue is not None:
            self._requeue_triggers.retry(queue)

    def sample_local_queue(self, key: Key, now: float) -> Amounts | None:
        """Decay a LocalQueue's usage history (billionths per resource); None when it is not yet time."""
        sampled = self.world.ledger.sample(str(key), self.world.running(str(key)), now)
        spec = self.world.local_queues.get(key)
        if sampled is not None and spec is not None and spec.cluster_queue in self.world.queues:
            self.world.mark_dirty(spec.cluster_queue)
        return sampled
