"""Who holds quota: reservations as Workloads state them, and who has to hear of it when one comes or goes."""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.model.values import Usage, WorkloadInfo
from corral.decide.queueing.model.workload import priority_changed
from corral.decide.queueing.queue.pending import Pending
from corral.decide.queueing.queue.requeue_triggers import RequeueTriggers
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.topology.assigning import recorded_usage
from corral.decide.queueing.world import World


class Reservations:
    """Books and releases the reservations of a world."""

    def __init__(self, world: World, requeue_triggers: RequeueTriggers) -> None:
        self._world = world
        self._requeue_triggers = requeue_triggers
        self._homeless: dict[str, dict[Key, None]] = {}
        """Reservations in ClusterQueues that do not exist (yet)."""

    def book(self, info: WorkloadInfo, old: WorkloadInfo | None = None) -> None:
        """Count a reservation as the object states it; `old` is the version before."""
        world = self._world
        queue = world.queues.get(info.cluster_queue)
        if queue is None:
            self.release(info.key)
            self._homeless.setdefault(info.cluster_queue, {})[info.key] = None
            return
        before = world.release(info.key)
        reservation = self._stated(info, queue)
        world.reserve(reservation)
        if before is not None:
            self._compare(before, reservation)
        if old is not None and priority_changed(old, info):
            self._requeue_triggers.retry(queue)
        if info.admitted and info.active and world.ledger.has_penalty(info.queue_key, info.key):
            world.ledger.settle(info.queue_key, info.key, world.running(info.queue_key), world.now)
        self._watch_pods(info)
        self._watch_places(info)

    def release(self, key: Key) -> None:
        """Give back what a workload holds, and let others try for it."""
        reservation = self._world.release(key)
        if reservation is None:
            return
        self._requeue_triggers.retry(reservation.queue)
        if self._world.settings.tells_other_cohorts:
            for flavor in self._world.topology.sharing_nodes(reservation.topology_usage):
                self._requeue_triggers.retry_users_of(flavor)
        self._rebook_successor(reservation)

    def forget(self, info: WorkloadInfo) -> None:
        """A workload is gone for good."""
        self.release(info.key)
        self._homeless.get(info.cluster_queue, {}).pop(info.key, None)

    # -- reservations and their queues ----------------------------------------------------------------------------

    def orphan(self, queue: ClusterQueue) -> None:
        """Keep in mind who held quota of a queue that is being deleted."""
        for key in list(queue.reservations):
            self._world.release(key)
            self._homeless.setdefault(queue.name, {})[key] = None

    def adopt(self, queue: ClusterQueue) -> None:
        """Book those who held quota of a queue before it was there."""
        for key in self._homeless.pop(queue.name, ()):
            info = self._world.workloads.get(key)
            if info is not None and info.reserving and not info.finished and info.cluster_queue == queue.name:
                self.book(info)

    # -- pods -----------------------------------------------------------------------------------------------------

    def stop_watching_pods(self, key: Key) -> None:
        """Nobody waits for the pods of this workload any more; when it was the last one, everybody may go on."""
        world = self._world
        if key in world.not_ready:
            world.not_ready.discard(key)
            if not world.not_ready:
                for name in world.queues:
                    world.mark_dirty(name)

    def _watch_pods(self, info: WorkloadInfo) -> None:
        if self._world.settings.block_on_pods_ready and not info.pods_ready:
            self._world.not_ready.add(info.key)
        else:
            self.stop_watching_pods(info.key)

    def _watch_places(self, info: WorkloadInfo) -> None:
        world = self._world
        if info.needs_second_pass:
            world.second_pass[info.key] = Pending(info, 0)
        else:
            world.forget_places(info.key)

    # -- what a reservation is ------------------------------------------------------------------------------------

    def _stated(self, info: WorkloadInfo, queue: ClusterQueue) -> Reservation:
        """The reservation a Workload's status speaks of."""
        pod_sets = tuple(
            PodSetAssignment(
                entry.name,
                entry.count,
                entry.flavors,
                entry.requests,
                entry.topology_assignment,
                entry.delayed_topology,
            )
            for entry in info.pod_sets
        )
        return Reservation(
            info, queue, pod_sets, self._held(info), recorded_usage(info, self._world.topology.capacities)
        )

    def _held(self, info: WorkloadInfo) -> Usage:
        """The quota it adds: what it uses, less what the slice it takes over from still holds."""
        usage = info.usage
        replaced = self._world.reservations.get(info.replaces) if info.replaces is not None else None
        if replaced is None:
            return usage
        return {column: amount - replaced.usage.get(column, 0) for column, amount in usage.items()}

    def _compare(self, before: Reservation, after: Reservation) -> None:
        """Let others try where a reservation moved away or shrank."""
        if before.queue is not after.queue:
            self._requeue_triggers.retry(before.queue)
        if any(after.usage.get(column, 0) < held for column, held in before.usage.items()):
            self._requeue_triggers.retry(after.queue)
        if after.info.variant_of and before.assumed:
            # A sibling may wait to take over from it.
            self._world.mark_dirty(after.queue.name)

    def _rebook_successor(self, replaced: Reservation) -> None:
        """A slice that was counted as the difference to the one it replaced holds everything once that is gone."""
        for reservation in list(replaced.queue.reservations.values()):
            if reservation.info.replaces != replaced.info.key:
                continue
            self._world.release(reservation.info.key)
            whole = dict(reservation.usage)
            for column, amount in replaced.usage.items():
                whole[column] = whole.get(column, 0) + amount
            reservation.usage = whole
            self._world.reserve(reservation)
