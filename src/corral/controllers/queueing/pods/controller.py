"""The pod reconciler: queues plain pods and pod groups.

A pod waits behind a scheduling gate; admission removes it. Stopping means deleting. A group is reconciled as a whole under
the key `group/<name>`, so that its pods never race each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.controllers.queueing.context import (
    BY_OWNER,
    BY_OWNER_NAME,
    FIELD_MANAGER,
    QueueingContext,
    owner_name_index,
)
from corral.controllers.queueing.jobs.management_scope import ManagedJobs
from corral.controllers.queueing.jobs.priority import PriorityClassNotFound, owner_priority
from corral.controllers.queueing.jobs.workload_builder import COMPOSE_RETRY_S, compose
from corral.controllers.queueing.metrics import QueueingMetrics, transition_time
from corral.controllers.queueing.workloads.owners import WorkloadOwners
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    finalizers_of,
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
    with_labels,
    with_metadata,
    without_finalizer,
)
from corral.jobs.framework.adapter import JobOutcome, prebuilt_workload
from corral.jobs.pod.adapter import PodJob, is_gated, is_managed, is_terminated, pod_set_of, termination_target, ungated
from corral.jobs.pod.group import GroupIncomplete, PodGroup, group_name, role_of
from corral.jobs.pod.role_hash import role_hash
from corral.kinds.kueue import names
from corral.runtime.controller import Result, Watch
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.podset_info import FlavorGone
from corral.workload.podsets import ConflictingUpdate, PodSet

PODS = PodJob.resource
GROUP_PREFIX = "group/"
BY_GROUP = "podGroup"


def _group_index(pod: Obj) -> Iterable[str]:
    name = group_name(pod)
    return (f"{namespace_of(pod)}/{name}",) if name and is_managed(pod) else ()


class PodController:
    """Queues pods that carry the managed label."""

    name = "pod-kueue-controller"

    def __init__(
        self, context: QueueingContext, managed: ManagedJobs, metrics: QueueingMetrics, owners: WorkloadOwners
    ) -> None:
        self.context = context
        self.managed = managed
        self.metrics = metrics
        self.recorder = context.recorder.named(self.name)
        self.workloads = context.caches.workloads
        self.writes = WorkloadWrites(context, metrics, self.recorder)
        self._job = PodJob()
        self.pods = context.manager.informer(PODS)
        self.pods.add_index(BY_GROUP, _group_index)
        self.managed.add_kind(self._job, self.pods)
        workers = context.config.workers.get("Pod", 5)
        controller = context.manager.add(self, watches=[Watch(PODS, map=_key_of_pod)], workers=workers)
        queue = controller.about(lambda key: next(iter(self._group(key).pods), None)).queue
        owners.add("", "Pod", queue.add)
        owners.add_groups(lambda workload: queue.add(_group_key(workload.namespace, workload.name)))

    async def reconcile(self, key: Key) -> Result | None:
        group = self._group(key)
        if not group.pods:
            await self._let_workload_go(key)
            return None
        return await _PodReconcile(self, group, is_group=key.name.startswith(GROUP_PREFIX)).run()

    async def _let_workload_go(self, key: Key) -> None:
        """All pods are gone: a Workload that goes with them must not be held, and that of a single pod ends."""
        if key.name.startswith(GROUP_PREFIX):
            named = self.workloads.get(Key(key.namespace, key.name.removeprefix(GROUP_PREFIX)))
            found = [named] if named is not None and self._goes_with_group(named) else []
        else:
            found = list(self.workloads.by_index(BY_OWNER_NAME, owner_name_index("", "Pod", key)))
        for workload in found:
            alone = not key.name.startswith(GROUP_PREFIX)
            if is_deleting(workload) or (alone and await self.pods.is_gone(key)):
                await self.writes.part(workload)

    def _goes_with_group(self, workload: Obj) -> bool:
        """Whether a Workload of a group's name is the group's: one that another object controls is that object's."""
        is_checked = self.context.config.gates["PodIntegrationValidateGroupOwner"]
        return not is_checked or _is_of_group(workload) or controller_of(workload) is None

    def _group(self, key: Key) -> PodGroup:
        if key.name.startswith(GROUP_PREFIX):
            name = key.name.removeprefix(GROUP_PREFIX)
            return PodGroup(name, tuple(self.pods.by_index(BY_GROUP, f"{key.namespace}/{name}")))
        pod = self.pods.get(key)
        return PodGroup(key.name, (pod,) if pod is not None and is_managed(pod) else ())


def _is_of_group(workload: Obj) -> bool:
    return annotations_of(workload).get(names.IS_GROUP_WORKLOAD) == "true"


def _key_of_pod(pod: Obj) -> Iterable[Key]:
    if not is_managed(pod):
        return ()
    name = group_name(pod)
    return (_group_key(namespace_of(pod), name) if name else key_of(pod),)


def _group_key(namespace: str, name: str) -> Key:
    return Key(namespace, GROUP_PREFIX + name)


class _PodReconcile:
    """One look at one pod or group."""

    def __init__(self, controller: PodController, group: PodGroup, *, is_group: bool) -> None:
        self.controller = controller
        self.context = controller.context
        self.recorder = controller.recorder
        self.writes = controller.writes
        self.group = group
        self.is_group = is_group
        self.first = group.pods[0]

    async def run(self) -> Result | None:
        workload = self._workload()
        if self._is_anothers(workload):
            return await self._wait_for_the_name()
        finish = self._finished()
        if finish is not None:
            if workload is None or not await self._trim_excess(workload):
                await self._finish(workload, finish)
            return None
        if workload is None:
            return await self._create()
        if is_deleting(workload) or wl.is_finished(workload):
            await self._stop(workload, "Workload is deleted" if is_deleting(workload) else "Workload is finished")
            return None
        deleted = not self.is_group and is_deleting(self.first) and not wl.is_evicted(workload)
        if deleted and not spec_of(self.first).get("nodeName"):
            await self._let_go(self.group.pods)  # nothing runs here that could still end by itself
            return None
        if await self._adopt(workload):
            return None
        workload = await self._sync(workload)
        await self._trim(workload)
        if wl.is_evicted(workload):
            await self._evict(workload)
            return None
        if wl.is_admitted(workload):
            return await self._start(workload)
        return None

    # The Workload

    def _is_anothers(self, workload: Obj | None) -> bool:
        """Whether a Workload only happens to have the group's name."""
        if workload is None or not self.is_group or prebuilt_workload(self.first):
            return False
        return self.context.config.gates["PodIntegrationValidateGroupOwner"] and not _is_of_group(workload)

    async def _wait_for_the_name(self) -> Result:
        """The group waits gated until that Workload is gone; nothing of it is touched."""
        text = "already exists but is not a pod group workload; this pod group cannot be admitted"
        self.recorder.event(
            self.first, "Warning", "WorkloadNameConflict", f'A Workload named "{self.group.name}" {text}'
        )
        await self._let_go([pod for pod in self.group.pods if is_deleting(pod) or is_terminated(pod)])
        return Result(requeue_after=COMPOSE_RETRY_S)

    def _workload(self) -> Obj | None:
        namespace = namespace_of(self.first)
        workloads = self.context.caches.workloads
        prebuilt = prebuilt_workload(self.first)
        if prebuilt or self.is_group:
            return workloads.get(Key(namespace, prebuilt or self.group.name))
        owned = workloads.by_index(BY_OWNER, uid_of(self.first))
        return owned[0] if owned else None

    def _pod_sets(self) -> list[PodSet]:
        return self.group.pod_sets() if self.is_group else [pod_set_of(self.first)]

    def _finished(self) -> JobOutcome | None:
        return self.group.finished() if self.is_group else PodJob().finished(self.first)

    async def _create(self) -> Result | None:
        live = [pod for pod in self.group.pods if not is_deleting(pod) and not is_terminated(pod)]
        # Nothing counts these pods yet, so nothing waits for those that cannot take part any more.
        await self._let_go(self.group.failed if live else self.group.pods)
        if not live or prebuilt_workload(self.first):
            return None
        try:
            pod_sets = self._pod_sets()
            config = self.context.config
            labels = self.group.shared_labels(config.copied_labels) if self.is_group else {}
            annotations = self.group.shared_annotations(config.copied_annotations) if self.is_group else {}
            priority = owner_priority(self.context.caches, self.first, spec_of(self.first))
        except GroupIncomplete as error:
            self.recorder.event(self.first, "Warning", "ErrWorkloadCompose", str(error))
            return None
        except PriorityClassNotFound as error:
            self.recorder.event(self.first, "Warning", "WorkloadPriorityClassNotFound", str(error))
            return Result(requeue_after=COMPOSE_RETRY_S)
        for pod in self.group.excess if self.is_group else ():
            await self._delete_excess(pod)
        workload = compose(self.context, self.first, self._workload_name(), pod_sets, priority)
        workload = with_annotations(with_labels(workload, labels), annotations)
        await self.writes.create(self.first, self._as_group(workload) if self.is_group else workload)
        return None

    def _workload_name(self) -> str:
        if self.is_group:
            return self.group.name
        return wl.workload_name("Pod", "", name_of(self.first), uid_of(self.first))

    def _as_group(self, workload: Obj) -> Obj:
        """A group's Workload belongs to all its pods equally."""
        owners = [owner_ref(pod, controller=False, block=False) for pod in self.group.runnable]
        labels = {name: value for name, value in labels_of(workload).items() if name != names.JOB_UID}
        workload = with_metadata(workload, ownerReferences=owners, labels=labels or None)
        return with_annotations(workload, {names.IS_GROUP_WORKLOAD: "true"})

    async def _adopt(self, workload: Obj) -> bool:
        """Every pod of the job owns the Workload; True when that took a write."""
        held = {reference.get("uid") for reference in owner_references_of(workload)}
        missing = [pod for pod in self.group.pods if uid_of(pod) not in held and not is_deleting(pod)]
        if not missing:
            return False
        added = [owner_ref(pod, controller=not self.is_group, block=not self.is_group) for pod in missing]
        adopted = with_metadata(workload, ownerReferences=[*owner_references_of(workload), *added])
        if not self.is_group:
            adopted = with_labels(adopted, {names.JOB_UID: uid_of(self.first)})
        await self.writes.update(adopted)
        if self.is_group:
            message = f"Added {len(missing)} owner reference(s)"
            self.recorder.event(workload, "Normal", "OwnerReferencesAdded", message)
        return True

    # Progress

    async def _sync(self, workload: Obj) -> Obj:
        """Reclaimable pods, readiness and missing pods in the Workload's status; the Workload as it is now."""
        now = self.context.now()
        new = workload
        if self.context.config.gates["ReclaimablePods"]:
            counts = self.group.reclaimable_pods() if self.is_group else {}
            new = lifecycle.sync_reclaimable(new, counts, only_grows=True)
        if self.context.config.wait_for_pods_ready is not None:
            ready = self.group.pods_ready() if self.is_group else PodJob().pods_ready(self.first)
            new = lifecycle.sync_pods_ready(new, ready, now)
        if self.is_group:
            new = self._with_replacements(new, now)
        return await self.writes.progress(workload, new)

    def _with_replacements(self, workload: Obj, now: str) -> Obj:
        kind = names.WAITING_FOR_REPLACEMENT_PODS
        held = conditions.find(workload, kind)
        evicted = conditions.find(workload, names.EVICTED)
        short = bool(self.group.failed) and len(self.group.runnable) < self.group.total
        if short and evicted is not None and evicted.get("status") == "True":
            wanted = (True, str(evicted["reason"]), str(evicted["message"]))
        elif short:
            wanted = (True, "PodsFailed", "Some Failed pods need replacement")
        elif held is None:
            return workload
        else:
            wanted = (False, "PodsReady", "No pods need replacement")
        if held is not None and (held["status"] == "True", held["reason"], held["message"]) == wanted:
            return workload
        return lifecycle.with_condition(workload, kind, *wanted, now)

    async def _trim(self, workload: Obj) -> None:
        """Delete pods beyond the group's size and let go of failed ones that have been replaced."""
        if not self.is_group:
            return
        await self._trim_excess(workload)
        await self._let_go(self.group.replaced(_counts(workload)))

    async def _trim_excess(self, workload: Obj) -> bool:
        """Delete pods beyond the group's size, also those that come when the group is done; True when there were some."""
        excess = self.group.excess_of(_counts(workload)) if self.is_group else []
        for pod in excess:
            await self._delete_excess(pod)
        return any(not is_deleting(pod) for pod in excess)

    async def _delete_excess(self, pod: Obj) -> None:
        await self._let_go((pod,))
        if is_deleting(pod):
            return
        try:
            await self.context.client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
        except NotFound:
            return  # gone already
        self.recorder.event(pod, "Normal", "ExcessPodDeleted", "Excess pod deleted")

    # Starting and stopping

    async def _start(self, workload: Obj) -> Result | None:
        waiting = [pod for pod in self.group.pods if is_gated(pod) and not is_deleting(pod)]
        if not waiting or status_of(workload).get("clusterName"):
            return None  # dispatched pods run elsewhere; these here stay gated and only show their status
        if not self._fits(workload):
            await self.writes.out_of_sync(workload)
            return None
        try:
            infos = {info.name: info for info in self.context.start_infos(workload)}
            for pod in waiting:
                await self.context.client.update(PODS, ungated(pod, infos[self._role(pod)]), manager=FIELD_MANAGER)
                message = f"Admitted by clusterQueue {wl.cluster_queue_of(workload)}"
                self.recorder.event(pod, "Normal", "Started", message)
                self._observe_start(workload)
        except ConflictingUpdate as error:
            await self.writes.finish(workload, "FailedToStart", str(error))
        except FlavorGone:
            return Result(requeue_after=1.0)
        return None

    def _fits(self, workload: Obj) -> bool:
        """Whether a prebuilt Workload describes these pods; our own always does."""
        if not prebuilt_workload(self.first):
            return True
        roles = {entry.get("name", "main"): entry for entry in wl.pod_sets_of(workload)}
        for pod in self.group.pods:
            entry = roles.get(self._role(pod))
            if entry is None:
                return False
            if not self.is_group and role_hash(spec_of(entry.get("template") or {})) != role_hash(spec_of(pod)):
                return False
        return True

    def _role(self, pod: Obj) -> str:
        return role_of(pod) if self.is_group else "main"

    def _observe_start(self, workload: Obj) -> None:
        admitted = transition_time(workload, names.ADMITTED) or self.context.clock.now()
        self.controller.metrics.observe(
            "kueue_pod_scheduling_gate_removal_seconds",
            self.context.clock.now() - admitted,
            names.ADMISSION_GATE,
            wl.cluster_queue_of(workload),
            "true" if self.is_group else "false",
        )

    async def _delete_pods(self, message: str, *, but_gated: bool = False) -> bool:
        """Ask every live pod to end, `but_gated` ones, which may take part again; True when none is left that could run."""
        left = False
        for pod in self.group.pods:
            if but_gated and is_gated(pod):
                continue
            if is_terminated(pod) or (is_deleting(pod) and not spec_of(pod).get("nodeName")):
                continue
            if is_deleting(pod):
                left |= not self.context.config.gates["FastQuotaReleaseInPodIntegration"]
                continue
            left = True
            marked = termination_target(pod, message, self.context.now())
            await self.context.client.update(PODS, marked, subresource="status", manager=FIELD_MANAGER)
            await self.context.client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
            self.recorder.event(pod, "Normal", "Stopped", message)
        return not left

    async def _evict(self, workload: Obj) -> None:
        """Stop the pods, then give the quota back. Those of a group stay, and with them its Workload, until others come."""
        evicted = conditions.find(workload, names.EVICTED) or {}
        concerned = wl.has_quota(workload) or not self.is_group
        if concerned and not await self._delete_pods(str(evicted.get("message", "")), but_gated=self.is_group):
            return
        if wl.has_quota(workload):
            released = await self.writes.release_evicted(workload)
            self.controller.metrics.released(
                released, wl.cluster_queue_of(workload), str(evicted.get("reason", "")), self.context.clock.now()
            )
        if not self.is_group:
            await self._let_go(self.group.pods)

    async def _stop(self, workload: Obj, message: str) -> None:
        if not await self._delete_pods(message):
            return
        await self._let_go(self.group.pods)
        await self.writes.let_go(workload)

    # The end

    async def _finish(self, workload: Obj | None, finish: JobOutcome) -> None:
        if workload is not None and not wl.is_finished(workload):
            await self.writes.finish(workload, "Succeeded" if finish.success else "Failed", finish.message)
            message = f"Workload '{key_of(workload)}' is declared finished"
            self.recorder.event(self.first, "Normal", "FinishedWorkload", message)
            return
        if workload is not None:
            await self.writes.let_go(workload)
        await self._let_go(self.group.pods)

    async def _let_go(self, pods: Iterable[Obj]) -> None:
        """Remove our finalizer so that pods can disappear."""
        for pod in pods:
            if names.POD_FINALIZER in finalizers_of(pod):
                new = without_finalizer(pod, names.POD_FINALIZER)
                await self.context.client.update(PODS, new, manager=FIELD_MANAGER)


def _counts(workload: Obj) -> dict[str, int]:
    return {entry.get("name", ""): int(entry.get("count", 1)) for entry in wl.pod_sets_of(workload)}
