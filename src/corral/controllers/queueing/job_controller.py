"""The job reconciler: keeps one Workload per queued job, starts the job when it is admitted, stops it when it is not.

One class serves every kind through its adapter. A reconcile makes at most one step per object and returns; the write
wakes it again. The order of the checks is the life of a job: finished, deleted Workload, missing or outdated Workload,
readiness, eviction, start, and running without admission.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from corral.controllers.queueing import elastic
from corral.controllers.queueing.context import (
    BY_OWNER,
    BY_OWNER_NAME,
    FIELD_MANAGER,
    Context,
    owner_name_index,
)
from corral.controllers.queueing.managed import ManagedJobs, NestingTooDeep
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.podset_info import FlavorGone, original_infos, start_infos
from corral.controllers.queueing.priority import PriorityClassNotFound, job_priority, workload_class
from corral.core import conditions
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    finalizers_of,
    generation_of,
    is_deleting,
    key_of,
    metadata_of,
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
    with_spec,
    with_status,
    without_finalizer,
)
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.jobs import lifecycle
from corral.jobs import workload as wl
from corral.jobs.adapter import (
    Finish,
    JobAdapter,
    managed_by,
    maximum_execution_time,
    prebuilt_workload,
    queue_name,
    workload_priority_class,
)
from corral.jobs.podset import ConflictingUpdate, PodSet, same_shape
from corral.kinds.batch import JOBS
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Manager, Result, Watch
from corral.runtime.informer import Reader

log = logging.getLogger(__name__)

COMPOSE_RETRY_S = 10.0
# Of plain Jobs there may be thousands at once, and most of a reconcile is waiting for writes to be durable.
FEW_WORKERS, MANY_WORKERS = 5, 16
"""How soon to look again for a class or runtime a job names and nobody has made yet."""

OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"


BY_PREBUILT = "prebuilt"


def _prebuilt_index(job: Obj) -> Iterable[str]:
    name = prebuilt_workload(job)
    return (f"{namespace_of(job)}/{name}",) if name else ()


class WorkloadOwners:
    """Wakes the controller of a job when its Workload changes; one look per change, however many kinds there are."""

    def __init__(self) -> None:
        self._controllers: dict[tuple[str, str], JobController] = {}

    def add(self, controller: JobController) -> None:
        resource = controller.adapter.resource
        self._controllers[resource.group, resource.kind] = controller

    def changed(self, old: Obj | None, new: Obj | None) -> None:
        """An informer handler."""
        if old is None and new is not None and not owner_references_of(new):
            for waiting in self._controllers.values():
                waiting.wake_prebuilt(key_of(new))
        for workload in (old, new):
            for reference in owner_references_of(workload) if workload is not None else ():
                group = str(reference.get("apiVersion", "")).rpartition("/")[0]
                controller = self._controllers.get((group, str(reference.get("kind", ""))))
                if controller is not None and workload is not None:
                    controller.wake(Key(namespace_of(workload), str(reference["name"])))


class JobController:
    """Queues the jobs of one kind."""

    def __init__(self, context: Context, adapter: JobAdapter, managed: ManagedJobs, metrics: QueueingMetrics) -> None:
        self.name = f"{adapter.framework}-kueue-controller"
        self.adapter = adapter
        self.context = context
        self.managed = managed
        self.metrics = metrics
        self.recorder = context.recorder.named(self.name)
        self.workloads = context.caches.workloads

    def setup(self, manager: Manager) -> None:
        jobs = manager.informer(self.adapter.resource)
        jobs.add_index(BY_PREBUILT, _prebuilt_index)
        self.jobs: Reader = jobs
        self.lookups = {resource: manager.informer(resource) for resource in self.adapter.reads}
        self.managed.add_kind(self.adapter, self.jobs)
        resource = self.adapter.resource
        usual = MANY_WORKERS if resource == JOBS else FEW_WORKERS
        workers = self.context.config.workers.get(f"{resource.kind}.{resource.group}".rstrip("."), usual)
        self._controller = manager.add(self, watches=[Watch(resource)], workers=workers)

    def wake(self, key: Key) -> None:
        """The Workload of the job `key` changed."""
        self._controller.queue.add(key)

    def wake_prebuilt(self, workload: Key) -> None:
        """A Workload without owner appeared, which jobs may have been waiting for."""
        for job in self.jobs.by_index(BY_PREBUILT, str(workload)):
            self._controller.queue.add(key_of(job))

    def _lookup(self, resource: Resource, key: Key) -> Obj | None:
        return self.lookups[resource].get(key)

    # The reconcile

    async def reconcile(self, key: Key) -> Result | None:
        job = self.jobs.get(key)
        if job is None:
            await self._let_go(key)
            return None
        try:
            ancestor = self.managed.managed_ancestor(job)
        except NestingTooDeep as error:
            self.recorder.event(job, "Warning", "JobNestingTooDeep", str(error))
            return None
        if ancestor is not None:
            await self._follow(job, *ancestor)
            return None
        if not self.managed.is_managed(job):
            return None
        return await self._reconcile_managed(job)

    async def _follow(self, job: Obj, adapter: JobAdapter, owner: Obj) -> None:
        """A child of a queued job must not run ahead of it."""
        if self.adapter.is_suspended(job) or is_deleting(job) or self.adapter.finished(job) is not None:
            return
        held = self._owned(owner)
        if not any(wl.is_admitted(workload) or wl.is_finished(workload) for workload in held) and held:
            await self._write_job(self.adapter.suspend(job))
            self.recorder.event(job, "Normal", "Suspended", "Kueue managed child job suspended")

    async def _reconcile_managed(self, job: Obj) -> Result | None:
        if is_deleting(job):
            await self._drop_finalizers(job)
            return None
        finish = self.adapter.finished(job)
        workload, proceed = await self._workload_of(job, finish)
        if not proceed:
            return None
        if finish is not None:
            if (
                workload is not None
                and not managed_by(self.adapter, job)
                and await self._sync_last_readiness(job, workload)
            ):
                return None
            await self._finish(job, workload, finish)
            return None
        if workload is None:
            return await self._create(job)
        if is_deleting(workload):
            await self._give_up_workload(job, workload)
            return None
        if wl.is_finished(workload):
            await self._stop_finished(job, workload)
            return None
        return await self._drive(job, workload)

    async def _drive(self, job: Obj, workload: Obj) -> Result | None:
        """Bring a job and its live Workload in line."""
        if await self._sync_spec(job, workload) or await self._sync_progress(job, workload):
            return None
        if wl.is_evicted(workload):
            await self._evict(job, workload)
            return await self._retire_deactivated(job, workload)
        if self.adapter.is_suspended(job):
            if wl.is_admitted(workload):
                return await self._start(job, workload)
            self._tell_checks(job, workload)
        elif not wl.is_admitted(workload) and not self._grows(job, workload):
            await self._stop(job, workload, "Not admitted by cluster queue")
        return None

    def _grows(self, job: Obj, workload: Obj) -> bool:
        """Whether a job runs with what its last slice had while the checks of a larger one are not through."""
        is_larger = names.WORKLOAD_SLICE_REPLACEMENT_FOR in annotations_of(workload)
        return is_larger and self._is_elastic(job) and wl.has_quota(workload)

    def _tell_checks(self, job: Obj, workload: Obj) -> None:
        """What the admission checks say about a job that has quota but may not start yet."""
        waiting = [state for state in wl.check_states_of(workload) if state.get("state") == names.PENDING]
        said = [f"{state['name']}: {state['message']}" for state in waiting if state.get("message")]
        if said and wl.has_quota(workload):
            self.recorder.event(job, "Normal", "UpdatedAdmissionCheck", "; ".join(said))

    # Finding the Workload

    async def _workload_of(self, job: Obj, finish: Finish | None) -> tuple[Obj | None, bool]:
        """The job's Workload, and whether to go on with this reconcile."""
        prebuilt = prebuilt_workload(job) if self.adapter.prebuilt else ""
        if prebuilt:
            return await self._prebuilt(job, prebuilt, finish)
        candidates = self._owned(job)
        if self._is_elastic(job):
            return await self._slice_of(job, candidates, finish)
        match = next((found for found in candidates if self._matches(job, found)), None)
        others = [found for found in candidates if found is not match]
        if match is None and len(others) == 1 and self._can_update(job, others[0]):
            await self._update_pod_sets(job, others[0])
            return None, False
        if match is None and not self.adapter.is_suspended(job) and finish is None:
            return None, await self._stop_unmatched(job, others)
        for extra in others:
            await self._delete_workload(job, extra)
        return match, not others

    async def _slice_of(self, job: Obj, held: list[Obj], finish: Finish | None) -> tuple[Obj | None, bool]:
        """The Workload slice an elastic job runs under.

        A job that grew gets a new slice beside the one it has; a job that shrank shrinks the one it has.
        """
        live = sorted((found for found in held if not wl.is_finished(found)), key=_age)
        if not live or finish is not None:
            return (live or sorted(held, key=_age))[-1] if held else None, True
        current = next((found for found in reversed(live) if wl.has_quota(found)), live[-1])
        wanted, newest = self._pod_sets(job), live[-1]
        change = elastic.change_of(wl.pod_sets_of(newest), wanted)
        if change == elastic.SAME:
            for stale in live[:-1]:
                if stale is not current:
                    await self._delete_workload(job, stale)
            return current, True
        if change == elastic.SHRUNK or not wl.has_quota(newest):
            if newest is not current:
                await self._delete_workload(job, newest)
                return None, False
            resized = with_spec(newest, {**spec_of(newest), "podSets": elastic.resized(newest, wanted)})
            await self.context.client.update(WORKLOADS, resized, manager=FIELD_MANAGER)
            return None, False
        await self._create_slice(job, replaces=newest)
        return current, True

    async def _create_slice(self, job: Obj, *, replaces: Obj) -> None:
        fresh = self._compose(job)
        if fresh is None:
            return
        fresh = with_annotations(fresh, {names.WORKLOAD_SLICE_REPLACEMENT_FOR: str(key_of(replaces))})
        try:
            created = await self.context.client.create(WORKLOADS, fresh, manager=FIELD_MANAGER)
        except AlreadyExists:
            return  # our own earlier write has not reached the cache yet
        self.recorder.event(job, "Normal", "CreatedWorkload", f"Created Workload: {key_of(created)}")

    def _owned(self, job: Obj) -> list[Obj]:
        return [
            workload
            for workload in self.workloads.by_index(BY_OWNER, uid_of(job))
            if namespace_of(workload) == namespace_of(job)
        ]

    def _pod_sets(self, job: Obj) -> list[PodSet]:
        return self.adapter.pod_sets(job, self._lookup)

    def _matches(self, job: Obj, workload: Obj) -> bool:
        """Whether `workload` describes `job` as it is; a finished one belongs to it in any case."""
        if wl.is_finished(workload) or is_deleting(workload):
            return True
        running = not self.adapter.is_suspended(job) or names.STOPPING in (metadata_of(job).get("annotations") or {})
        expected = wl.pod_sets_of(workload)
        try:
            actual = self._pod_sets(job)
        except ValueError:
            return True
        if len(expected) != len(actual):
            return False
        partial = any(entry.get("minCount") is not None for entry in expected) and running
        return all(
            same_shape(entry, pod_set, compare_counts=not partial, running=running or wl.is_admitted(workload))
            for entry, pod_set in zip(expected, actual, strict=True)
        )

    def _can_update(self, job: Obj, workload: Obj) -> bool:
        return self.adapter.is_suspended(job) and not wl.has_quota(workload) and not wl.is_finished(workload)

    async def _update_pod_sets(self, job: Obj, workload: Obj) -> None:
        fresh = self._compose(job)
        if fresh is None:
            return
        spec = {**spec_of(workload), **spec_of(fresh), "active": spec_of(workload).get("active", True)}
        await self.context.client.update(WORKLOADS, with_spec(workload, spec), manager=FIELD_MANAGER)
        self.recorder.event(
            job, "Normal", "UpdatedWorkload", f"Updated not matching Workload for suspended job: {key_of(workload)}"
        )

    async def _stop_unmatched(self, job: Obj, others: list[Obj]) -> bool:
        """A running job without a fitting Workload is stopped first; True when it is."""
        workload = others[0] if len(others) == 1 else None
        if workload is None:
            message = "Missing Workload; unable to restore pod templates"
        else:
            message = "No matching Workload; restoring pod templates according to existent Workload"
        if not await self._stop(job, workload, message):
            return False
        for extra in others:
            await self._delete_workload(job, extra)
        return False

    async def _delete_workload(self, job: Obj, workload: Obj) -> None:
        if finalizers_of(workload):
            workload = await self.context.client.update(
                WORKLOADS, without_finalizer(workload, names.RESOURCE_IN_USE), manager=FIELD_MANAGER
            )
        try:
            await self.context.client.delete(WORKLOADS, name_of(workload), namespace_of(workload), uid=uid_of(workload))
        except NotFound:
            return  # somebody else was faster
        self.recorder.event(job, "Normal", "DeletedWorkload", f"Deleted not matching Workload: {key_of(workload)}")

    async def _prebuilt(self, job: Obj, name: str, finish: Finish | None) -> tuple[Obj | None, bool]:
        workload = self.workloads.get(Key(namespace_of(job), name))
        if workload is None:
            if not self.adapter.is_suspended(job) and finish is None:
                await self._stop(job, None, "missing workload")
            return None, False
        if not any(reference.get("uid") == uid_of(job) for reference in owner_references_of(workload)):
            if controller_of(workload) is not None:
                return None, False
            adopted = with_metadata(workload, ownerReferences=[*owner_references_of(workload), owner_ref(job)])
            adopted = with_labels(adopted, {names.JOB_UID: uid_of(job)})
            await self.context.client.update(WORKLOADS, adopted, manager=FIELD_MANAGER)
            return None, False
        # An elastic job and its slice are resized one after the other.
        if not self._matches(job, workload) and finish is None and not self._is_elastic(job):
            await self._finish_workload(workload, "OutOfSync", OUT_OF_SYNC)
            return None, False
        return workload, True

    # Making the Workload

    async def _create(self, job: Obj) -> Result | None:
        if not self.adapter.is_suspended(job):
            await self._stop(job, None, "missing workload")
            return None
        workload = self._compose(job)
        if workload is None:
            return Result(requeue_after=COMPOSE_RETRY_S)
        try:
            created = await self.context.client.create(WORKLOADS, workload, manager=FIELD_MANAGER)
        except AlreadyExists:
            return None  # our own earlier write has not reached the cache yet
        self.metrics.workload_created(
            self.adapter.framework, parse_time(metadata_of(job)["creationTimestamp"]), self.context.clock.now()
        )
        self.recorder.event(job, "Normal", "CreatedWorkload", f"Created Workload: {key_of(created)}")
        return None

    def _compose(self, job: Obj) -> Obj | None:
        """The Workload `job` should have, or None when that cannot be told; an event says why."""
        try:
            pod_sets = self._pod_sets(job)
            priority = job_priority(self.context.caches, self.adapter, job, pod_sets)
        except PriorityClassNotFound as error:
            self.recorder.event(job, "Warning", "WorkloadPriorityClassNotFound", str(error))
            return None
        except ValueError as error:
            self.recorder.event(job, "Warning", "ErrWorkloadCompose", str(error))
            return None
        resource = self.adapter.resource
        extra = (str(generation_of(job)),) if self._is_elastic(job) else ()
        limit = 63 if self.context.config.gates["ShortWorkloadNames"] else wl.MAX_NAME
        return wl.new_workload(
            job,
            wl.workload_name(resource.kind, resource.group, name_of(job), uid_of(job), *extra, limit=limit),
            pod_sets,
            queue=queue_name(job),
            priority=priority.value,
            priority_ref=priority.reference,
            max_execution_time=maximum_execution_time(job),
            labels=wl.copied_labels(job, self.context.config.label_keys_to_copy),
            annotations=wl.copied_annotations(job) | ({names.ELASTIC_JOB: "true"} if extra else {}),
        )

    def _is_elastic(self, job: Obj) -> bool:
        return wl.is_elastic(job) and self.context.config.gates["ElasticJobsViaWorkloadSlices"]

    # Keeping the Workload current

    async def _sync_spec(self, job: Obj, workload: Obj) -> bool:
        """Queue, priority class and time limit follow the job's labels; True when a write was made."""
        spec = dict(spec_of(workload))
        if self.adapter.is_suspended(job) and not wl.has_quota(workload):
            spec["queueName"] = queue_name(job)
            limit = maximum_execution_time(job)
            spec.pop("maximumExecutionTimeSeconds", None)
            if limit is not None:
                spec["maximumExecutionTimeSeconds"] = limit
        # A prebuilt Workload keeps the priority that whoever built it gives it, as the manager of a fleet does.
        name = "" if prebuilt_workload(job) else workload_priority_class(job)
        held = spec.get("priorityClassRef") or {}
        if name and (held.get("name") != name or held.get("kind") != "WorkloadPriorityClass"):
            try:
                priority = workload_class(self.context.caches, name)
            except PriorityClassNotFound as error:
                self.recorder.event(job, "Warning", "WorkloadPriorityClassNotFound", str(error))
            else:
                spec.update(priority=priority.value, priorityClassRef=priority.reference)
        if not spec.get("queueName"):
            spec.pop("queueName", None)
        if spec == spec_of(workload):
            return False
        await self.context.client.update(WORKLOADS, with_spec(workload, spec), manager=FIELD_MANAGER)
        return True

    async def _sync_progress(self, job: Obj, workload: Obj) -> bool:
        """Reclaimable pods and readiness as the job shows them; True when a write was made."""
        new = workload
        if self.context.config.gates["ReclaimablePods"]:
            new = self._with_reclaimable(job, new)
        if self.context.config.wait_for_pods_ready is not None:
            ready = not self.adapter.is_suspended(job) and self.adapter.pods_ready(job)
            new = lifecycle.sync_pods_ready(new, ready, self.context.now())
        if new is workload:
            return False
        if conditions.is_true(new, names.PODS_READY) and not conditions.is_true(workload, names.PODS_READY):
            self.metrics.pods_ready(new, self.context.clock.now())
        await self.context.write_progress(workload, new)
        return True

    async def _sync_last_readiness(self, job: Obj, workload: Obj) -> bool:
        """A job that ended shows once more whether its pods were ready; True when a write was made."""
        if self.context.config.wait_for_pods_ready is None or wl.is_finished(workload):
            return False
        new = lifecycle.sync_pods_ready(workload, self.adapter.pods_ready(job), self.context.now())
        if new is workload:
            return False
        await self.context.write_progress(workload, new)
        return True

    def _with_reclaimable(self, job: Obj, workload: Obj) -> Obj:
        held = {entry["name"]: int(entry["count"]) for entry in status_of(workload).get("reclaimablePods") or []}
        actual = self.adapter.reclaimable_pods(job)
        if held == actual:
            return workload
        if wl.has_quota(workload) and not self.adapter.is_suspended(job):
            # While quota is held the number only grows; a restarted pod takes nothing back.
            actual = {name: max(count, held.get(name, 0)) for name, count in {**held, **actual}.items()}
            if held == actual:
                return workload
        entries = [{"name": name, "count": count} for name, count in actual.items()]
        return with_status(workload, {**status_of(workload), "reclaimablePods": entries})

    # Starting and stopping

    async def _start(self, job: Obj, workload: Obj) -> Result | None:
        if managed_by(self.adapter, job) == names.MULTIKUEUE_CONTROLLER and not status_of(workload).get("clusterName"):
            # Nobody would run it: its own controller keeps away, and no other cluster has taken it.
            self.recorder.event(job, "Warning", "NotDispatched", _not_dispatched(wl.cluster_queue_of(workload)))
            return None
        try:
            infos = start_infos(
                workload,
                lambda name: self.context.caches.flavors.get(Key("", name)),
                queue_labels=self.context.config.gates["AssignQueueLabelsForPods"],
            )
            started = self.adapter.run(job, infos)
        except ConflictingUpdate as error:
            await self._finish_workload(workload, "FailedToStart", str(error))
            return None
        except FlavorGone as error:
            log.info("cannot start the job yet", extra={"job": str(key_of(job)), "error": str(error)})
            return Result(requeue_after=1.0)
        await self._write_job(started)
        self.recorder.event(job, "Normal", "Started", f"Admitted by clusterQueue {wl.cluster_queue_of(workload)}")
        return None

    async def _stop(self, job: Obj, workload: Obj | None, message: str) -> bool:
        """One step towards a stopped job; True once it is stopped and restored."""
        infos = original_infos(workload) if workload is not None else []
        was_running = not self.adapter.is_suspended(job)
        write = self.adapter.stop(job, infos)
        if write is None:
            return True
        await self._write_job(write.obj, write.subresource)
        if was_running:
            self.recorder.event(job, "Normal", "Stopped", message)
        return False

    async def _evict(self, job: Obj, workload: Obj) -> None:
        """Stop the job of an evicted Workload, and give its quota back when no pod runs any more."""
        evicted = conditions.find(workload, names.EVICTED) or {}
        stopped = await self._stop(job, workload, str(evicted.get("message", "")))
        if not stopped or self.adapter.is_active(job) or not wl.has_quota(workload):
            return
        required = [state["name"] for state in wl.check_states_of(workload)]
        released = lifecycle.release_evicted(workload, required, self.context.now())
        await self.context.write_status(released)

    async def _retire_deactivated(self, job: Obj, workload: Obj) -> Result | None:
        """A job whose Workload was deactivated by us goes after its retention time."""
        left = self.context.retention_left(workload)
        if left is None or wl.has_quota(workload):
            return None
        if left > 0:
            return Result(requeue_after=left)
        try:
            await self.context.client.delete(
                self.adapter.resource, name_of(job), namespace_of(job), uid=uid_of(job), propagation="Background"
            )
        except NotFound:
            return None  # gone already
        self.recorder.event(job, "Normal", "Deleted", "Deleted job: deactivation retention period expired")
        return None

    async def _write_job(self, job: Obj, subresource: str = "") -> None:
        await self.context.client.update(self.adapter.resource, job, subresource=subresource, manager=FIELD_MANAGER)

    # The end

    async def _finish(self, job: Obj, workload: Obj | None, finish: Finish) -> None:
        if workload is None:
            return
        if not wl.is_finished(workload):
            await self._finish_workload(workload, "Succeeded" if finish.success else "Failed", finish.message)
            self.recorder.event(
                job, "Normal", "FinishedWorkload", f"Workload '{key_of(workload)}' is declared finished"
            )
            return
        await self._remove_finalizer(workload)

    async def _finish_workload(self, workload: Obj, reason: str, message: str) -> None:
        if not wl.is_finished(workload):
            done = lifecycle.finish(workload, reason, message, self.context.now())
            await self.context.write_status(done)
            self.metrics.finished(done)

    async def _stop_finished(self, job: Obj, workload: Obj) -> None:
        """A Workload that ended although its job did not: the job must not go on."""
        finished = conditions.find(workload, names.FINISHED) or {}
        if finished.get("reason") in ("OutOfSync", "FailedToStart", "OwnerNotFound"):
            await self._stop(job, workload, str(finished.get("message", "")))
        await self._remove_finalizer(workload)

    async def _give_up_workload(self, job: Obj, workload: Obj) -> None:
        if await self._stop(job, workload, "Workload is deleted"):
            await self._remove_finalizer(workload)

    async def _let_go(self, key: Key) -> None:
        """The job is gone: its Workloads, which go with it, must not be held."""
        index = owner_name_index(self.adapter.resource.group, self.adapter.resource.kind, key)
        for workload in self.context.caches.workloads.by_index(BY_OWNER_NAME, index):
            if is_deleting(workload):
                await self._remove_finalizer(workload)

    async def _drop_finalizers(self, job: Obj) -> None:
        for workload in self._owned(job):
            await self._remove_finalizer(workload)

    async def _remove_finalizer(self, workload: Obj) -> None:
        if names.RESOURCE_IN_USE in finalizers_of(workload):
            await self.context.client.update(
                WORKLOADS, without_finalizer(workload, names.RESOURCE_IN_USE), manager=FIELD_MANAGER
            )


def _not_dispatched(queue: str) -> str:
    return (
        f"managedBy is {names.MULTIKUEUE_CONTROLLER}, but ClusterQueue {queue} does not dispatch to other clusters; "
        "the job stays suspended. Submit it without managedBy, or to a queue with a MultiKueue admission check"
    )


def _age(workload: Obj) -> tuple[str, int]:
    """Order of slices: by creation, then by the version the store gave them."""
    metadata = metadata_of(workload)
    return str(metadata.get("creationTimestamp", "")), int(metadata.get("resourceVersion") or 0)
