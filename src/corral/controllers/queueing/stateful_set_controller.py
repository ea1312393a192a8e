"""StatefulSets in a queue: one Workload for all replicas; the pods wait behind their gates until it is admitted.

A StatefulSet has no suspend flag. It is started by opening the gates of its pods and stopped by deleting them: the
StatefulSet makes new ones, gated as the first ones were.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.controllers.queueing.context import ADMISSION_MANAGER, FIELD_MANAGER, Context
from corral.controllers.queueing.elastic import BY_CONTROLLER, PODS, controller_uid
from corral.controllers.queueing.managed import ManagedJobs
from corral.controllers.queueing.podset_info import FlavorGone, start_infos
from corral.controllers.queueing.priority import Priority, PriorityClassNotFound, pod_priority, workload_class
from corral.core import conditions
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import (
    Key,
    Obj,
    controller_of,
    is_deleting,
    key_of,
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
from corral.core.resource import Resource
from corral.jobs import lifecycle
from corral.jobs import workload as wl
from corral.jobs.adapter import queue_name, workload_priority_class
from corral.jobs.pod import is_gated, is_terminated, ungated
from corral.jobs.podset import DEFAULT_NAME, ConflictingUpdate, PodSet, topology_request
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Manager, Result, Watch

STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
POD_INDEX = "apps.kubernetes.io/pod-index"
RETRY_S = 10.0


class StatefulSetController:
    """Queues StatefulSets."""

    name = "statefulset-kueue-controller"

    def __init__(self, context: Context, managed: ManagedJobs) -> None:
        self.context = context
        self.managed = managed
        self.workloads = context.caches.workloads
        self.recorder = context.recorder.named(self.name)

    def setup(self, manager: Manager) -> None:
        self.sets = manager.informer(STATEFUL_SETS)
        self.pods = manager.informer(PODS)
        self.pods.add_index(BY_CONTROLLER, controller_uid)
        manager.add(
            self,
            watches=[Watch(STATEFUL_SETS), Watch(PODS, map=_set_of_pod), Watch(WORKLOADS, map=_set_of_workload)],
            workers=2,
        )

    async def reconcile(self, key: Key) -> Result | None:
        owner = self.sets.get(key)
        if owner is None or is_deleting(owner) or not queue_name(owner) or not self.managed.is_managed(owner):
            return None
        workload = self.workloads.get(Key(key.namespace, self._workload_name(owner)))
        replicas = _replicas(owner)
        if workload is None:
            return await self._create(owner) if replicas else None
        if is_deleting(workload):
            return None
        if not replicas:
            await self._delete(workload)
            return None
        if await self._sync(owner, workload, replicas):
            return None
        if wl.is_evicted(workload):
            await self._evict(owner, workload)
        elif wl.is_admitted(workload) and not status_of(workload).get("clusterName"):
            return await self._start(owner, workload)
        return None

    @staticmethod
    def _workload_name(owner: Obj) -> str:
        return wl.workload_name("StatefulSet", "apps", name_of(owner), uid_of(owner))

    # The Workload

    async def _create(self, owner: Obj) -> Result | None:
        try:
            priority = self._priority(owner)
        except PriorityClassNotFound as error:
            self.recorder.event(owner, "Warning", "WorkloadPriorityClassNotFound", str(error))
            return Result(requeue_after=RETRY_S)
        workload = wl.new_workload(
            owner,
            self._workload_name(owner),
            [_pod_set(owner)],
            queue=queue_name(owner),
            priority=priority.value,
            priority_ref=priority.reference,
            labels=wl.copied_labels(owner, self.context.config.label_keys_to_copy),
            annotations=wl.copied_annotations(owner),
        )
        owners = [owner_ref(owner, controller=False, block=False)]
        workload = with_metadata(workload, ownerReferences=owners, finalizers=None)
        workload = with_annotations(
            workload,
            {
                names.IS_GROUP_WORKLOAD: "true",
                names.JOB_OWNER_GVK: "apps/v1, Kind=StatefulSet",
                names.JOB_OWNER_NAME: name_of(owner),
            },
        )
        try:
            created = await self.context.client.create(WORKLOADS, workload, manager=FIELD_MANAGER)
        except AlreadyExists:
            return None  # our own earlier write has not reached the cache yet
        self.recorder.event(owner, "Normal", "CreatedWorkload", f"Created Workload: {key_of(created)}")
        return None

    def _priority(self, owner: Obj) -> Priority:
        name = workload_priority_class(owner)
        if name:
            return workload_class(self.context.caches, name)
        pod_spec = spec_of(spec_of(owner).get("template") or {})
        return pod_priority(self.context.caches, str(pod_spec.get("priorityClassName") or ""))

    async def _delete(self, workload: Obj) -> None:
        """No replicas, no claim."""
        try:
            await self.context.client.delete(WORKLOADS, name_of(workload), namespace_of(workload), uid=uid_of(workload))
        except NotFound:
            pass  # gone already

    async def _sync(self, owner: Obj, workload: Obj, replicas: int) -> bool:
        """Size and queue while it waits, owners and readiness always; True when a write was made."""
        spec = dict(spec_of(workload))
        if not wl.has_quota(workload):
            spec.update(podSets=[_pod_set(owner).to_obj()], queueName=queue_name(owner))
            held = wl.pod_sets_of(workload)
            if int(held[0].get("count", 1)) != replicas or spec["queueName"] != wl.queue_of(workload):
                await self.context.client.update(WORKLOADS, with_spec(workload, spec), manager=FIELD_MANAGER)
                return True
        known = {reference.get("uid") for reference in owner_references_of(workload)}
        missing = [pod for pod in self._pods_of(owner) if uid_of(pod) not in known]
        if missing:
            added = [owner_ref(pod, controller=False, block=False) for pod in missing]
            adopted = with_metadata(workload, ownerReferences=[*owner_references_of(workload), *added])
            await self.context.client.update(WORKLOADS, adopted, manager=FIELD_MANAGER)
            return True
        if self.context.config.wait_for_pods_ready is None:
            return False
        ready = int(status_of(owner).get("readyReplicas") or 0) >= replicas
        new = lifecycle.sync_pods_ready(workload, ready, self.context.now())
        if new is workload:
            return False
        await self.context.write_status(new, manager=FIELD_MANAGER)
        return True

    def _pods_of(self, owner: Obj) -> list[Obj]:
        return [pod for pod in self.pods.by_index(BY_CONTROLLER, uid_of(owner)) if not is_deleting(pod)]

    # Starting and stopping

    async def _start(self, owner: Obj, workload: Obj) -> Result | None:
        waiting = [pod for pod in self._pods_of(owner) if is_gated(pod)]
        if not waiting:
            return None
        try:
            (info,) = start_infos(
                workload,
                lambda name: self.context.caches.flavors.get(Key("", name)),
                queue_labels=self.context.config.gates["AssignQueueLabelsForPods"],
            )
            for pod in waiting:
                await self.context.client.update(PODS, ungated(pod, info), manager=FIELD_MANAGER)
                message = f"Admitted by clusterQueue {wl.cluster_queue_of(workload)}"
                self.recorder.event(pod, "Normal", "Started", message)
        except ConflictingUpdate as error:
            done = lifecycle.finish(workload, "FailedToStart", str(error), self.context.now())
            await self.context.write_status(done, manager=ADMISSION_MANAGER)
        except FlavorGone:
            return Result(requeue_after=1.0)
        return None

    async def _evict(self, owner: Obj, workload: Obj) -> None:
        """Delete the pods that run; give the quota back when none is left."""
        everything = self.pods.by_index(BY_CONTROLLER, uid_of(owner))
        running = [pod for pod in everything if not is_gated(pod) and not is_terminated(pod)]
        for pod in running:
            if not is_deleting(pod):
                await self.context.client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
                evicted = conditions.find(workload, names.EVICTED) or {}
                self.recorder.event(pod, "Normal", "Stopped", str(evicted.get("message", "")))
        if running or not wl.has_quota(workload):
            return
        required = [state["name"] for state in wl.check_states_of(workload)]
        released = lifecycle.release_evicted(workload, required, self.context.now())
        await self.context.write_status(released, manager=ADMISSION_MANAGER)


def _replicas(owner: Obj) -> int:
    replicas = spec_of(owner).get("replicas")
    return 1 if replicas is None else int(replicas)


def _pod_set(owner: Obj) -> PodSet:
    template = spec_of(owner).get("template") or {}
    request = topology_request(template, index_label=POD_INDEX)
    return PodSet(DEFAULT_NAME, {"metadata": {}, "spec": spec_of(template)}, _replicas(owner), None, request)


def _set_of_pod(pod: Obj) -> Iterable[Key]:
    reference = controller_of(pod)
    is_ours = reference is not None and reference.get("kind") == "StatefulSet"
    return (Key(namespace_of(pod), str(reference["name"])),) if is_ours and reference is not None else ()


def _set_of_workload(workload: Obj) -> Iterable[Key]:
    return [
        Key(namespace_of(workload), str(reference["name"]))
        for reference in owner_references_of(workload)
        if reference.get("kind") == "StatefulSet"
    ]
