"""Whom a workload may evict, and in which order the candidates are considered.

Candidates come from the own ClusterQueue (by priority) and from other queues of the cohort tree that use more than
their own quota. Walking up from the preemptor, candidates found above the first subtree whose quota covers the
request are there by hierarchical advantage: the quota is nearer to the preemptor than to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from corral.decide.queueing.clusterqueue import ClusterQueue, Reservation
from corral.decide.queueing.model import FlavorResource, Usage, WorkloadInfo
from corral.decide.queueing.quota import QuotaNode, fit_in_quota

TIMESTAMP_BUFFER_S = 300.0

IN_CLUSTER_QUEUE = "InClusterQueue"
IN_COHORT_RECLAMATION = "InCohortReclamation"
IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

Columns = frozenset[FlavorResource]


class Variant(Enum):
    """On which ground a candidate may be evicted; the value is the reason users see."""

    WITHIN_QUEUE = (IN_CLUSTER_QUEUE, False)
    HIERARCHICAL = (IN_COHORT_RECLAMATION, False)
    WHILE_BORROWING = (IN_COHORT_RECLAIM_WHILE_BORROWING, False)
    WITHOUT_BORROWING = (IN_COHORT_RECLAMATION, True)

    @property
    def reason(self) -> str:
        return self.value[0]


class Candidate(NamedTuple):
    reservation: Reservation
    variant: Variant
    common_ancestor: QuotaNode | None
    """The cohort preemptor and candidate meet in; None inside one queue."""


class Target(NamedTuple):
    """A workload to evict."""

    reservation: Reservation
    reason: str


class Preemptor(NamedTuple):
    """Who asks for room, and what for."""

    info: WorkloadInfo
    queue: ClusterQueue
    columns: Columns
    """Columns that do not fit without preemption."""
    requests: Usage
    now: float
    timestamp_buffer: bool = False
    local_queue_usage: Callable[[WorkloadInfo], float] | None = None
    """Usage of a workload's LocalQueue, when the queue is under admission fair sharing."""


def satisfies_policy(preemptor: Preemptor, candidate: WorkloadInfo, policy: str) -> bool:
    """May `policy` evict the candidate for the preemptor?"""
    if policy == "Any":
        return True
    if policy == "Never":
        return False
    mine, theirs = preemptor.info.priority, candidate.priority
    if mine != theirs or policy != "LowerOrNewerEqualPriority":
        return mine > theirs
    margin = TIMESTAMP_BUFFER_S if preemptor.timestamp_buffer else 0.0
    return candidate.order_time - preemptor.info.order_time > margin


def candidate_order(preemptor: Preemptor) -> Callable[[Reservation], tuple[object, ...]]:
    """Sort key: evicted first, other queues before the own, busier LocalQueue, lower priority, newer, uid."""

    def order(reservation: Reservation) -> tuple[object, ...]:
        info = reservation.info
        reserved = preemptor.now if info.reserved_at is None else info.reserved_at
        own = reservation.queue is preemptor.queue
        share = -preemptor.local_queue_usage(info) if own and preemptor.local_queue_usage is not None else 0.0
        return (
            not info.evicted,
            own,
            share,
            info.priority,
            -reserved,
            info.uid,
            info.key,
        )

    return order


def uses_any(reservation: Reservation, columns: Columns) -> bool:
    return not columns.isdisjoint(reservation.usage)


class Candidates(NamedTuple):
    """All candidates in the order they are tried."""

    ordered: list[Candidate]
    from_others: bool
    hierarchical: bool


def find_candidates(preemptor: Preemptor, queues: dict[QuotaNode, ClusterQueue]) -> Candidates:
    """Candidates of the classical algorithm."""
    own = _own_candidates(preemptor)
    hierarchical, priority = _cohort_candidates(preemptor, queues)
    if not own and not hierarchical and not priority:
        return Candidates([], False, False)
    order = candidate_order(preemptor)
    evicted: list[Candidate] = []
    running: list[Candidate] = []
    for candidates in (hierarchical, priority, own):
        for candidate in sorted(candidates, key=lambda candidate: order(candidate.reservation)):
            (evicted if candidate.reservation.info.evicted else running).append(candidate)
    return Candidates(evicted + running, bool(hierarchical or priority), bool(hierarchical))


def _own_candidates(preemptor: Preemptor) -> list[Candidate]:
    policy = preemptor.queue.spec.preemption.within_cluster_queue
    if policy == "Never":
        return []
    return [
        Candidate(reservation, Variant.WITHIN_QUEUE, None)
        for reservation in matching(preemptor, preemptor.queue, policy)
    ]


def matching(preemptor: Preemptor, queue: ClusterQueue, policy: str) -> Iterable[Reservation]:
    """Reservations of a queue that use a needed column and that the policy lets go."""
    for reservation in queue.reservations.values():
        if (
            satisfies_policy(preemptor, reservation.info, policy)
            and uses_any(reservation, preemptor.columns)
            and reservation.info.key != preemptor.info.key
        ):
            yield reservation


def _cohort_candidates(
    preemptor: Preemptor, queues: dict[QuotaNode, ClusterQueue]
) -> tuple[list[Candidate], list[Candidate]]:
    hierarchical: list[Candidate] = []
    priority: list[Candidate] = []
    queue = preemptor.queue
    if queue.node.parent is None or queue.spec.preemption.reclaim_within_cohort == "Never":
        return hierarchical, priority
    advantage, remaining = fit_in_quota(queue.node, preemptor.requests)
    visited: QuotaNode = queue.node
    for ancestor in queue.node.path():
        found = hierarchical if advantage else priority
        for node in _borrowing_queues(ancestor, visited, preemptor.columns):
            found.extend(_classified(preemptor, queues[node], ancestor, advantage))
        fits, remaining = fit_in_quota(ancestor, remaining)
        advantage = advantage or fits
        visited = ancestor
    return hierarchical, priority


def _borrowing_queues(cohort: QuotaNode, visited: QuotaNode, columns: Columns) -> Iterable[QuotaNode]:
    """Queues below `cohort` that borrow, through subtrees that borrow, leaving out the one already looked at."""
    for child in cohort.cohorts.values():
        if child is not visited and not child.is_within_nominal(columns):
            yield from _borrowing_queues(child, visited, columns)
    for node in cohort.queues.values():
        if node is not visited and not node.is_within_nominal(columns):
            yield node


def _classified(preemptor: Preemptor, queue: ClusterQueue, ancestor: QuotaNode, advantage: bool) -> Iterable[Candidate]:
    policy = preemptor.queue.spec.preemption
    for reservation in matching(preemptor, queue, policy.reclaim_within_cohort):
        if advantage:
            variant = Variant.HIERARCHICAL
        elif may_borrow_for(preemptor, reservation.info):
            variant = Variant.WHILE_BORROWING
        else:
            variant = Variant.WITHOUT_BORROWING
        yield Candidate(reservation, variant, ancestor)


def may_borrow_for(preemptor: Preemptor, candidate: WorkloadInfo) -> bool:
    """May the preemptor's queue end up borrowing after evicting this candidate?"""
    policy = preemptor.queue.spec.preemption
    if policy.borrow_within_cohort == "Never" or candidate.priority >= preemptor.info.priority:
        return False
    threshold = policy.max_priority_threshold
    return threshold is None or candidate.priority <= threshold


def is_still_valid(candidate: Candidate, columns: Columns, allow_borrowing: bool) -> bool:
    """A candidate outside the own queue counts only while everything below the common ancestor still borrows."""
    if candidate.common_ancestor is None:
        return True
    if allow_borrowing and candidate.variant is Variant.WITHOUT_BORROWING:
        return False
    node: QuotaNode | None = candidate.reservation.queue.node
    while node is not None and node is not candidate.common_ancestor:
        if node.is_within_nominal(columns):
            return False
        node = node.parent
    return True
