"""Classical preemption: the smallest set of evictions, found greedily, that lets a workload in.

Candidates are removed one after the other until the workload fits; then, in reverse, those it fits without are
put back. Removal is simulated on the live usage of the quota tree and the nodes, not on a copy: every `simulate_removal`
is answered by one `undo_removal` before a function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from corral.decide.queueing.cycle.assignment import Fit
from corral.decide.queueing.cycle.preemption.candidates import (
    Preemptor,
    Target,
    find_candidates,
    is_still_valid,
    worthwhile_scope,
)
from corral.decide.queueing.model.values import FlavorResource, Usage
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.tree import QuotaNode, lowest_fitting_subtree

Placement = Callable[[], bool]
"""Is there room on nodes, given the usage as it stands?"""


def simulate_removal(reservation: Reservation, *, nodes: bool = True) -> None:
    """Pretend a workload is gone; its places on `nodes` need not be given back where nobody asks for places."""
    reservation.queue.node.remove(reservation.usage)
    if nodes:
        reservation.queue.topology.give_back(reservation.topology_usage)


def undo_removal(reservation: Reservation, *, nodes: bool = True) -> None:
    """Undo `simulate_removal`."""
    reservation.queue.node.add(reservation.usage)
    if nodes:
        reservation.queue.topology.take(reservation.topology_usage)


def classical_targets(
    preemptor: Preemptor, queues: dict[QuotaNode, ClusterQueue], placement: Placement | None = None
) -> list[Target]:
    """The workloads to evict for the preemptor; empty when no set of candidates is enough."""
    scope = worthwhile_scope(preemptor)
    if not scope.own and not scope.others:
        return []
    candidates, nodes = find_candidates(preemptor, queues, scope), placement is not None
    for allow_borrowing in _attempts(preemptor, candidates.from_others, candidates.hierarchical):
        targets: list[Target] = []
        missing = _missing(preemptor)
        for candidate in candidates:
            # Asked for each candidate in turn, not once before: the removals so far may have brought its queue back
            # within its quota, and then it may not lose more.
            if not is_still_valid(candidate, preemptor.columns, allow_borrowing):
                continue
            simulate_removal(candidate.reservation, nodes=nodes)
            targets.append(Target(candidate.reservation, candidate.variant.reason))
            if _frees_enough(missing, candidate.reservation) and fits(preemptor, allow_borrowing, placement):
                targets = fill_back(preemptor, targets, allow_borrowing, placement)
                restore(targets, nodes=nodes)
                return targets
        restore(targets, nodes=nodes)
    return []


def _missing(preemptor: Preemptor) -> Usage:
    """Per column, how much more has to come free at the very least."""
    node = preemptor.queue.node
    return {
        column: amount - free
        for column, amount in preemptor.requests.items()
        if amount > (free := node.available(column))
    }


def _frees_enough(missing: Usage, victim: Reservation) -> bool:
    """Subtract a victim from what is missing; nothing can fit before all of it is covered.

    A victim frees at most its usage, and less where a lending limit hides part of it. So this is a necessary condition,
    cheap to keep, and only `fits` decides.
    """
    for column in list(missing):
        missing[column] -= victim.usage.get(column, 0)
        if missing[column] <= 0:
            del missing[column]
    return not missing


def _attempts(preemptor: Preemptor, from_others: bool, hierarchical: bool) -> Sequence[bool]:
    """With or without borrowing, in which order.

    Without borrowing more candidates are allowed; with borrowing more quota is. Which is tried first only matters
    for compatibility.
    """
    forbidden = preemptor.queue.spec.preemption.borrow_within_cohort == "Never"
    if not from_others or (forbidden and not _is_under_nominal(preemptor)):
        return (True,)
    return (False, True) if forbidden and not hierarchical else (True, False)


def _is_under_nominal(preemptor: Preemptor) -> bool:
    node = preemptor.queue.node
    return all(node.quota(column).nominal > node.usage.get(column, 0) for column in preemptor.columns)


def fits(preemptor: Preemptor, allow_borrowing: bool, placement: Placement | None) -> bool:
    node = preemptor.queue.node
    for column, amount in preemptor.requests.items():
        if not allow_borrowing and node.parent is not None and node.is_borrowing(column, amount):
            return False
        if amount > node.available(column):
            return False
    return placement is None or placement()


def fill_back(
    preemptor: Preemptor, targets: list[Target], allow_borrowing: bool, placement: Placement | None
) -> list[Target]:
    """Put back, last first, every victim but the last that turns out not to be needed.

    The last one is needed: without it the workload did not fit although all the others were gone. The others are tried
    backwards because candidates come with those that should leave first at the front. A victim that is put back is
    replaced by the last of the list, so the order of the targets is not kept.
    """
    nodes = placement is not None
    for index in range(len(targets) - 2, -1, -1):
        undo_removal(targets[index].reservation, nodes=nodes)
        if fits(preemptor, allow_borrowing, placement):
            targets[index] = targets[-1]
            targets.pop()
        else:
            simulate_removal(targets[index].reservation, nodes=nodes)
    return targets


def restore(targets: Iterable[Target], *, nodes: bool) -> None:
    for target in targets:
        undo_removal(target.reservation, nodes=nodes)


def possibility(targets: Sequence[Target], queue: ClusterQueue, column: FlavorResource, amount: int) -> tuple[Fit, int]:
    """What evicting `targets` means for a request on one column: its kind, and how high it then borrows."""
    # Only quota is looked at here; nodes are left as they are.
    for target in targets:
        target.reservation.queue.node.remove(target.reservation.usage)
    height, _ = lowest_fitting_subtree(queue.node, column, amount)
    for target in targets:
        target.reservation.queue.node.add(target.reservation.usage)
    if not targets:
        return Fit.NO_CANDIDATES, height
    own = any(target.reservation.queue is queue for target in targets)
    return (Fit.PREEMPT if own else Fit.RECLAIM), height
