"""Why a workload is where it is, put together from what the cycle already knows."""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing.amounts import format_amount
from corral.decide.queueing.clusterqueue import ClusterQueue
from corral.decide.queueing.model import FlavorResource, WorkloadInfo
from corral.decide.queueing.pending import PendingQueue
from corral.decide.queueing.views import Explanation, Shortage
from corral.decide.queueing.world import World

_MAX_BLOCKERS = 10


def explain(world: World, info: WorkloadInfo, refused: tuple[str, str] | None) -> Explanation:
    """The story of one workload; `refused` says why it is in no queue."""
    if info.finished:
        return Explanation(info.key, "finished", info.cluster_queue, None, "Finished", "The workload is finished")
    if info.reserving or info.key in world.reservations:
        return _holding(world, info)
    spec = world.local_queues.get(Key(info.key.namespace, info.queue))
    name = spec.cluster_queue if spec is not None else ""
    if refused is not None:
        return Explanation(info.key, "inadmissible", name, None, *refused)
    if not info.active:
        return Explanation(info.key, "inadmissible", name, None, "Deactivated", "The workload is deactivated")
    if info.on_hold:
        return Explanation(info.key, "inadmissible", name, None, info.on_hold, "The workload is held back by a gate")
    return _waiting(world, info, world.queues[name], world.pending[name])


def _holding(world: World, info: WorkloadInfo) -> Explanation:
    reservation = world.reservations.get(info.key)
    name = reservation.queue.name if reservation is not None else info.cluster_queue
    if info.admitted:
        return Explanation(info.key, "admitted", name, None, "Admitted", "The workload is admitted")
    waiting = sorted(check for check, state in info.check_states.items() if state != "Ready")
    message = f"Quota reserved in ClusterQueue {name}"
    if waiting:
        message += f", waiting for admission checks: {', '.join(waiting)}"
    return Explanation(info.key, "quotaReserved", name, None, "QuotaReserved", message)


def _waiting(world: World, info: WorkloadInfo, queue: ClusterQueue, pending: PendingQueue) -> Explanation:
    order = [item.info.key for item in pending.ordered()]
    position = order.index(info.key) if info.key in order else None
    verdict = pending.verdict_of(info.key)
    item = pending.items.get(info.key)
    if item is not None and item.aside == "backoff":
        reason, message = "Backoff", "The workload waits for its back-off to end"
    elif verdict is not None:
        reason, message = verdict.reason, verdict.message
    else:
        reason, message = "Pending", "The workload has not been considered yet"
    ahead: tuple[Key, ...] = ()
    if queue.spec.strict_fifo and position:
        ahead = tuple(order[: min(position, _MAX_BLOCKERS)])
    elif pending.sticky == info.key:
        victims = sorted(key for key in world.expected_evictions if key in world.reservations)
        ahead = tuple(victims[:_MAX_BLOCKERS])
    return Explanation(info.key, "pending", queue.name, position, reason, message, ahead, _shortages(info, queue))


def _shortages(info: WorkloadInfo, queue: ClusterQueue) -> tuple[Shortage, ...]:
    """Columns with less free than the workload asks for, over all flavors of the queue."""
    wanted: dict[str, int] = {}
    for pod_set in info.pod_sets:
        for resource, amount in pod_set.requests.items():
            wanted[resource] = wanted.get(resource, 0) + amount
    found: list[Shortage] = []
    for column in queue.spec.quotas:
        amount = wanted.get(column.resource, 0)
        free = queue.node.available(column)
        if amount > free:
            found.append(_shortage(queue, column, amount, free))
    return tuple(found)


def _shortage(queue: ClusterQueue, column: FlavorResource, amount: int, free: int) -> Shortage:
    resource = column.resource
    return Shortage(
        flavor=column.flavor,
        resource=resource,
        requested=format_amount(resource, amount),
        available=format_amount(resource, max(0, free)),
        maximum=format_amount(resource, queue.node.potential(column)),
    )
