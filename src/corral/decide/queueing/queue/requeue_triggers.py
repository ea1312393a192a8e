"""Which ClusterQueues can admit now, and which parked workloads are tried again because something changed.

Wherever quota or nodes may have come free, the tree is marked. At the next plan trees are brought up to date and all
that is parked in marked ones is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator

from corral.decide.queueing.queue.activity import refresh_activity
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.topology.assigning import recorded_usage
from corral.decide.queueing.world import World


class RequeueTriggers:
    """Marks trees in which quota or nodes may have come free, and brings them up to date before a plan."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marked: dict[str, None] = {}
        """ClusterQueues whose trees are tried again."""

    @property
    def is_due(self) -> bool:
        return bool(self._marked)

    # -- another chance -------------------------------------------------------------------------------------------

    def retry(self, queue: ClusterQueue) -> None:
        """Try again what waits in the queue's tree."""
        self._marked[queue.name] = None

    def retry_cohort(self, name: str) -> None:
        node = self._world.forest.cohorts.get(name)
        if node is not None:
            for leaf in node.root().subtree_queues():
                self._marked[leaf.name] = None

    def retry_users_of(self, flavor: str) -> None:
        for queue in self._users_of(flavor):
            self.retry(queue)

    def drop(self, queue: ClusterQueue) -> None:
        """The queue is gone."""
        self._marked.pop(queue.name, None)

    def _users_of(self, flavor: str) -> Iterator[ClusterQueue]:
        return (queue for queue in self._world.queues.values() if flavor in queue.spec.flavors)

    # -- what changed ---------------------------------------------------------------------------------------------

    def flavor_changed(self, flavor: str) -> None:
        self.settle_topology()
        for queue in self._users_of(flavor):
            self.refresh(queue)
            self.retry(queue)

    def check_changed(self, check: str) -> None:
        for queue in self._world.queues.values():
            if any(rule.name == check for rule in queue.spec.checks):
                self.refresh(queue)
                self.retry(queue)

    def nodes_changed(self) -> None:
        """Nodes or topologies changed, which matters to queues with topology flavors."""
        flavors = self._world.flavors
        for queue in self._world.queues.values():
            if any(name in flavors and flavors[name].topology for name in queue.spec.flavors):
                self.retry(queue)

    def refresh_all(self) -> None:
        for queue in self._world.queues.values():
            self.refresh(queue)

    def refresh(self, queue: ClusterQueue) -> None:
        """Find out again whether the queue can admit."""
        was = queue.inactive
        refresh_activity(self._world, queue)
        if was is not None and queue.inactive is None:
            self.retry(queue)
            for item in self._world.pending[queue.name].items.values():
                item.verdict = None  # meanwhile it was told something else

    # -- before a plan or an answer -------------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring trees up to date and give parked workloads of marked trees another chance."""
        self.settle_structure()
        world = self._world
        if self._marked and world.unplaced:
            world.second_pass.update(world.unplaced)
            world.unplaced.clear()
        done: set[str] = set()
        for name in self._marked:
            queue = world.queues.get(name)
            if queue is None or name in done:
                continue
            for member in world.tree_of(queue):
                done.add(member.name)
                self._flush(member)
        self._marked.clear()

    def _flush(self, queue: ClusterQueue) -> None:
        world = self._world
        queue.generation += 1
        world.pending[queue.name].flush(lambda info: world.namespace_matches(queue, info.key.namespace))
        world.mark_dirty(queue.name)

    def settle_structure(self) -> None:
        """Bring quota trees and capacities up to date."""
        self._world.forest.settle()
        self.settle_topology()

    def settle_topology(self) -> None:
        """Bring the capacities of flavors on nodes up to date."""
        if self._world.topology.settle():
            self.refresh_all()
        if self._world.topology.remapped:
            self._recount_topology()

    def _recount_topology(self) -> None:
        """Count what assignments take of nodes anew, now that flavors have other trees."""
        topology = self._world.topology
        topology.forget_usage()
        for reservation in self._world.reservations.values():
            if not reservation.assumed:
                reservation.topology_usage = recorded_usage(reservation.info, topology.capacities)
            topology.take(reservation.topology_usage)
