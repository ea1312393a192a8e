"""Whom a workload may evict, and in which order the candidates are considered.

Candidates come from the own ClusterQueue (by priority) and from other queues of the cohort tree that use more than
their own quota. Walking up from the preemptor, candidates found above the first subtree whose quota covers the
request are there by hierarchical advantage: the quota is nearer to the preemptor than to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from heapq import merge
from typing import NamedTuple

from corral.core.meta import Key
from corral.decide.queueing.model.values import FlavorResource, Usage, WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Rank, Reservation, eviction_rank
from corral.decide.queueing.quota.tree import QuotaNode, fit_in_quota

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
    """The workload that needs room: its queue, what it requests, and the columns that do not fit."""

    info: WorkloadInfo
    queue: ClusterQueue
    columns: Columns
    """Columns that do not fit without preemption."""
    requests: Usage
    now: float
    timestamp_buffer: bool = False
    local_queue_usage: Callable[[WorkloadInfo], float] | None = None
    """Usage of a workload's LocalQueue, when there is admission fair sharing."""
    left_for: Key | None = None
    """For whom it was evicted itself, when it waits since then."""


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


def candidate_order(preemptor: Preemptor, *, by_usage: bool = True) -> Callable[[Reservation], tuple[object, ...]]:
    """Sort key: evicted first, other queues before the own, busier LocalQueue, lower priority, newer, uid.

    Usage of LocalQueues compares workloads of one queue only; between queues it has to be left out.
    """
    usage = preemptor.local_queue_usage if by_usage else None

    def order(reservation: Reservation) -> tuple[object, ...]:
        info = reservation.info
        stays, *rank = eviction_rank(reservation, preemptor.now)
        own = reservation.queue is preemptor.queue
        share = -usage(info) if usage is not None and reservation.queue.spec.admission_fair_sharing else 0.0
        return stays, own, share, *rank

    return order


class Candidates:
    """All candidates in the order they are tried, found only as far as they are asked for."""

    __slots__ = ("_found", "_source", "from_others", "hierarchical")

    def __init__(self, source: Iterator[Candidate], *, from_others: bool, hierarchical: bool) -> None:
        self._source = source
        self._found: list[Candidate] = []
        self.from_others = from_others
        self.hierarchical = hierarchical

    def __iter__(self) -> Iterator[Candidate]:
        yield from self._found
        for candidate in self._source:
            self._found.append(candidate)
            yield candidate


class SearchScope(NamedTuple):
    """Where looking for candidates can pay at all."""

    own: bool
    others: bool


def worthwhile_scope(preemptor: Preemptor) -> SearchScope:
    """Rule out, from sums alone, searches that cannot end in a set of victims.

    The sums are upper bounds: a scope may be searched in vain, but none that could succeed is left out.

    Candidates of other queues without hierarchical advantage count only in the attempt without borrowing, unless
    borrowing while preempting is allowed. That attempt needs the queue under its nominal quota, and still within it
    after evicting all it can of its own.
    """
    queue, policy = preemptor.queue, preemptor.queue.spec.preemption
    own = policy.within_cluster_queue != "Never" and _has_candidates_below(preemptor)
    others = queue.node.parent is not None and policy.reclaim_within_cohort != "Never"
    if others and policy.borrow_within_cohort == "Never" and not _has_advantage(preemptor):
        others = _fits_without_borrowing(preemptor, own)
    if not others and own:
        own = _frees_enough(preemptor)
    return SearchScope(own, others)


def _has_candidates_below(preemptor: Preemptor) -> bool:
    mine = preemptor.info.priority
    equal = preemptor.queue.spec.preemption.within_cluster_queue == "LowerOrNewerEqualPriority"
    totals = preemptor.queue.usage_by_priority
    return (
        any(rank < mine or (equal and rank == mine) for rank in totals)
        or preemptor.queue.spec.preemption.within_cluster_queue == "Any"
    )


def _own_removable(preemptor: Preemptor, column: FlavorResource) -> int:
    policy = preemptor.queue.spec.preemption.within_cluster_queue
    if policy == "LowerPriority":
        return preemptor.queue.usage_below(column, preemptor.info.priority)
    if policy == "LowerOrNewerEqualPriority":
        return preemptor.queue.usage_below(column, preemptor.info.priority + 1)
    return preemptor.queue.node.usage.get(column, 0) if policy == "Any" else 0


def _has_advantage(preemptor: Preemptor) -> bool:
    """Does the request fit the quota of some subtree below the root?"""
    fits, remaining = fit_in_quota(preemptor.queue.node, preemptor.requests)
    for ancestor in preemptor.queue.node.path():
        if fits:
            return True
        fits, remaining = fit_in_quota(ancestor, remaining)
    return False


def _fits_without_borrowing(preemptor: Preemptor, own: bool) -> bool:
    node = preemptor.queue.node
    if any(node.quota(column).nominal <= node.usage.get(column, 0) for column in preemptor.columns):
        return False
    for column, amount in preemptor.requests.items():
        removable = _own_removable(preemptor, column) if own else 0
        if node.usage.get(column, 0) - removable + amount > node.subtree.get(column, 0):
            return False
    return True


def _frees_enough(preemptor: Preemptor) -> bool:
    node = preemptor.queue.node
    return all(
        amount <= node.available(column) + _own_removable(preemptor, column)
        for column, amount in preemptor.requests.items()
    )


def find_candidates(preemptor: Preemptor, queues: dict[QuotaNode, ClusterQueue], scope: SearchScope) -> Candidates:
    """Candidates of the classical algorithm: those that leave anyway first, hierarchical before others before own."""
    hierarchical, others = _borrowers(preemptor, queues) if scope.others else ([], [])
    policy = preemptor.queue.spec.preemption
    reclaim, within = policy.reclaim_within_cohort, policy.within_cluster_queue

    def streams() -> Iterator[Candidate]:
        for leaving in (True, False):
            yield from _from_cohort(preemptor, hierarchical, reclaim, leaving, advantage=True)
            yield from _from_cohort(preemptor, others, reclaim, leaving, advantage=False)
            if scope.own:
                for _, reservation in _in_order(preemptor, preemptor.queue, within, leaving):
                    yield Candidate(reservation, Variant.WITHIN_QUEUE, None)

    has_hierarchical = _has_any(preemptor, hierarchical, reclaim)
    return Candidates(
        streams(),
        from_others=has_hierarchical or _has_any(preemptor, others, reclaim),
        hierarchical=has_hierarchical,
    )


Borrower = tuple[ClusterQueue, QuotaNode]
"""A queue to reclaim from, and the cohort in which it meets the preemptor."""


def _borrowers(preemptor: Preemptor, queues: dict[QuotaNode, ClusterQueue]) -> tuple[list[Borrower], list[Borrower]]:
    """Queues that use more than their own, with and without hierarchical advantage of the preemptor over them."""
    hierarchical: list[Borrower] = []
    others: list[Borrower] = []
    node = preemptor.queue.node
    advantage, remaining = fit_in_quota(node, preemptor.requests)
    visited = node
    for ancestor in node.path():
        found = hierarchical if advantage else others
        found.extend((queues[child], ancestor) for child in _borrowing_queues(ancestor, visited, preemptor.columns))
        fits, remaining = fit_in_quota(ancestor, remaining)
        advantage = advantage or fits
        visited = ancestor
    return hierarchical, others


def _ranked(
    preemptor: Preemptor, queue: ClusterQueue, policy: str, leaving: bool
) -> Iterator[tuple[Rank, Reservation]]:
    """What the policy lets go of one queue, in order; only those that leave already, or only the others.

    A queue that is stopped, or lacks something, neither admits nor loses anybody: what holds on there goes on running.
    """
    if queue.inactive is not None:
        return
    # `queue.ranked` has those that leave already first, then rising priority. That is why the search may stop: behind the
    # last leaving one there are no more, and behind a priority above the preemptor's no policy but Any lets one go.
    columns = preemptor.columns
    for rank, reservation in queue.ranked:
        if rank[0] is leaving:
            if leaving:
                return
            continue
        if (
            not columns.isdisjoint(reservation.usage)
            and satisfies_policy(preemptor, reservation.info, policy)
            and reservation.info.key != preemptor.info.key
        ):
            yield rank, reservation
        elif policy != "Any" and reservation.info.priority > preemptor.info.priority:
            return


def _from_cohort(
    preemptor: Preemptor, borrowers: list[Borrower], policy: str, leaving: bool, *, advantage: bool
) -> Iterator[Candidate]:
    meeting = {queue.node: ancestor for queue, ancestor in borrowers}
    streams = (_in_order(preemptor, queue, policy, leaving) for queue, _ in borrowers)
    # Ranks end with the key of the Workload and are never equal, so reservations themselves are never compared.
    for _, reservation in merge(*streams):
        if advantage:
            variant = Variant.HIERARCHICAL
        elif may_borrow_for(preemptor, reservation.info):
            variant = Variant.WHILE_BORROWING
        else:
            variant = Variant.WITHOUT_BORROWING
        yield Candidate(reservation, variant, meeting[reservation.queue.node])


def _in_order(
    preemptor: Preemptor, queue: ClusterQueue, policy: str, leaving: bool
) -> Iterable[tuple[Rank, Reservation]]:
    """What the policy lets go of one queue, busier LocalQueues first where their usage counts."""
    found = _ranked(preemptor, queue, policy, leaving)
    if preemptor.local_queue_usage is None or not queue.spec.admission_fair_sharing:
        return found
    order = candidate_order(preemptor)
    return sorted(found, key=lambda entry: order(entry[1]))


def _has_any(preemptor: Preemptor, borrowers: list[Borrower], policy: str) -> bool:
    return any(
        next(_ranked(preemptor, queue, policy, leaving), None) is not None
        for queue, _ in borrowers
        for leaving in (True, False)
    )


def matching(preemptor: Preemptor, queue: ClusterQueue, policy: str) -> Iterable[Reservation]:
    """Reservations of a queue that use a needed column and that the policy lets go."""
    for leaving in (True, False):
        for _, reservation in _ranked(preemptor, queue, policy, leaving):
            yield reservation


def _borrowing_queues(cohort: QuotaNode, visited: QuotaNode, columns: Columns) -> Iterable[QuotaNode]:
    """Queues below `cohort` that borrow, through subtrees that borrow, leaving out the one already looked at."""
    for child in cohort.cohorts.values():
        if child is not visited and not child.is_within_nominal(columns):
            yield from _borrowing_queues(child, visited, columns)
    for node in cohort.queues.values():
        if node is not visited and not node.is_within_nominal(columns):
            yield node


def may_borrow_for(preemptor: Preemptor, candidate: WorkloadInfo) -> bool:
    """May the preemptor's queue end up borrowing after evicting this candidate?"""
    policy = preemptor.queue.spec.preemption
    if policy.borrow_within_cohort == "Never" or candidate.priority >= preemptor.info.priority:
        return False
    threshold = policy.max_priority_threshold
    return threshold is None or candidate.priority <= threshold


def is_still_valid(candidate: Candidate, columns: Columns, allow_borrowing: bool) -> bool:
    """A candidate outside the own queue counts only while everything below the common ancestor still borrows.

    Reclaiming takes back quota that was lent. Once a node on the way down to the candidate is within its own quota, what
    it uses is its own, and evicting there would take quota that nobody owes.
    """
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
