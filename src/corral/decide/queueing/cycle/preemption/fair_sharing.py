"""Preemption under fair sharing: take from whoever has most beyond its due, as long as that evens things out.

Queues are visited by share, from the root down, always the child that has most. A victim of another queue must pass
a strategy that compares shares where the two queues' ways up meet; victims of the own queue and, for a preemptor
within its nominal quota, of any borrowing queue, need no comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from corral.decide.queueing.cycle.preemption.candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_FAIR_SHARING,
    IN_COHORT_RECLAMATION,
    Preemptor,
    Target,
    candidate_order,
    matching,
)
from corral.decide.queueing.cycle.preemption.classical import Placement, fill_back, fits, restore, simulate_removal
from corral.decide.queueing.model.settings import INITIAL_SHARE
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.fair_shares import DominantShare, share_of
from corral.decide.queueing.quota.tree import QuotaNode

Strategy = Callable[[DominantShare, DominantShare, DominantShare], bool]
"""Of the preemptor's share after admission, the victim's before and after eviction."""


def strategy_named(name: str) -> Strategy:
    if name == INITIAL_SHARE:
        return lambda preemptor, before, _: preemptor < before
    return lambda preemptor, _, after: preemptor <= after


class VictimOrder:
    """Yields the queue to take a victim from next; ends when every candidate is out of reach."""

    def __init__(self, preemptor: Preemptor, candidates: Sequence[Reservation]) -> None:
        self.own = preemptor.queue.node
        self.left: dict[QuotaNode, list[Reservation]] = {}
        for candidate in candidates:
            self.left.setdefault(candidate.queue.node, []).append(candidate)
        self._ancestors = set(self.own.path())
        self._order = candidate_order(preemptor, by_usage=False)
        self._pruned: set[QuotaNode] = set()

    def __iter__(self) -> Iterator[QuotaNode]:
        if self.own.parent is None:
            while self.own not in self._pruned and self.left.get(self.own):
                yield self.own
            return
        root = self.own.root()
        while root not in self._pruned:
            node = self._next(root)
            if node is not None:
                yield node

    def pop(self, node: QuotaNode) -> Reservation:
        return self.left[node].pop(0)

    def drop(self, node: QuotaNode) -> None:
        """Take no more from this queue."""
        self._pruned.add(node)

    def shares(self, node: QuotaNode) -> tuple[DominantShare, DominantShare]:
        """Shares of preemptor and victim, each one level below the cohort where they meet."""
        mine, theirs = self.meeting(node)
        return share_of(mine), share_of(theirs)

    def share_without(self, node: QuotaNode, victim: Reservation) -> DominantShare:
        """The victim's side of `shares` once the victim is gone."""
        node.remove(victim.usage)
        share = share_of(self.meeting(node)[1])
        node.add(victim.usage)
        return share

    def meeting(self, node: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        below = node
        while below.parent is not None and below.parent not in self._ancestors:
            below = below.parent
        mine = self.own
        while mine.parent is not None and mine.parent is not below.parent:
            mine = mine.parent
        return mine, below

    def _next(self, cohort: QuotaNode) -> QuotaNode | None:
        """The queue below `cohort` with most beyond its due; None when this step only ruled something out."""
        queue, queue_share = self._heaviest_queue(cohort)
        child, child_share = self._heaviest_cohort(cohort)
        if child is None and queue is None:
            self._pruned.add(cohort)
            return None
        if child is not None and (queue is None or not child_share < queue_share):
            return self._next(child)
        return queue

    def _heaviest_queue(self, cohort: QuotaNode) -> tuple[QuotaNode | None, DominantShare]:
        # What is pruned stays so: during a search usage of other queues only falls, and so do their shares.
        best, best_share = None, DominantShare(-1.0, 1.0)
        for node in cohort.queues.values():
            if node in self._pruned:
                continue
            share = share_of(node)
            if not self.left.get(node) or (node is not self.own and not share.is_borrowing):
                self._pruned.add(node)
            elif best is None or share > best_share:
                best, best_share = node, share
            elif share == best_share and self._order(self.left[node][0]) < self._order(self.left[best][0]):
                best = node
        return best, best_share

    def _heaviest_cohort(self, cohort: QuotaNode) -> tuple[QuotaNode | None, DominantShare]:
        best, best_share = None, DominantShare(-1.0, 1.0)
        for node in cohort.cohorts.values():
            if node in self._pruned:
                continue
            share = share_of(node)
            # The own queue is below its ancestors and may always lose workloads, so those are never left out.
            if not share.is_borrowing and node not in self._ancestors:
                self._pruned.add(node)
            elif not share < best_share:
                best, best_share = node, share
        return best, best_share


def fair_targets(
    preemptor: Preemptor,
    queues: dict[QuotaNode, ClusterQueue],
    strategies: Sequence[str],
    *,
    within_nominal: bool = True,
    placement: Placement | None = None,
) -> list[Target]:
    """The workloads to evict; empty when the strategies do not allow enough."""
    candidates = _candidates(preemptor, queues)
    if not candidates:
        return []
    search = _FairSearch(preemptor, placement)
    node = preemptor.queue.node
    # Shares are compared as they would be after the admission, so what is asked for is counted during the whole search.
    # Whether it fits is asked without it (`_evict`, and `fill_back` afterwards): it would be counted twice.
    node.add(preemptor.requests)
    try:
        fitted = search.run_first(candidates, strategy_named(strategies[0]), within_nominal)
        if not fitted and len(strategies) > 1:
            fitted = search.run_second()
    finally:
        node.remove(preemptor.requests)
    targets = search.targets
    if fitted:
        targets = fill_back(preemptor, targets, True, placement)
    restore(targets, nodes=placement is not None)
    return targets if fitted else []


def _candidates(preemptor: Preemptor, queues: dict[QuotaNode, ClusterQueue]) -> list[Reservation]:
    queue = preemptor.queue
    policy = queue.spec.preemption
    found: list[Reservation] = []
    if policy.within_cluster_queue != "Never":
        found.extend(matching(preemptor, queue, policy.within_cluster_queue))
    if queue.node.parent is not None and policy.reclaim_within_cohort != "Never":
        for node in queue.node.root().subtree_queues():
            if node is not queue.node and any(node.is_borrowing(column) for column in preemptor.columns):
                found.extend(matching(preemptor, queues[node], policy.reclaim_within_cohort))
    # Shares alone would have two evict each other for ever: one borrows what the other, then below its quota, takes back.
    found = [each for each in found if each.info.key != preemptor.left_for]
    found.sort(key=candidate_order(preemptor))
    return found


class _FairSearch:
    """Collects victims while the incoming usage is already counted."""

    def __init__(self, preemptor: Preemptor, placement: Placement | None) -> None:
        self.preemptor = preemptor
        self.placement = placement
        self.targets: list[Target] = []
        self.retry: list[Reservation] = []

    def run_first(self, candidates: Sequence[Reservation], strategy: Strategy, within_nominal: bool) -> bool:
        own = self.preemptor.queue.node
        entitled = within_nominal and not any(own.is_borrowing(column) for column in self.preemptor.columns)
        order = VictimOrder(self.preemptor, candidates)
        for node in order:
            if node is own:
                if self._evict(order.pop(node), IN_CLUSTER_QUEUE):
                    return True
            elif entitled:
                if self._evict(order.pop(node), IN_COHORT_RECLAMATION):
                    return True
            elif self._compare(order, node, strategy):
                return True
        return False

    def _compare(self, order: VictimOrder, node: QuotaNode, strategy: Strategy) -> bool:
        """Evict the first candidate of a queue that passes; the ones before it may be retried by the next rule."""
        mine, before = order.shares(node)
        # A queue of weight zero has no entitlement: beyond its quota it displaces nobody who has one.
        if math.isinf(mine.weighted) and not math.isinf(before.weighted):
            self.retry.extend(order.left[node])
            order.left[node] = []
            return False
        while order.left[node]:
            victim = order.pop(node)
            if strategy(mine, before, order.share_without(node, victim)):
                return self._evict(victim, IN_COHORT_FAIR_SHARING)
            self.retry.append(victim)
        return False

    def run_second(self) -> bool:
        """One more try per queue, comparing with the victim's share before eviction."""
        order = VictimOrder(self.preemptor, self.retry)
        for node in order:
            mine, before = order.shares(node)
            victim = order.pop(node)
            if mine < before and self._evict(victim, IN_COHORT_FAIR_SHARING):
                return True
            order.drop(node)
        return False

    def _evict(self, victim: Reservation, reason: str) -> bool:
        """Take a victim away; True when the workload fits now."""
        simulate_removal(victim, nodes=self.placement is not None)
        self.targets.append(Target(victim, reason))
        node = self.preemptor.queue.node
        node.remove(self.preemptor.requests)
        fitted = fits(self.preemptor, True, self.placement)
        node.add(self.preemptor.requests)
        return fitted
