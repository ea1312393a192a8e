"""What a new version of a Workload changes: it waits, holds quota, is being admitted, or is done.

Also what it means when a planned write did not happen.
"""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing.model.values import WorkloadInfo
from corral.decide.queueing.queue.waiting import WaitingWorkloads
from corral.decide.queueing.quota.cluster_queue import as_reserving
from corral.decide.queueing.quota.reservations import Reservations
from corral.decide.queueing.world import World


class WorkloadUpdates:
    """Takes Workloads over into a world."""

    def __init__(self, world: World, waiting: WaitingWorkloads, reservations: Reservations) -> None:
        self._world = world
        self._waiting = waiting
        self._reservations = reservations

    def accept(self, info: WorkloadInfo, old: WorkloadInfo | None) -> None:
        """Take over a version of a workload; `old` is the one before."""
        world, key = self._world, info.key
        self._enroll(info, old)
        world.workloads[key] = info
        if info.evicted or not info.reserving:
            world.expected_evictions.pop(key, None)
        if info.finished:
            self._waiting.leave(info)
            self._reservations.release(key)
            self._forget(info)
        elif info.reserving:
            self._waiting.leave(info)
            if info.active or world.settings.waits_for_victims:
                self._reservations.book(info, old)
            else:
                self._reservations.release(key)
        elif key in world.reservations and world.reservations[key].assumed:
            # The admission was planned and is being written; what we see is the workload before that.
            world.reservations[key].info = as_reserving(info)
        else:
            self._await_quota(info, old)

    def delete(self, info: WorkloadInfo) -> None:
        """The workload is gone."""
        del self._world.workloads[info.key]
        self._waiting.expel(info)
        self._reservations.forget(info)
        self._forget(info)

    def _enroll(self, info: WorkloadInfo, old: WorkloadInfo | None) -> None:
        if old is None:
            self._waiting.enroll(info)
            self._waiting.recall_preemption(info)
        elif old.queue != info.queue:
            self._waiting.expel(old)
            self._world.ledger.forgive(old.queue_key, info.key)
            self._waiting.enroll(info)

    def _await_quota(self, info: WorkloadInfo, old: WorkloadInfo | None) -> None:
        self._reservations.release(info.key)
        self._reservations.stop_watching_pods(info.key)
        self._world.forget_places(info.key)
        if not info.active:
            self._world.ledger.forgive(info.queue_key, info.key)
        self._waiting.rejoin(info, old)

    def _forget(self, info: WorkloadInfo) -> None:
        world = self._world
        world.ledger.forgive(info.queue_key, info.key)
        world.forget_places(info.key)
        world.expected_evictions.pop(info.key, None)
        world.gave_way.pop(info.key, None)
        self._reservations.stop_watching_pods(info.key)

    # -- writes that did not happen -------------------------------------------------------------------------------

    def withdraw(self, key: Key) -> bool:
        """Give back the quota of a planned admission that was not written; False when there was none."""
        reservation = self._world.reservations.get(key)
        if reservation is None or not reservation.assumed:
            return False
        self._reservations.release(key)
        self._reservations.stop_watching_pods(key)
        if not reservation.info.reserving:
            self._world.ledger.forgive(reservation.info.queue_key, key)
        return True

    def resume(self, key: Key) -> None:
        """Let a workload whose admission was withdrawn go on as the object says."""
        info = self._world.workloads.get(key)
        if info is None:
            return
        if info.reserving:
            self._reservations.book(info)
        else:
            self._waiting.join(info)

    def spare(self, key: Key) -> None:
        """A planned victim was not evicted; a later cycle may plan it again."""
        world = self._world
        world.spare(key)
        unplaced = world.unplaced.pop(key, None)
        if unplaced is not None:
            world.second_pass[key] = unplaced
        reservation = world.reservations.get(key)
        if reservation is not None:
            world.mark_dirty(reservation.queue.name)
