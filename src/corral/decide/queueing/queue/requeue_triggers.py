"""Which ClusterQueues can admit now, and which parked workloads are tried again because something changed.

Wherever quota or nodes may have come free, the tree is marked. At the next plan trees are brought up to date and all
that is parked in marked ones is tried again; or later, when news is to be collected for a while. Who is not parked is
tried at once in either case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from corral.decide.queueing.queue.activity import refresh_activity
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.topology.assigning import recorded_usage
from corral.decide.queueing.world import World


class RequeueTriggers:
    """Marks trees in which quota or nodes may have come free, and brings them up to date before a plan."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marked: dict[str, None] = {}
        """ClusterQueues in whose trees something has happened."""
        self._due: dict[str, float] = {}
        """When the parked ones of their trees are tried again."""
        self._shown: dict[str, tuple[object, ...]] = {}
        """What the status of queues below Cohorts said when it was looked at last."""

    def is_due(self, now: float) -> bool:
        """Is there anything to do?"""
        return bool(self._marked) or any(at <= now for at in self._due.values()) or any(True for _ in self._changed())

    @property
    def next_at(self) -> float | None:
        """When parked workloads are tried again next, if no more news comes."""
        return min(self._due.values(), default=None)

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
        self._due.pop(queue.name, None)
        self._shown.pop(queue.name, None)

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

    def settle(self, now: float) -> None:
        """Bring trees up to date and give parked workloads of marked trees another chance."""
        self.settle_structure()
        world = self._world
        if self._marked and world.unplaced:
            world.second_pass.update(world.unplaced)
            world.unplaced.clear()
        for queue in self._trees_of(self._marked):
            queue.generation += 1
            world.mark_dirty(queue.name)
        changed = dict(self._changed())
        self._shown.update(changed)
        for name in (*self._marked, *changed):
            self._due.setdefault(name, now + world.settings.requeue_batch_s)
        self._marked.clear()
        if self._due:
            self._flush_due(now)

    def _changed(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Queues whose status says something new, where upstream's pace is kept: it reconciles the Cohorts above them then,
        save the root, and with a Cohort all that waits in its tree.
        """
        world = self._world
        if not world.settings.requeue_batch_s:
            return
        for queue in world.queues.values():
            above = list(queue.node.path())[:-1]
            if not any(cohort.name in world.cohorts for cohort in above):
                continue
            tally = world.tallies.get(queue.name)
            held = () if tally is None else (tally.reserving, tally.admitted, dict(tally.reserved), dict(tally.used))
            shown = (len(world.pending[queue.name]), held)
            if self._shown.get(queue.name) != shown:
                yield queue.name, shown

    def _flush_due(self, now: float) -> None:
        for queue in list(self._trees_of([name for name, at in self._due.items() if at <= now])):
            self._due.pop(queue.name, None)
            self._flush(queue)
        for name in [name for name in self._due if name not in self._world.queues]:
            del self._due[name]

    def _trees_of(self, names: Iterable[str]) -> Iterator[ClusterQueue]:
        """All ClusterQueues of the trees in which one of these is, each once."""
        done: set[str] = set()
        for name in names:
            queue = self._world.queues.get(name)
            if queue is None or name in done:
                continue
            for member in self._world.tree_of(queue):
                done.add(member.name)
                yield member

    def _flush(self, queue: ClusterQueue) -> None:
        world = self._world
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
