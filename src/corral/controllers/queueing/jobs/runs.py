"""How a queued job is started, stopped, evicted and, long after it was given up, removed."""

from __future__ import annotations

import logging

from corral.controllers.queueing.context import FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.jobs.view import JobView
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, key_of, name_of, namespace_of, status_of, uid_of
from corral.jobs.framework.adapter import JobAdapter, managed_by
from corral.kinds.kueue import names
from corral.runtime.controller import Result
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.podset_info import FlavorGone, original_infos
from corral.workload.podsets import ConflictingUpdate

log = logging.getLogger(__name__)

FLAVOR_RETRY_S = 1.0


class JobRuns:
    """Writes jobs of one kind."""

    def __init__(self, context: QueueingContext, adapter: JobAdapter, writes: WorkloadWrites) -> None:
        self.context = context
        self.adapter = adapter
        self.writes = writes
        self.recorder = writes.recorder

    async def write(self, job: Obj, subresource: str = "") -> None:
        await self.context.client.update(self.adapter.resource, job, subresource=subresource, manager=FIELD_MANAGER)

    async def start(self, job: Obj, workload: Obj) -> Result | None:
        """Let a job run as its admission says."""
        if managed_by(self.adapter, job) == names.MULTIKUEUE_CONTROLLER and not status_of(workload).get("clusterName"):
            # Nobody would run it: its own controller keeps away, and no other cluster has taken it.
            self.recorder.event(job, "Warning", "NotDispatched", _not_dispatched(wl.cluster_queue_of(workload)))
            return None
        try:
            started = self.adapter.run(job, self.context.start_infos(workload))
        except ConflictingUpdate as error:
            await self.writes.finish(workload, "FailedToStart", str(error))
            return None
        except FlavorGone as error:
            log.info("cannot start the job yet", extra={"job": str(key_of(job)), "error": str(error)})
            return Result(requeue_after=FLAVOR_RETRY_S)
        await self.write(started)
        self.recorder.event(job, "Normal", "Started", f"Admitted by clusterQueue {wl.cluster_queue_of(workload)}")
        return None

    async def stop(self, view: JobView, workload: Obj | None, message: str) -> bool:
        """One step towards a stopped job; True once it is stopped and looks as `workload` remembers it."""
        write = self.adapter.stop(view.job, original_infos(workload) if workload is not None else [])
        if write is None:
            return True
        await self.write(write.obj, write.subresource)
        if not view.suspended:
            self.recorder.event(view.job, "Normal", "Stopped", message)
        return False

    async def evict(self, view: JobView, workload: Obj) -> None:
        """Stop the job of an evicted Workload, and give its quota back when no pod runs any more."""
        evicted = conditions.find(workload, names.EVICTED) or {}
        stopped = await self.stop(view, workload, str(evicted.get("message", "")))
        if stopped and not self.adapter.is_active(view.job) and wl.has_quota(workload):
            await self.writes.release_evicted(workload)

    async def retire_deactivated(self, job: Obj, workload: Obj) -> Result | None:
        """A job whose Workload was deactivated by us goes after its retention time."""
        keep = self.context.config.retention.after_deactivated_s
        left = lifecycle.retention_left(workload, keep, self.context.clock.now())
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


def _not_dispatched(queue: str) -> str:
    return (
        f"managedBy is {names.MULTIKUEUE_CONTROLLER}, but ClusterQueue {queue} does not dispatch to other clusters; "
        "the job stays suspended. Submit it without managedBy, or to a queue with a MultiKueue admission check"
    )
