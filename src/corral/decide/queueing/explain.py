"""Why a workload is where it is, put together from what the cycle already knows."""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing.cycle.messages import NAMESPACE_MISMATCH
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.values import FlavorResource, WorkloadInfo
from corral.decide.queueing.queue.pending import PendingQueue
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.views import Explanation, Shortage
from corral.decide.queueing.world import World

_MAX_BLOCKERS = 10


def explain(world: World, info: WorkloadInfo) -> Explanation:
    """The story of one workload."""
    if info.finished:
        return Explanation(info.key, "finished", info.cluster_queue, None, "Finished", "The workload is finished")
    if info.reserving or info.key in world.reservations:
        return _holding(world, info)
    spec = world.local_queue_of(info)
    name = spec.cluster_queue if spec is not None else ""
    refused = inadmissible(world, info)
    if refused is not None:
        return Explanation(info.key, "inadmissible", name, None, *refused)
    if not info.active:
        return Explanation(info.key, "inadmissible", name, None, "Deactivated", "The workload is deactivated")
    if info.on_hold:
        return Explanation(info.key, "inadmissible", name, None, info.on_hold, "The workload is held back by a gate")
    return _waiting(world, info, world.queues[name], world.pending[name])


def inadmissible(world: World, info: WorkloadInfo) -> tuple[str, str] | None:
    """Reason and message for a workload that is in no queue; None when it is queued or has quota."""
    found = None if info.reserving or info.finished else _obstacle(world, info)
    if found is None or world.settings.features.granular_reasons:
        return found
    return "Inadmissible", found[1]


def _obstacle(world: World, info: WorkloadInfo) -> tuple[str, str] | None:
    """Granular reason and message of what is between a workload and a queue that can admit it."""
    if info.uncounted:
        return "Misconfigured", info.uncounted
    spec = world.local_queue_of(info)
    if spec is None:
        return "Misconfigured", f"LocalQueue {info.queue} doesn't exist"
    if not spec.is_open:
        return "Suspended", f"LocalQueue {info.queue} is inactive"
    queue = world.queues.get(spec.cluster_queue)
    if queue is None:
        return "Misconfigured", f"ClusterQueue {spec.cluster_queue} doesn't exist"
    if queue.inactive is not None:
        return "Suspended", f"ClusterQueue {queue.name} is inactive"
    return None


def refusal(world: World, info: WorkloadInfo) -> str:
    """Why a waiting workload would be refused whatever the quota; empty when it would be tried."""
    spec = world.local_queue_of(info)
    queue = world.queues.get(spec.cluster_queue) if spec is not None else None
    if queue is None:
        return ""
    return info.invalid if world.namespace_matches(queue, info.key.namespace) else NAMESPACE_MISMATCH


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
