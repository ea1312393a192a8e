"""StatefulSets and LeaderWorkerSets in a queue: Workloads for pods that wait behind their gates until they are admitted.

Neither kind has a suspend flag. It is started by opening the gates of its pods and stopped by deleting them: the set makes
new ones, gated as the first ones were. A StatefulSet is one claim; a LeaderWorkerSet is one claim per replica.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from corral.controllers.queueing.context import BY_OWNER, FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.jobs.elastic import BY_CONTROLLER, controller_uid
from corral.controllers.queueing.jobs.management_scope import ManagedJobs
from corral.controllers.queueing.jobs.priority import PriorityClassNotFound, owner_priority
from corral.controllers.queueing.jobs.workload_builder import COMPOSE_RETRY_S, compose
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workloads.owners import WorkloadOwners
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
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
from corral.core.resource import Resource
from corral.jobs.framework.adapter import prebuilt_workload, queue_name
from corral.jobs.framework.multi_workload import MOST, component_workload
from corral.jobs.leader_worker_set import kind as lws
from corral.jobs.pod.adapter import is_gated, is_terminated, ungated
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import names
from corral.runtime.controller import Result, Watch
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.podset_info import FlavorGone
from corral.workload.podsets import DEFAULT_NAME, ConflictingUpdate, PodSet, topology_request

POD_INDEX = "apps.kubernetes.io/pod-index"
BY_LWS = "leaderWorkerSet"


@dataclass(frozen=True)
class Claim:
    """Pods that are admitted together, and the Workload that stands for them."""

    name: str
    pod_sets: tuple[PodSet, ...]
    pods: tuple[Obj, ...]
    roles: dict[str, str]
    """Pod set of every pod, by pod name."""
    annotations: dict[str, str]
    ready: bool

    @property
    def live(self) -> list[Obj]:
        return [pod for pod in self.pods if not is_deleting(pod)]


class ServingController(ABC):
    """Queues sets of one kind."""

    name: ClassVar[str]
    resource: ClassVar[Resource]

    def __init__(
        self, context: QueueingContext, managed: ManagedJobs, metrics: QueueingMetrics, owners: WorkloadOwners
    ) -> None:
        self.context = context
        self.managed = managed
        self.workloads = context.caches.workloads
        self.recorder = context.recorder.named(self.name)
        self.writes = WorkloadWrites(context, metrics, self.recorder)
        self._pod_recorder = context.recorder.named("pod-kueue-controller")
        self.sets = context.manager.informer(self.resource)
        self.pods = context.manager.informer(PODS)
        self.pods.add_index(BY_CONTROLLER, controller_uid)
        self.pods.add_index(BY_LWS, _lws_index)
        controller = context.manager.add(
            self, watches=[Watch(self.resource), Watch(PODS, map=self.set_of_pod)], workers=2
        )
        owners.add(self.resource.group, self.resource.kind, controller.queue.add, named=True)

    @abstractmethod
    def claims(self, owner: Obj) -> list[Claim]:
        """What a set asks for, one claim for each Workload."""

    @abstractmethod
    def set_of_pod(self, pod: Obj) -> Iterable[Key]:
        """The set a pod belongs to."""

    async def reconcile(self, key: Key) -> Result | None:
        owner = self.sets.get(key)
        if owner is None or is_deleting(owner) or not queue_name(owner) or not self.managed.is_managed(owner):
            return None
        claims = self.claims(owner)
        wanted = {claim.name for claim in claims}
        for workload in self.workloads.by_index(BY_OWNER, uid_of(owner)):
            if name_of(workload) not in wanted and not is_deleting(workload):
                await self.writes.delete(workload)  # no replicas, no claim
        results = [await self._reconcile_claim(owner, claim) for claim in claims]
        return next((result for result in results if result is not None), None)

    async def _reconcile_claim(self, owner: Obj, claim: Claim) -> Result | None:
        workload = self.workloads.get(Key(namespace_of(owner), claim.name))
        if workload is None:
            return await self._create(owner, claim)
        if is_deleting(workload) or wl.is_finished(workload):
            return None
        if await self._sync(owner, claim, workload):
            return None
        if self.context.config.wait_for_pods_ready is not None:
            ready = lifecycle.sync_pods_ready(workload, claim.ready, self.context.now())
            workload = await self.writes.progress(workload, ready)
        if wl.is_evicted(workload):
            await self._evict(claim, workload)
        elif wl.is_admitted(workload) and not status_of(workload).get("clusterName"):
            return await self._start(claim, workload)
        return None

    # The Workload

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


class StatefulSetController(ServingController):
    """One Workload for all replicas of a StatefulSet."""

    name: ClassVar[str] = "statefulset-kueue-controller"
    resource: ClassVar[Resource] = STATEFUL_SETS

    def claims(self, owner: Obj) -> list[Claim]:
        replicas = spec_of(owner).get("replicas")
        count = 1 if replicas is None else int(replicas)
        if not count:
            return []
        pods = tuple(self.pods.by_index(BY_CONTROLLER, uid_of(owner)))
        template = spec_of(owner).get("template") or {}
        return [
            Claim(
                name=wl.workload_name("StatefulSet", "apps", name_of(owner), _identity(owner)),
                pod_sets=(_pod_set(DEFAULT_NAME, template, count, POD_INDEX),),
                pods=pods,
                roles={name_of(pod): DEFAULT_NAME for pod in pods},
                annotations=_marks("apps/v1, Kind=StatefulSet", owner),
                ready=int(status_of(owner).get("readyReplicas") or 0) >= count,
            )
        ]

    def set_of_pod(self, pod: Obj) -> Iterable[Key]:
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != "StatefulSet":
            return ()
        return (Key(namespace_of(pod), str(reference["name"])),)


class LeaderWorkerSetController(ServingController):
    """One Workload for each replica of a LeaderWorkerSet: a leader and its workers."""

    name: ClassVar[str] = "leaderworkerset-kueue-controller"
    resource: ClassVar[Resource] = lws.LEADER_WORKER_SETS

    def claims(self, owner: Obj) -> list[Claim]:
        groups: dict[str, list[Obj]] = {}
        for pod in self.pods.by_index(BY_LWS, str(key_of(owner))):
            groups.setdefault(labels_of(pod).get(lws.GROUP_INDEX, ""), []).append(pod)
        replicas = lws.replicas_of(owner)
        if replicas > MOST:
            text = f"Only the first {MOST} of {replicas} replicas are queued: each of them is a workload"
            self.recorder.event(owner, "Warning", "TooManyReplicas", text)
        return [self._claim(owner, index, tuple(groups.get(str(index), ()))) for index in range(min(replicas, MOST))]

    def _claim(self, owner: Obj, index: int, pods: tuple[Obj, ...]) -> Claim:
        size = lws.size_of(owner)
        pod_sets, split = _group_pod_sets(owner, size)
        ready = [pod for pod in pods if conditions.is_true(pod, "Ready")]
        return Claim(
            name=component_workload(owner, index),
            pod_sets=pod_sets,
            pods=pods,
            roles={name_of(pod): _role(pod) if split else DEFAULT_NAME for pod in pods},
            annotations={
                **_marks(f"{lws.LEADER_WORKER_SETS.api_version}, Kind=LeaderWorkerSet", owner),
                names.COMPONENT_WORKLOAD_INDEX: str(index),
            },
            ready=len(ready) >= size,
        )

    def set_of_pod(self, pod: Obj) -> Iterable[Key]:
        name = labels_of(pod).get(lws.NAME)
        return (Key(namespace_of(pod), name),) if name else ()


def _identity(owner: Obj) -> str:
    """The uid a set had where it was submitted, so that its Workload has the same name on every cluster."""
    return annotations_of(owner).get(names.MULTIKUEUE_ORIGIN_UID) or uid_of(owner)


def _group_pod_sets(owner: Obj, size: int) -> tuple[tuple[PodSet, ...], bool]:
    """The pod sets of one group, and whether its leader has a template of its own."""
    template = spec_of(owner).get("leaderWorkerTemplate") or {}
    if not template.get("leaderTemplate"):
        return (_pod_set(DEFAULT_NAME, lws.worker_template(owner), size, lws.WORKER_INDEX),), False
    leader = _pod_set("leader", lws.leader_template(owner), 1, "")
    workers = _pod_set("worker", lws.worker_template(owner), size - 1, lws.WORKER_INDEX)
    return ((leader, workers) if size > 1 else (leader,)), True


def _role(pod: Obj) -> str:
    return "leader" if labels_of(pod).get(lws.WORKER_INDEX) == "0" else "worker"


def _pod_set(name: str, template: Obj, count: int, index_label: str) -> PodSet:
    request = topology_request(template, index_label=index_label)
    return PodSet(name, {"metadata": {}, "spec": spec_of(template)}, count, None, request)


def _marks(kind: str, owner: Obj) -> dict[str, str]:
    return {names.IS_GROUP_WORKLOAD: "true", names.JOB_OWNER_GVK: kind, names.JOB_OWNER_NAME: name_of(owner)}


def _lws_index(pod: Obj) -> Iterable[str]:
    name = labels_of(pod).get(lws.NAME)
    is_ours = name and names.POD_SUSPENDING_PARENT in annotations_of(pod)
    return (str(Key(namespace_of(pod), str(name))),) if is_ours else ()
