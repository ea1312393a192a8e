"""Why a workload is where it is, put together from what the cycle already knows."""

from __future__ import annotations

from heapq import nsmallest

from corral.core.meta import Key
from corral.decide.queueing.cycle.messages import NAMESPACE_MISMATCH
from corral.decide.queueing.explanation import NAMESPACE_NOT_SELECTED, Explanation, Holder, Shortage
from corral.decide.queueing.model.amounts import add_into, format_amount
from corral.decide.queueing.model.values import Amounts, FlavorResource, WorkloadInfo
from corral.decide.queueing.queue.pending import PendingQueue
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.world import World
from corral.workload.waiting_reasons import INADMISSIBLE, Problem, queue_problem

_MAX_BLOCKERS = 10
_MAX_HOLDERS = 5


class Explainer:
    """Answers for the workloads of a world as it is now; what many answers share is worked out once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: dict[str, list[Key]] = {}
        self._places: dict[str, dict[Key, int]] = {}
        self._holders: dict[tuple[str, FlavorResource], tuple[Holder, ...]] = {}

    def explain(self, info: WorkloadInfo) -> Explanation:
        """The story of one workload."""
        world = self._world
        if info.finished:
            return Explanation(info.key, "finished", info.cluster_queue, None, "Finished", "The workload is finished")
        if info.reserving or info.key in world.reservations:
            return _holding(world, info)
        spec = world.local_queue_of(info)
        name = spec.cluster_queue if spec is not None else ""
        problem = _problem(world, info)
        if problem is not None:
            reason = problem.reason if world.settings.features.granular_reasons else INADMISSIBLE
            return _kept_out(info, name, reason, problem.message, str(problem.obstacle))
        if not info.active:
            return _kept_out(info, name, "Deactivated", "The workload is deactivated", "Deactivated")
        if info.on_hold:
            return _kept_out(info, name, info.on_hold, "The workload is held back by a gate", info.on_hold)
        return self._waiting(info, world.queues[name], world.pending[name])

    def _waiting(self, info: WorkloadInfo, queue: ClusterQueue, pending: PendingQueue) -> Explanation:
        line, place = self._line(queue.name, pending), self._places[queue.name].get(info.key)
        reason, message, detail = _verdict(self._world, info, queue, pending)
        return Explanation(
            key=info.key,
            state="pending",
            cluster_queue=queue.name,
            position=place,
            reason=reason,
            message=message,
            blocked_by=self._blockers(info, queue, pending, line[:place]),
            shortages=self._shortages(info, queue),
            detail=detail,
            ahead=tuple(line[max(0, place - _MAX_BLOCKERS) : place]) if place else (),
            unavailable=_unavailable(info, queue),
        )

    def _line(self, name: str, pending: PendingQueue) -> list[Key]:
        """Who waits in a queue, in order."""
        if name not in self._lines:
            self._lines[name] = [item.info.key for item in pending.ordered()]
            self._places[name] = {key: place for place, key in enumerate(self._lines[name])}
        return self._lines[name]

    def _blockers(
        self, info: WorkloadInfo, queue: ClusterQueue, pending: PendingQueue, ahead: list[Key]
    ) -> tuple[Key, ...]:
        if queue.spec.strict_fifo and ahead:
            return tuple(ahead[:_MAX_BLOCKERS])
        if pending.sticky != info.key or pending.is_parked(info.key):
            return ()
        victims = sorted(key for key in self._world.expected_evictions if key in self._world.reservations)
        return tuple(victims[:_MAX_BLOCKERS])

    def _shortages(self, info: WorkloadInfo, queue: ClusterQueue) -> tuple[Shortage, ...]:
        """Columns with less free than the workload asks for, over all flavors of the queue."""
        wanted = _wanted(info)
        return tuple(
            self._shortage(queue, column, amount, free)
            for column in queue.spec.quotas
            if (amount := wanted.get(column.resource, 0)) > (free := queue.node.available(column))
        )

    def _shortage(self, queue: ClusterQueue, column: FlavorResource, amount: int, free: int) -> Shortage:
        resource = column.resource
        if (queue.name, column) not in self._holders:
            self._holders[queue.name, column] = _holders(self._world, queue, column)
        return Shortage(
            flavor=column.flavor,
            resource=resource,
            requested=format_amount(resource, amount),
            available=format_amount(resource, max(0, free)),
            maximum=format_amount(resource, queue.node.potential(column)),
            held_by=self._holders[queue.name, column],
        )


def _kept_out(info: WorkloadInfo, queue: str, reason: str, message: str, detail: str) -> Explanation:
    return Explanation(info.key, "inadmissible", queue, None, reason, message, detail=detail)


def _problem(world: World, info: WorkloadInfo) -> Problem | None:
    """What is between a workload and a queue that can admit it."""
    spec = world.local_queue_of(info)
    name = spec.cluster_queue if spec is not None else ""
    queue = world.queues.get(name)
    return queue_problem(
        info.queue,
        spec.is_open if spec is not None else None,
        name,
        queue.inactive is None if queue is not None else None,
        uncounted=info.uncounted,
    )


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


def _verdict(world: World, info: WorkloadInfo, queue: ClusterQueue, pending: PendingQueue) -> tuple[str, str, str]:
    """Reason, message and detail of why it has not been admitted."""
    item, verdict = pending.items.get(info.key), pending.verdict_of(info.key)
    if item is not None and item.aside == "backoff":
        return "Backoff", "The workload waits for its back-off to end", "Backoff"
    if verdict is None:
        return "Pending", "The workload has not been considered yet", ""
    matches = world.namespace_matches(queue, info.key.namespace)
    return verdict.reason, verdict.message, verdict.detail if matches else NAMESPACE_NOT_SELECTED


def _wanted(info: WorkloadInfo) -> Amounts:
    wanted: Amounts = {}
    for pod_set in info.pod_sets:
        add_into(wanted, pod_set.requests)
    return wanted


def _unavailable(info: WorkloadInfo, queue: ClusterQueue) -> tuple[str, ...]:
    known = {column.resource for column in queue.spec.quotas}
    return tuple(sorted(resource for resource, amount in _wanted(info).items() if amount and resource not in known))


def _holders(world: World, queue: ClusterQueue, column: FlavorResource) -> tuple[Holder, ...]:
    """Who has quota of a column where the queue could take it from, the largest first."""
    sharing = [world.by_node[node] for node in queue.node.root().subtree_queues()]
    held = (
        (reservation.usage.get(column, 0), key) for each in sharing for key, reservation in each.reservations.items()
    )
    largest = nsmallest(_MAX_HOLDERS, ((-amount, key) for amount, key in held if amount > 0))
    return tuple(Holder(key, format_amount(column.resource, -amount)) for amount, key in largest)
