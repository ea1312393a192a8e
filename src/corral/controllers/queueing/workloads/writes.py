"""What several controllers write about Workloads: making, changing, finishing and removing one, each with its event.

A controller that queues something (jobs, pods, sets) and the one that looks after Workloads themselves all end up here, so
that a Workload is let go of, counted and told about in one way.
"""

from __future__ import annotations

from contextlib import suppress

from corral.controllers.queueing.context import FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.core.errors import AlreadyExists, BadRequest, Forbidden, InternalError, Invalid, NotFound, TooLarge
from corral.core.meta import (
    Obj,
    controller_of,
    finalizers_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    uid_of,
    without_finalizer,
)
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.events import Recorder
from corral.workload import lifecycle
from corral.workload import workload as wl

REFUSALS = (BadRequest, Forbidden, InternalError, Invalid, TooLarge)
"""Answers that will be the same next time, unless somebody changes the job, a policy or a webhook."""


class WorkloadWrites:
    """Writes Workloads and tells of it in the name of one controller."""

    def __init__(self, context: QueueingContext, metrics: QueueingMetrics, recorder: Recorder) -> None:
        self.context = context
        self.metrics = metrics
        self.recorder = recorder

    async def create(self, owner: Obj, workload: Obj) -> bool:
        """Create the Workload of `owner`; False when it is there. It is known at once: another look at its owner makes no second one,
        and queueing need not wait for news of it."""
        try:
            created = await self.context.client.create(WORKLOADS, workload, manager=FIELD_MANAGER)
        except AlreadyExists:
            return False
        except REFUSALS as error:
            self._report_refusal(owner, f"Could not create Workload {key_of(workload)}: {error.message}")
            raise
        self.context.caches.workloads.learn(created)
        self.recorder.event(owner, "Normal", "CreatedWorkload", f"Created Workload: {key_of(created)}")
        return True

    async def update(self, workload: Obj, *, owner: Obj | None = None) -> Obj:
        """Store everything but the status. The `owner` whose wish it is hears of a refusal."""
        try:
            return await self.context.client.update(WORKLOADS, workload, manager=FIELD_MANAGER)
        except REFUSALS as error:
            if owner is not None:
                self._report_refusal(owner, f"Could not update Workload {key_of(workload)}: {error.message}")
            raise

    def _report_refusal(self, owner: Obj, message: str) -> None:
        """It is tried again, with back-off: the cause may be in the cluster as well as in the job."""
        self.recorder.event(owner, "Warning", "ErrWorkloadCompose", message)

    async def let_go(self, workload: Obj) -> Obj:
        """Remove our finalizer, so that a Workload can disappear."""
        if names.RESOURCE_IN_USE not in finalizers_of(workload):
            return workload
        return await self.update(without_finalizer(workload, names.RESOURCE_IN_USE))

    async def part(self, workload: Obj) -> None:
        """A Workload whose job goes or is gone ends, unless it goes too, and is not held any longer. Nobody may ever take that job off its
        owners: a garbage collector that has not heard of Workloads leaves them alone."""
        ends = self.context.config.gates["FinishOrphanedWorkloads"] and controller_of(workload) is not None
        with suppress(NotFound):
            if ends and not is_deleting(workload) and not wl.is_finished(workload):
                await self.finish(workload, *lifecycle.OWNER_NOT_FOUND)  # its change has it let go of
            else:
                await self.let_go(workload)

    async def delete(self, workload: Obj) -> bool:
        """Delete a Workload, our finalizer first, as nobody may be left to remove it; False when it was leaving already."""
        try:
            workload = await self.let_go(workload)
            if is_deleting(workload):
                return False
            await self.context.client.delete(WORKLOADS, name_of(workload), namespace_of(workload), uid=uid_of(workload))
        except NotFound:
            return False
        return True

    async def finish(self, workload: Obj, reason: str, message: str) -> None:
        """The end of a Workload, unless it has ended."""
        if wl.is_finished(workload):
            return
        done = lifecycle.finish(workload, reason, message, self.context.now())
        await self.context.write_status(done)
        self.metrics.finished(done)

    async def replace(self, workload: Obj, successor: Obj) -> None:
        """The end of a slice that a larger one takes over from, unless it has ended."""
        if wl.is_finished(workload):
            return
        done = lifecycle.replaced(workload, successor, self.context.now())
        await self.context.write_status(done)
        self.recorder.event(done, "Normal", lifecycle.SLICE_REPLACED, lifecycle.replaced_by(successor))
        self.metrics.count("kueue_replaced_workload_slices_total", wl.cluster_queue_of(done))

    async def out_of_sync(self, workload: Obj) -> None:
        """The end of a prebuilt Workload that describes something else."""
        await self.finish(workload, "OutOfSync", "The prebuilt workload is out of sync with its user job")

    async def release_evicted(self, workload: Obj) -> Obj:
        """Give the quota of an evicted Workload back: nothing runs on it any more."""
        required = [state["name"] for state in wl.check_states_of(workload)]
        released = lifecycle.release_evicted(workload, required, self.context.now())
        await self.context.write_status(released)
        return released

    async def progress(self, old: Obj, new: Obj) -> Obj:
        """Store what a job reports about itself, if it is news; the Workload as it is now. Nobody is woken by that."""
        if new is old:
            return old
        if lifecycle.became_ready(old, new):
            self.metrics.pods_ready(new, self.context.clock.now())
        return await self.context.write_progress(old, new)
