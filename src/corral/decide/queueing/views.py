"""What status objects and dashboards show of the queueing state."""

from __future__ import annotations

import msgspec

from corral.core.meta import Key, Obj
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.values import LocalQueueSpec, Usage
from corral.decide.queueing.queue.activity import READY
from corral.decide.queueing.queue.pending import PendingQueue
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.quota.fair_shares import share_of
from corral.decide.queueing.quota.totals import flavor_usage
from corral.decide.queueing.quota.tree import QuotaNode
from corral.decide.queueing.world import World


class ClusterQueueView(msgspec.Struct, frozen=True):
    """Numbers of a ClusterQueue's status."""

    pending: int
    active_pending: int
    """Those that will be tried without further events."""
    reserving: int
    admitted: int
    flavors_reservation: list[Obj]
    flavors_usage: list[Obj]
    weighted_share: int
    """0 unless fair sharing is on; 2^63-1 for a borrowing queue of weight zero."""
    reason: str
    message: str
    root_cohort: str = ""
    """The top of the tree it is in."""
    pending_requests: tuple[tuple[str, str], ...] = ()
    """What those that wait ask for together, by resource."""

    @property
    def active(self) -> bool:
        return self.reason == "Ready"


class LocalQueueView(msgspec.Struct, frozen=True):
    """Numbers of a LocalQueue's status."""

    pending: int
    reserving: int
    admitted: int
    flavors_reservation: list[Obj]
    flavors_usage: list[Obj]
    active: bool
    reason: str
    message: str
    usage_share: float = 0.0
    """Usage under admission fair sharing."""


class CohortView(msgspec.Struct, frozen=True):
    weighted_share: int
    subtree_quota: list[Obj]
    subtree_usage: list[Obj]
    broken: bool
    """Part of a cycle."""
    parent: str = ""
    root: str = ""
    """The top of the tree, itself when nothing is above it."""
    subtree_reserved: tuple[tuple[str, str, str], ...] = ()
    """Flavor, resource and how much of it the queues below hold."""
    subtree_admitted: int = 0
    """Admitted workloads of the queues below."""


class PendingView(msgspec.Struct, frozen=True):
    """A waiting workload and its place."""

    key: Key
    uid: str
    local_queue: str
    priority: int
    created: float
    position_in_cluster_queue: int
    position_in_local_queue: int


def pending_views(pending: PendingQueue) -> list[PendingView]:
    """Everybody who waits, in order."""
    views: list[PendingView] = []
    ahead: dict[str, int] = {}
    for position, item in enumerate(pending.ordered()):
        info = item.info
        place = ahead.get(info.queue_key, 0)
        ahead[info.queue_key] = place + 1
        views.append(PendingView(info.key, info.uid, info.queue, info.priority, info.created, position, place))
    return views


def cluster_queue_view(world: World, queue: ClusterQueue) -> ClusterQueueView:
    tally, waiting = world.tally(queue.name), world.pending[queue.name]
    nominal = {column: quota.nominal for column, quota in queue.spec.quotas.items()}
    reason, message = queue.inactive or READY
    return ClusterQueueView(
        pending=len(waiting),
        active_pending=waiting.active,
        reserving=tally.reserving,
        admitted=tally.admitted,
        flavors_reservation=flavor_usage(nominal, tally.reserved, nominal),
        flavors_usage=flavor_usage(nominal, tally.used, nominal),
        weighted_share=_weighted_share(world, queue.node),
        reason=reason,
        message=message,
        root_cohort=queue.node.root().name if queue.node.parent is not None else "",
        pending_requests=_requests(waiting, queue),
    )


def _requests(waiting: PendingQueue, queue: ClusterQueue) -> tuple[tuple[str, str], ...]:
    """Sums of what waits; resources the queue has quota for are there even when nobody asks for them."""
    names = {column.resource for column in queue.spec.quotas}
    names.update(name for name, amount in waiting.requests.items() if amount)
    return tuple((name, format_amount(name, waiting.requests.get(name, 0))) for name in sorted(names))


def local_queue_view(world: World, spec: LocalQueueSpec) -> LocalQueueView:
    name = str(spec.key)
    tally = world.tally(name)
    queue, waiting = world.queues.get(spec.cluster_queue), world.pending.get(spec.cluster_queue)
    columns = queue.spec.quotas if queue is not None else {}
    active, reason, message = _local_queue_activity(spec, queue)
    return LocalQueueView(
        pending=waiting.by_local_queue.get(name, 0) if waiting is not None else 0,
        reserving=tally.reserving,
        admitted=tally.admitted,
        flavors_reservation=flavor_usage(columns, tally.reserved),
        flavors_usage=flavor_usage(columns, tally.used),
        active=active,
        reason=reason,
        message=message,
        usage_share=world.ledger.usage(name),
    )


def _local_queue_activity(spec: LocalQueueSpec, queue: ClusterQueue | None) -> tuple[bool, str, str]:
    if not spec.is_open:
        return False, "Stopped", "LocalQueue is stopped"
    if queue is None:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if queue.inactive is not None:
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"


def cohort_view(world: World, node: QuotaNode) -> CohortView:
    tallies = [world.tally(queue.name) for queue in node.subtree_queues()]
    reserved: Usage = {}
    for tally in tallies:
        for column, amount in tally.reserved.items():
            reserved[column] = reserved.get(column, 0) + amount
    return CohortView(
        weighted_share=_weighted_share(world, node),
        subtree_quota=flavor_usage(node.subtree, node.subtree),
        subtree_usage=flavor_usage(node.subtree, node.usage),
        broken=world.forest.is_broken(node),
        parent=node.parent.name if node.parent is not None else "",
        root=node.root().name,
        subtree_reserved=tuple(
            (column.flavor, column.resource, format_amount(column.resource, reserved.get(column, 0)))
            for column in node.subtree
        ),
        subtree_admitted=sum(tally.admitted for tally in tallies),
    )


def _weighted_share(world: World, node: QuotaNode) -> int:
    return share_of(node).rounded if world.settings.fair_sharing else 0
