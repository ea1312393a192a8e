"""Sets of pods in a queue: Workloads for pods that wait behind their gates until they are admitted.

A set has no suspend flag. It is started by opening the gates of its pods and stopped by deleting them: the set makes new
ones, gated as the first ones were. Its kind says which pods are claimed together; see `jobs.framework.queued_set`.
"""

from __future__ import annotations

from corral.controllers.queueing.ancestors import NestingTooDeep
from corral.controllers.queueing.context import BY_OWNER, FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.jobs.management_scope import ManagedJobs
from corral.controllers.queueing.jobs.priority import PriorityClassNotFound, owner_priority, workload_class
from corral.controllers.queueing.jobs.progress import new_class
from corral.controllers.queueing.jobs.workload_builder import COMPOSE_RETRY_S, compose
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workloads.owners import WorkloadOwners
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_annotations,
    with_metadata,
    with_spec,
)
from corral.core.names import check_label_value
from corral.jobs.framework.adapter import prebuilt_workload, queue_name
from corral.jobs.framework.queued_set import Claim, QueuedSet
from corral.jobs.pod.adapter import is_gated, is_terminated, ungated
from corral.jobs.pod.group import group_name
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import names
from corral.runtime.controller import Result, Watch
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.podset_info import FlavorGone
from corral.workload.podsets import ConflictingUpdate
from corral.workload.waiting_reasons import is_granular


class ServingController:
    """Queues sets of one kind."""

    def __init__(
        self,
        context: QueueingContext,
        queued: QueuedSet,
        managed: ManagedJobs,
        metrics: QueueingMetrics,
        owners: WorkloadOwners,
    ) -> None:
        self.context = context
        self.queued = queued
        self.name = f"{queued.resource.kind.lower()}-kueue-controller"
        self.managed = managed
        self.workloads = context.caches.workloads
        self.recorder = context.recorder.named(self.name)
        self.writes = WorkloadWrites(context, metrics, self.recorder)
        self._pod_recorder = context.recorder.named("pod-kueue-controller")
        self._by_set = f"pods of {queued.framework}"
        resource, manager = queued.resource, context.manager
        self.sets = manager.informer(resource)
        self.pods = manager.informer(PODS)
        self.pods.add_index(self._by_set, lambda pod: map(str, self._set_of_pod(pod)))
        controller = manager.add(self, watches=[Watch(resource), Watch(PODS, map=self._set_of_pod)], workers=2)
        owners.add(resource.group, resource.kind, controller.queue.add, named=True)

    def _set_of_pod(self, pod: Obj) -> tuple[Key, ...]:
        found = self.queued.set_of_pod(pod)
        return (found,) if found is not None else ()

    async def reconcile(self, key: Key) -> Result | None:
        owner = self.sets.get(key)
        if owner is None or is_deleting(owner) or not await self._is_queued(owner):
            return None
        if (complaint := self.queued.complaint(owner)) is not None:
            self.recorder.event(owner, "Warning", *complaint)
        claims = self.queued.claims(owner, self.pods.by_index(self._by_set, str(key)))
        wanted = {claim.name for claim in claims}
        for workload in self.workloads.by_index(BY_OWNER, uid_of(owner)):
            if name_of(workload) in wanted or is_deleting(workload):
                continue
            if self.queued.waits_at_zero and not claims:
                await self._hold(workload)
            else:
                await self.writes.delete(workload)  # no replicas, no claim
        for claim in claims:
            await self._mark(claim, queue_name(owner))
        results = [await self._reconcile_claim(owner, claim) for claim in claims]
        return next((result for result in results if result is not None), None)

    async def _is_queued(self, owner: Obj) -> bool:
        """Not in whose place somebody else is."""
        try:
            return self.managed.is_managed(owner) and await self.managed.managed_ancestor(owner) is None
        except NestingTooDeep as error:
            self.recorder.event(owner, "Warning", "JobNestingTooDeep", str(error))
            return False

    async def _reconcile_claim(self, owner: Obj, claim: Claim) -> Result | None:
        workload = self.workloads.get(Key(namespace_of(owner), claim.name))
        if workload is None:
            return await self._create(owner, claim)
        if is_deleting(workload) or wl.is_finished(workload):
            return None
        if lifecycle.is_on_hold(workload):
            await self.context.write_status(self._resumed(workload))
            return None
        if await self._follow_class(owner, workload) or await self._sync(owner, claim, workload):
            return None
        if self.context.config.wait_for_pods_ready is not None:
            ready = lifecycle.sync_pods_ready(workload, claim.ready, self.context.now())
            workload = await self.writes.progress(workload, ready)
        if wl.is_evicted(workload):
            await self._evict(claim, workload)
        elif wl.is_admitted(workload) and not status_of(workload).get("clusterName"):
            return await self._start(claim, workload)
        return None

    async def _mark(self, claim: Claim, queue: str) -> None:
        """Pods say with whom they are admitted, and carry the queue of their set, also when it moves to another one."""
        for pod in claim.live:
            moved = {names.QUEUE_NAME: queue} if queue and labels_of(pod).get(names.QUEUE_NAME) != queue else {}
            if moved or not group_name(pod):
                grouped = {} if group_name(pod) else self._group_marks(claim, pod)
                changed = {**grouped, "labels": {**grouped.get("labels", {}), **moved}}
                patch = {"metadata": {"uid": uid_of(pod), **changed}}
                await self.context.client.patch(PODS, name_of(pod), namespace_of(pod), patch, manager=FIELD_MANAGER)

    def _group_marks(self, claim: Claim, pod: Obj) -> dict[str, dict[str, str]]:
        """What a pod says of its group. The name is a label only where labels are asked for, and it fits one."""
        is_label = not self.context.config.gates["WorkloadIdentifierAnnotations"] and not check_label_value(claim.name)
        named = {names.POD_GROUP_NAME: claim.name}
        size = {names.POD_GROUP_TOTAL_COUNT: str(claim.size), names.ROLE_HASH: claim.roles[name_of(pod)]}
        return {"labels": named, "annotations": size} if is_label else {"annotations": {**size, **named}}

    # The Workload

    async def _hold(self, workload: Obj) -> None:
        """A set without replicas keeps its Workload, and all that points at it, but no quota and no place in a queue."""
        if wl.is_finished(workload) or not wl.is_active(workload) or lifecycle.is_on_hold(workload):
            return
        required = [state["name"] for state in wl.check_states_of(workload)]
        message = f"{self.queued.resource.kind} scaled to zero; workload on hold"
        held = lifecycle.release(workload, required, self.context.now(), message=message, reason=lifecycle.ON_HOLD)
        await self.context.write_status(held)

    def _resumed(self, workload: Obj) -> Obj:
        reason = "PendingEvaluation" if is_granular(self.context.config.gates) else "Pending"
        message = "Workload no longer on hold; waiting for quota reservation"
        return lifecycle.pending(workload, reason, message, self.context.now())

    async def _create(self, owner: Obj, claim: Claim) -> Result | None:
        if prebuilt_workload(owner):
            return None  # somebody else makes it
        try:
            priority = owner_priority(self.context.caches, owner, spec_of(claim.pod_sets[0].template))
        except PriorityClassNotFound as error:
            self.recorder.event(owner, "Warning", "WorkloadPriorityClassNotFound", str(error))
            return Result(requeue_after=COMPOSE_RETRY_S)
        workload = compose(self.context, owner, claim.name, claim.pod_sets, priority)
        owners = [owner_ref(owner, controller=False, block=False)]
        workload = with_metadata(workload, ownerReferences=owners, finalizers=None)
        await self.writes.create(owner, with_annotations(workload, claim.annotations))
        return None

    async def _follow_class(self, owner: Obj, workload: Obj) -> bool:
        """The priority class its set names, also once it runs; True when a write was made."""
        name = new_class(owner, workload)
        if not name:
            return False
        try:
            priority = workload_class(self.context.caches, name)
        except PriorityClassNotFound as error:
            self.recorder.event(owner, "Warning", "WorkloadPriorityClassNotFound", str(error))
            return False
        spec = {**spec_of(workload), "priority": priority.value, "priorityClassRef": priority.reference}
        await self.writes.update(with_spec(workload, spec), owner=owner)
        return True

    async def _sync(self, owner: Obj, claim: Claim, workload: Obj) -> bool:
        """Size and queue while it waits, owners always; True when a write was made."""
        if not wl.has_quota(workload) and not self._describes(owner, claim, workload):
            pod_sets = [pod_set.to_obj() for pod_set in claim.pod_sets]
            spec = {**spec_of(workload), "podSets": pod_sets, "queueName": queue_name(owner)}
            await self.writes.update(with_spec(workload, spec), owner=owner)
            return True
        known = {reference.get("uid") for reference in owner_references_of(workload)}
        missing = [pod for pod in claim.live if uid_of(pod) not in known]
        orphans = missing if uid_of(owner) in known else [owner, *missing]
        if orphans:
            added = [owner_ref(pod, controller=False, block=False) for pod in orphans]
            adopted = with_metadata(workload, ownerReferences=[*owner_references_of(workload), *added])
            await self.writes.update(adopted)
            if missing:
                message = f"Added {len(missing)} owner reference(s)"
                self._pod_recorder.event(workload, "Normal", "OwnerReferencesAdded", message)
            return True
        return False

    @staticmethod
    def _describes(owner: Obj, claim: Claim, workload: Obj) -> bool:
        held = [(entry.get("name"), int(entry.get("count", 1))) for entry in wl.pod_sets_of(workload)]
        wanted = [(pod_set.name, pod_set.count) for pod_set in claim.pod_sets]
        return held == wanted and wl.queue_of(workload) == queue_name(owner)

    # Starting and stopping

    async def _start(self, claim: Claim, workload: Obj) -> Result | None:
        waiting = [pod for pod in claim.live if is_gated(pod)]
        if not waiting:
            return None
        try:
            by_role = {info.name: info for info in self.context.start_infos(workload)}
            for pod in waiting:
                released = ungated(pod, by_role[claim.roles[name_of(pod)]])
                await self.context.client.update(PODS, released, manager=FIELD_MANAGER)
                message = f"Admitted by clusterQueue {wl.cluster_queue_of(workload)}"
                self._pod_recorder.event(pod, "Normal", "Started", message)
        except ConflictingUpdate as error:
            await self.writes.finish(workload, "FailedToStart", str(error))
        except FlavorGone:
            return Result(requeue_after=1.0)
        return None

    async def _evict(self, claim: Claim, workload: Obj) -> None:
        """Delete the pods that run; give the quota back when none is left."""
        running = [pod for pod in claim.pods if not is_gated(pod) and not is_terminated(pod)]
        evicted = conditions.find(workload, names.EVICTED) or {}
        for pod in running:
            if not is_deleting(pod):
                await self.context.client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
                self._pod_recorder.event(pod, "Normal", "Stopped", str(evicted.get("message", "")))
        if not running and wl.has_quota(workload):
            await self.writes.release_evicted(workload)
