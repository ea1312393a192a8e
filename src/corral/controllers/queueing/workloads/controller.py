"""The Workload controller: everything in a Workload's life that is neither scheduling nor the job itself.

Deactivation, stopped queues, admission checks, back-off after an eviction, time limits, readiness deadlines, retention and
orphans. What is to be done is decided in `workload.steps`; each look makes at most one write, whose change wakes the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.controllers.queueing.context import QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics, queued_since
from corral.controllers.queueing.workloads.changes import life_changed
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.meta import Key, Obj, is_deleting, key_of, name_of
from corral.decide.queueing.state import QueueingState
from corral.kinds.kubernetes.dynamic_resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, names
from corral.runtime.controller import Result, Watch
from corral.workload import workload as wl
from corral.workload.steps import END, LEAVING, LIFE
from corral.workload.steps.step_api import (
    OBJECT,
    WHOLE_STATUS,
    Delete,
    FinishWorkload,
    LookAgain,
    Move,
    RemoveFinalizer,
    Step,
    WorkloadView,
    WriteWorkload,
)


class WorkloadController:
    """Moves Workloads through their life."""

    name = "kueue-workload-controller"

    def __init__(self, context: QueueingContext, metrics: QueueingMetrics, state: QueueingState | None = None) -> None:
        """`state` knows what the scheduler found out about equal workloads."""
        self.context = context
        self.metrics = metrics
        self.questions = state.questions if state is not None else None
        self.caches = context.caches
        self.recorder = context.recorder.named(self.name)
        self.writes = WorkloadWrites(context, metrics, self.recorder)
        workers = context.config.workers.get("Workload.kueue.x-k8s.io", 10)
        context.manager.add(
            self,
            watches=[
                Watch(WORKLOADS, when=life_changed),
                Watch(CLUSTER_QUEUES, map=self._of_cluster_queue, when=_queue_changed),
                Watch(LOCAL_QUEUES, map=self._of_local_queue, when=_queue_changed),
                *self._device_watches(),
            ],
            workers=workers,
        )

    def _device_watches(self) -> list[Watch]:
        """Whatever devices depend on may let them be counted, or no more."""
        if not self.context.config.gates["KueueDRAIntegration"]:
            return []
        kinds = (DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES)
        return [Watch(kind, map=self._using_devices) for kind in kinds]

    def _using_devices(self, _: Obj) -> Iterable[Key]:
        return self.questions.device_users() if self.questions is not None else ()

    def _of_cluster_queue(self, queue: Obj) -> Iterable[Key]:
        return [key_of(workload) for workload in self.caches.workloads_of_cluster_queue(name_of(queue))]

    def _of_local_queue(self, queue: Obj) -> Iterable[Key]:
        return [key_of(workload) for workload in self.caches.workloads_of_local_queue(key_of(queue))]

    async def reconcile(self, key: Key) -> Result | None:
        workload = self.caches.workloads.get(key)
        if workload is None:
            return None
        view = WorkloadView(workload, self.caches, self.context.config, self.context.clock.now(), self.questions)
        waits: list[float] = []
        for step in _steps_for(workload):
            move = step(workload, view)
            if isinstance(move, LookAgain):
                waits.append(move.seconds)
            elif move is not None:
                await self._make(workload, move)
                return None
        return Result(requeue_after=max(0.0, min(waits))) if waits else None

    async def _make(self, workload: Obj, move: Move) -> None:
        match move:
            case WriteWorkload():
                await self._write(move)
            case FinishWorkload(reason, message):
                await self.writes.finish(workload, reason, message)
            case RemoveFinalizer():
                await self.writes.let_go(workload)
            case Delete(message):
                if await self.writes.delete(workload):
                    self.recorder.event(workload, "Normal", "Deleted", message)

    async def _write(self, move: WriteWorkload) -> None:
        """Write, then tell and count what was written."""
        workload = move.workload
        if move.part == OBJECT:
            await self.writes.update(workload)
        elif move.part == WHOLE_STATUS:
            await self.context.replace_status(workload)
        else:
            await self.context.write_status(workload)
        if move.event is not None:
            self.recorder.event(workload, *move.event)
        now = self.context.clock.now()
        if move.eviction is not None:
            self.metrics.evicted(workload, move.eviction.reason, move.eviction.cause, now)
        if move.admits:
            self.metrics.admitted(workload, queued_since(workload), now)


def _steps_for(workload: Obj) -> tuple[Step, ...]:
    if wl.is_finished(workload):
        return END
    return LEAVING if is_deleting(workload) else LIFE


def _queue_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether workloads of a queue have to look again: its spec, its activity or its existence changed."""
    if old is None or new is None:
        return True
    return (
        old.get("spec") != new.get("spec")
        or is_deleting(old) != is_deleting(new)
        or conditions.is_true(old, names.ACTIVE) != conditions.is_true(new, names.ACTIVE)
    )
