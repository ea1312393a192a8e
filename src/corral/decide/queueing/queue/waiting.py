"""Who waits where: which workloads name a LocalQueue, and which of them stand in the queue it leads to.

A workload joins while its LocalQueue is open and nothing about itself keeps it out. One in back-off joins too, aside
from the others, and an alarm ends that when its time has come.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import attrgetter

from corral.core.meta import Key
from corral.decide.queueing.model.values import LocalQueueSpec, WorkloadInfo
from corral.decide.queueing.queue.pending import PendingQueue
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.world import World
from corral.workload.lifecycle import is_preempting

_what_decides_its_turn = attrgetter(
    "shape",
    "order_time",
    "active",
    "on_hold",
    "deleting",
    "evicted",
    "evicted_reason",
    "requeue_at",
    "requeue_blocked",
    "gated_preemption",
    "failed_checks",
    "invalid",
    "uncounted",
    "reserving",
)


class WaitingWorkloads:
    """Fills the pending queues of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._members: dict[Key, dict[Key, None]] = {}
        """Workloads by the LocalQueue they name, whether it exists or not."""
        self._preempting: dict[Key, None] = {}
        """Workloads that were preempting when a former process ended; they go on as the first of their queue."""
        self._alarms: list[tuple[float, Key]] = []

    # -- queues ---------------------------------------------------------------------------------------------------

    def open(self, queue: ClusterQueue) -> None:
        """Let workloads wait for a new ClusterQueue."""
        self._world.pending[queue.name] = self._new_pending(queue)

    def rebuild(self, queue: ClusterQueue) -> None:
        """Put those who wait in order again, after the rules of the order changed."""
        old = self._world.pending[queue.name]
        new = self._world.pending[queue.name] = self._new_pending(queue)
        for item in old.items.values():
            new.add(item.info, backoff=self._world.in_backoff(item.info))

    def _new_pending(self, queue: ClusterQueue) -> PendingQueue:
        settings = self._world.settings
        pending = PendingQueue(
            strict=queue.spec.strict_fifo,
            hashing=settings.features.scheduling_hash,
            resuming=settings.features.preserve_scan_progress,
        )
        if queue.spec.admission_fair_sharing and settings.admission_fair_sharing is not None:
            pending.usage_of = self._world.ledger.usage
        return pending

    # -- members of a LocalQueue ----------------------------------------------------------------------------------

    def enroll(self, info: WorkloadInfo) -> None:
        """Note which LocalQueue a workload names."""
        self._members.setdefault(Key(info.key.namespace, info.queue), {})[info.key] = None

    def expel(self, info: WorkloadInfo) -> None:
        """The workload is gone, or names another LocalQueue."""
        self._members.get(Key(info.key.namespace, info.queue), {}).pop(info.key, None)
        self.leave(info)

    def join_all(self, local_queue: Key) -> None:
        """Queue every workload that waited only for its LocalQueue to be open."""
        for key in list(self._members.get(local_queue, ())):
            info = self._world.workloads[key]
            if not info.reserving and not info.finished and key not in self._world.reservations:
                self.join(info)

    def leave_all(self, spec: LocalQueueSpec) -> None:
        """Take out of the queue every workload that names this LocalQueue."""
        pending = self._world.pending.get(spec.cluster_queue)
        if pending is not None:
            for key in self._members.get(spec.key, ()):
                pending.delete(key)
            self._world.mark_dirty(spec.cluster_queue)

    # -- one workload ---------------------------------------------------------------------------------------------

    def recall_preemption(self, info: WorkloadInfo) -> None:
        """A workload seen for the first time may have begun to preempt before this process was started."""
        if not info.reserving and is_preempting(info.obj):
            self._preempting[info.key] = None

    def join(self, info: WorkloadInfo) -> None:
        """Queue a workload, or take it out when something about it keeps it from waiting."""
        pending = self._world.pending_of(info)
        if pending is None or not info.active or info.on_hold or info.deleting or info.uncounted:
            self.leave(info)
            return
        if self._variants_wait_instead(info):
            return
        backoff = self._world.in_backoff(info)
        pending.add(info, backoff=backoff)
        if self._preempting and not backoff and self._preempting.pop(info.key, 0) is None:
            pending.resume_preemption(info.key)
        if backoff and info.requeue_at is not None and not info.requeue_blocked:
            heappush(self._alarms, (info.requeue_at, info.key))
        self._mark_dirty(info)

    def rejoin(self, info: WorkloadInfo, old: WorkloadInfo | None) -> None:
        """Take over a new version; it keeps its place when nothing changed that could matter to its turn."""
        pending = self._world.pending_of(info) if old is not None else None
        item = pending.items.get(info.key) if pending is not None else None
        if (
            pending is not None
            and item is not None
            and old is not None
            and _what_decides_its_turn(old) == _what_decides_its_turn(info)
        ):
            pending.replace(item, info)
        else:
            self.join(info)

    def leave(self, info: WorkloadInfo) -> None:
        spec = self._world.local_queue_of(info)
        pending = self._world.pending.get(spec.cluster_queue) if spec is not None else None
        if spec is not None and pending is not None and pending.delete(info.key) is not None:
            self._world.mark_dirty(spec.cluster_queue)

    def _variants_wait_instead(self, info: WorkloadInfo) -> bool:
        """Does its queue take variants of a workload instead of the workload?"""
        if not self._world.settings.features.concurrent_admission or info.variant_of:
            return False
        spec = self._world.local_queue_of(info)
        return spec is not None and bool(self._world.queues[spec.cluster_queue].spec.concurrent_admission)

    def _mark_dirty(self, info: WorkloadInfo) -> None:
        spec = self._world.local_queue_of(info)
        if spec is not None:
            self._world.mark_dirty(spec.cluster_queue)

    # -- alarms ---------------------------------------------------------------------------------------------------

    @property
    def next_alarm(self) -> float | None:
        """When the next back-off ends."""
        first = self._alarms[0][0] if self._alarms else None
        return min((at for at in (first, *self._world.set_aside.values()) if at is not None), default=None)

    def ring(self, now: float) -> None:
        """End back-offs whose time has come."""
        while self._alarms and self._alarms[0][0] <= now:
            _, key = heappop(self._alarms)
            info = self._world.workloads.get(key)
            if info is not None and not self._world.in_backoff(info):
                self._wake(info)
        self._look_again(now)

    def _look_again(self, now: float) -> None:
        """Let those go on whose shape has been set aside for long enough."""
        over = [shape for shape, until in self._world.set_aside.items() if until <= now]
        for shape in over:
            del self._world.set_aside[shape]
        if over:
            for info in [info for info in self._world.workloads.values() if info.shape in over]:
                if not self._world.in_backoff(info):
                    self._wake(info)

    def _wake(self, info: WorkloadInfo) -> None:
        pending = self._world.pending_of(info)
        if pending is not None and pending.wake(info.key):
            self._mark_dirty(info)
