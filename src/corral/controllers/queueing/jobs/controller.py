"""The job reconciler: keeps one Workload per queued job, starts the job when it is admitted, stops it when it is not.

One class serves every kind through its adapter. A reconcile makes at most one step per object and returns; the write
wakes it again. The order of the checks is the life of a job: which Workload it has (`job_workloads`), its end, what the
Workload takes over from it (`job_progress`), eviction, start, and running without admission (`job_runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.controllers.queueing.ancestors import NestingTooDeep
from corral.controllers.queueing.context import (
    BY_OWNER,
    BY_OWNER_NAME,
    QueueingContext,
    owner_name_index,
)
from corral.controllers.queueing.jobs import progress as job_progress
from corral.controllers.queueing.jobs import workload_choice as job_workloads
from corral.controllers.queueing.jobs.management_scope import ManagedJobs
from corral.controllers.queueing.jobs.priority import PriorityClassNotFound, workload_class
from corral.controllers.queueing.jobs.runs import JobRuns
from corral.controllers.queueing.jobs.view import JobView
from corral.controllers.queueing.jobs.workload_builder import COMPOSE_RETRY_S, CannotCompose, compose_for_job
from corral.controllers.queueing.jobs.workload_choice import (
    Discard,
    OutOfSync,
    Proceed,
    Rewrite,
    StopFirst,
    StoreWorkload,
    TakenOver,
)
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workloads.owners import WorkloadOwners
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    metadata_of,
    namespace_of,
    spec_of,
    uid_of,
    with_annotations,
    with_spec,
)
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.jobs.framework.adapter import JobAdapter, JobOutcome, managed_by, prebuilt_workload
from corral.kinds.kueue import names
from corral.runtime.controller import Result, Watch
from corral.workload import lifecycle
from corral.workload import workload as wl

# Of plain Jobs there may be thousands at once, and most of a reconcile is waiting for writes to be durable.
FEW_WORKERS, MANY_WORKERS = 5, 16
BY_PREBUILT = "prebuilt"


def _prebuilt_index(job: Obj) -> Iterable[str]:
    name = prebuilt_workload(job)
    return (f"{namespace_of(job)}/{name}",) if name else ()


class JobController:
    """Queues the jobs of one kind."""

    def __init__(
        self,
        context: QueueingContext,
        adapter: JobAdapter,
        managed: ManagedJobs,
        metrics: QueueingMetrics,
        owners: WorkloadOwners,
    ) -> None:
        self.name = f"{adapter.framework}-kueue-controller"
        self.adapter = adapter
        self.context = context
        self.managed = managed
        self.metrics = metrics
        self.recorder = context.recorder.named(self.name)
        self.workloads = context.caches.workloads
        self.writes = WorkloadWrites(context, metrics, self.recorder)
        self.runs = JobRuns(context, adapter, self.writes)
        self._fits: dict[Key, tuple[object, bool]] = {}
        resource = self.adapter.resource
        jobs = context.manager.informer(resource)
        jobs.add_index(BY_PREBUILT, _prebuilt_index)
        self.jobs = jobs
        self.lookups = {read: context.manager.informer(read) for read in self.adapter.reads}
        self.managed.add_kind(self.adapter, self.jobs)
        usual = MANY_WORKERS if adapter.is_numerous else FEW_WORKERS
        workers = context.config.workers.get(f"{resource.kind}.{resource.group}".rstrip("."), usual)
        self._controller = context.manager.add(self, watches=[Watch(resource)], workers=workers)
        owners.add(resource.group, resource.kind, self._controller.queue.add, awaited=jobs.keys_by_index(BY_PREBUILT))

    def _lookup(self, resource: Resource, key: Key) -> Obj | None:
        return self.lookups[resource].get(key)

    # The reconcile

    async def reconcile(self, key: Key) -> Result | None:
        job = self.jobs.get(key)
        if job is None:
            self._fits.pop(key, None)
            await self._let_go(key)
            return None
        try:
            ancestor = await self.managed.managed_ancestor(job)
        except NestingTooDeep as error:
            self.recorder.event(job, "Warning", "JobNestingTooDeep", str(error))
            return None
        if ancestor is not None:
            await self._follow(job, ancestor)
            return None
        if not self.managed.is_managed(job):
            return None
        if is_deleting(job):
            for workload in self._owned(job):
                await self.writes.part(workload)
            return None
        elastic = wl.is_elastic(job) and self.context.config.gates["ElasticJobsViaWorkloadSlices"]
        return await self._reconcile_managed(JobView(self.adapter, job, self._lookup, elastic=elastic))

    async def _follow(self, job: Obj, owner: Obj) -> None:
        """A child of a queued job must not run ahead of it."""
        if self.adapter.is_suspended(job) or is_deleting(job) or self.adapter.finished(job) is not None:
            return
        held = self._owned(owner)
        if held and not any(wl.is_admitted(workload) or wl.is_finished(workload) for workload in held):
            await self.runs.write(self.adapter.suspend(job))
            self.recorder.event(job, "Normal", "Suspended", "Kueue managed child job suspended")

    async def _reconcile_managed(self, view: JobView) -> Result | None:
        workload, proceed = await self._settle_workloads(view)
        if not proceed:
            return None
        if view.finish is not None:
            await self._finish(view, workload, view.finish)
            return None
        if workload is None:
            return await self._create(view)
        if is_deleting(workload):
            if await self.runs.stop(view, workload, "Workload is deleted"):
                await self.writes.let_go(workload)
            return None
        if wl.is_finished(workload):
            await self._stop_finished(view, workload)
            return None
        return await self._drive(view, workload)

    async def _drive(self, view: JobView, workload: Obj) -> Result | None:
        """Bring a job and its live Workload in line."""
        if await self._sync_spec(view, workload):
            return None
        if view.suspended and wl.is_admitted(workload) and not wl.is_evicted(workload):
            return await self._start(view, workload)
        workload = await self._sync_progress(view, workload)
        if wl.is_evicted(workload):
            await self.runs.evict(view, workload)
            return await self.runs.retire_deactivated(view.job, workload)
        if view.suspended:
            self._report_checks(view.job, workload)
        elif not wl.is_admitted(workload) and not self._grows(view, workload):
            await self.runs.stop(view, workload, "Not admitted by cluster queue")
        return None

    async def _start(self, view: JobView, workload: Obj) -> Result | None:
        """The job first: that its pods are not ready yet is no news that it should wait for."""
        if self.jobs.awaits(key_of(view.job)):
            return None
        result = await self.runs.start(view.job, workload)
        await self._sync_progress(view, workload)
        return result

    def _grows(self, view: JobView, workload: Obj) -> bool:
        """Whether a job runs with what its last slice had while the checks of a larger one are not through."""
        is_larger = names.WORKLOAD_SLICE_REPLACEMENT_FOR in annotations_of(workload)
        return is_larger and view.elastic and wl.has_quota(workload)

    def _report_checks(self, job: Obj, workload: Obj) -> None:
        """What the admission checks say about a job that has quota but may not start yet."""
        waiting = [state for state in wl.check_states_of(workload) if state.get("state") == names.PENDING]
        said = [f"{state['name']}: {state['message']}" for state in waiting if state.get("message")]
        if said and wl.has_quota(workload):
            self.recorder.event(job, "Normal", "UpdatedAdmissionCheck", "; ".join(said))

    # Its Workload

    async def _settle_workloads(self, view: JobView) -> tuple[Obj | None, bool]:
        """Act on the verdict about the job's Workloads: the one to go on with, and whether to go on at all."""
        verdict = self._verdict(view)
        match verdict:
            case Proceed(workload, stale, outgrown):
                await self._discard(view.job, stale)
                if outgrown is not None:
                    await self._grow(view, outgrown)
                return workload, True
            case Rewrite(workload):
                await self._rewrite(view, workload)
            case StoreWorkload(workload):
                if not self.workloads.awaits(key_of(workload)):
                    self.workloads.expect(await self.writes.update(workload))
            case Discard(workloads):
                await self._discard(view.job, workloads)
            case StopFirst(workload, message, doomed):
                if await self.runs.stop(view, workload, message):
                    await self._discard(view.job, doomed)
            case TakenOver(slices, successor):
                for workload in slices:
                    await self.writes.replace(workload, successor)
            case OutOfSync(workload):
                await self.writes.out_of_sync(workload)
        return None, False

    def _verdict(self, view: JobView) -> job_workloads.WorkloadVerdict:
        if view.prebuilt:
            named = self.workloads.get(Key(namespace_of(view.job), view.prebuilt))
            return job_workloads.find_prebuilt(view, named, self._describes)
        return job_workloads.find(view, self._owned(view.job), self._describes)

    def _describes(self, view: JobView, workload: Obj) -> bool:
        """Whether a Workload describes its job. Most changes are of a status and leave the last answer true."""
        if self.adapter.reads:
            return job_workloads.describes(view, workload)
        job = view.job
        asked = (
            (uid_of(job), generation_of(job), labels_of(job), annotations_of(job)),
            (uid_of(workload), generation_of(workload), wl.is_admitted(workload)),
        )
        known = self._fits.get(key_of(job))
        if known is None or known[0] != asked:
            known = self._fits[key_of(job)] = (asked, job_workloads.describes(view, workload))
        return known[1]

    def _owned(self, job: Obj) -> list[Obj]:
        namespace = namespace_of(job)
        return [found for found in self.workloads.by_index(BY_OWNER, uid_of(job)) if namespace_of(found) == namespace]

    async def _discard(self, job: Obj, workloads: Sequence[Obj]) -> None:
        for workload in workloads:
            if await self.writes.delete(workload):
                message = f"Deleted not matching Workload: {key_of(workload)}"
                self.recorder.event(job, "Normal", "DeletedWorkload", message)

    async def _create(self, view: JobView) -> Result | None:
        if not view.suspended:
            await self.runs.stop(view, None, job_workloads.MISSING)
            return None
        fresh = self._compose(view)
        if fresh is None:
            return Result(requeue_after=COMPOSE_RETRY_S)
        if await self.writes.create(view.job, fresh) and self.context.config.gates["MetricForWorkloadCreationLatency"]:
            made = parse_time(metadata_of(view.job)["creationTimestamp"])
            self.metrics.workload_created(self.adapter.framework, fresh, made, self.context.clock.now())
        return None

    async def _grow(self, view: JobView, outgrown: Obj) -> None:
        fresh = self._compose(view)
        if fresh is not None:
            marks = {
                names.WORKLOAD_SLICE_REPLACEMENT_FOR: str(key_of(outgrown)),
                names.WORKLOAD_SLICE_NAME: wl.slice_name(outgrown),
            }
            await self.writes.create(view.job, with_annotations(fresh, marks))

    async def _rewrite(self, view: JobView, workload: Obj) -> None:
        fresh = self._compose(view)
        if fresh is None:
            return
        spec = {**spec_of(workload), **spec_of(fresh), "active": spec_of(workload).get("active", True)}
        await self.writes.update(with_spec(workload, spec), owner=view.job)
        message = f"Updated not matching Workload for suspended job: {key_of(workload)}"
        self.recorder.event(view.job, "Normal", "UpdatedWorkload", message)

    def _compose(self, view: JobView) -> Obj | None:
        """The Workload a job should have, or None when that cannot be told; an event says why."""
        try:
            return compose_for_job(self.context, view)
        except CannotCompose as error:
            self.recorder.event(view.job, "Warning", error.reason, str(error))
            return None

    # What the Workload takes over

    async def _sync_spec(self, view: JobView, workload: Obj) -> bool:
        """Queue, priority class and time limit follow the job's labels; True when a write was made."""
        priority = None
        name = job_progress.new_class(view.job, workload)
        if name:
            try:
                priority = workload_class(self.context.caches, name)
            except PriorityClassNotFound as error:
                self.recorder.event(view.job, "Warning", "WorkloadPriorityClassNotFound", str(error))
        spec = job_progress.synced_spec(view, workload, priority)
        if spec == spec_of(workload):
            return False
        await self.writes.update(with_spec(workload, spec), owner=view.job)
        return True

    async def _sync_progress(self, view: JobView, workload: Obj) -> Obj:
        """Reclaimable pods and readiness as the job shows them; the Workload as it is now."""
        new = job_progress.with_progress(view, workload, self.context.config, self.context.now())
        return await self.writes.progress(workload, new)

    async def _sync_last_readiness(self, view: JobView, workload: Obj) -> Obj:
        """A job that ended shows once more whether its pods were ready; the Workload as it is now."""
        if self.context.config.wait_for_pods_ready is None or wl.is_finished(workload):
            return workload
        new = lifecycle.sync_pods_ready(workload, self.adapter.pods_ready(view.job), self.context.now())
        return workload if new is workload else await self.context.write_progress(workload, new)

    # The end

    async def _finish(self, view: JobView, workload: Obj | None, finish: JobOutcome) -> None:
        if workload is None:
            return
        if not managed_by(self.adapter, view.job):
            workload = await self._sync_last_readiness(view, workload)
        if wl.is_finished(workload):
            await self.writes.let_go(workload)
            return
        await self.writes.finish(workload, "Succeeded" if finish.success else "Failed", finish.message)
        message = f"Workload '{key_of(workload)}' is declared finished"
        self.recorder.event(view.job, "Normal", "FinishedWorkload", message)

    async def _stop_finished(self, view: JobView, workload: Obj) -> None:
        """A Workload that ended although its job did not: the job must not go on."""
        finished = conditions.find(workload, names.FINISHED) or {}
        if finished.get("reason") in ("OutOfSync", "FailedToStart", "OwnerNotFound"):
            await self.runs.stop(view, workload, str(finished.get("message", "")))
        await self.writes.let_go(workload)

    async def _let_go(self, key: Key) -> None:
        """The job is gone, or not in sight yet: the Workloads of one that is gone end or go with it, and must not be held. A job whose
        Workload has ended is stopped, so the API is asked first."""
        index = owner_name_index(self.adapter.resource.group, self.adapter.resource.kind, key)
        for workload in self.workloads.by_index(BY_OWNER_NAME, index):
            if is_deleting(workload) or await self.jobs.is_gone(key):
                await self.writes.part(workload)
