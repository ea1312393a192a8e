"""How many pods of one kind fit into every domain, kept up to date as pods come and go.

A table answers for one set of requests and constraints. It recomputes only leaves whose usage changed, and their
ancestors, so placing the thousandth equal workload costs as much as the nodes it touched. Domains that somebody asked for in order
stay in order: one that changed is moved to its new position. Placements found from its numbers are remembered until one of them
changes; usage that came and went again changes none.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from corral.decide.queueing.model.affinity import affinity_score, node_matches, untolerated_taint
from corral.decide.queueing.model.values import Amounts, NodeSpec, PodConstraints, Toleration
from corral.decide.queueing.topology.tree import Domain, DomainTree, Values

_MANY = 2**31 - 1

AmountItems = tuple[tuple[str, int], ...]


class CountKey(NamedTuple):
    """What a table answers for."""

    requests: AmountItems
    """Of one pod, with `pods: 1`."""
    leader: AmountItems | None
    constraints: PodConstraints
    slice_size: int
    slice_level: int
    inner_sizes: tuple[tuple[int, int], ...]
    """Size of nested slices per level below the slice level."""
    empty: bool
    """As if no workload was running."""


def count_in(requests: AmountItems, free: Mapping[str, int]) -> int:
    """How often `requests` fits into `free`."""
    most = _MANY
    for resource, amount in requests:
        if amount:
            times = free.get(resource, 0) // amount
            if times < most:
                most = times
    return most if most > 0 else 0


def limiting_resource(requests: AmountItems, free: Mapping[str, int]) -> str:
    """The resource that lets fewest pods in, first by name among equals."""
    counts = [(max(0, free.get(resource, 0) // amount) if amount else _MANY, resource) for resource, amount in requests]
    return min(counts)[1] if counts else ""


class Capacity:
    """Free amounts of the leaves: allocatable minus usage minus what this workload already took."""

    __slots__ = ("assumed", "usage")

    def __init__(self, usage: Mapping[Values, Amounts], assumed: Mapping[Values, Amounts] | None = None) -> None:
        self.usage = usage
        self.assumed = assumed or {}

    def free(self, leaf: Domain, empty: bool) -> Mapping[str, int]:
        used = None if empty else self.usage.get(leaf.key)
        assumed = self.assumed.get(leaf.key)
        if not used and not assumed:
            return leaf.allocatable
        free = dict(leaf.allocatable)
        for taken in (used, assumed):
            if taken:
                for resource, amount in taken.items():
                    free[resource] = free.get(resource, 0) - amount
        return free

    def room(self, leaf: Domain, requests: AmountItems, empty: bool) -> int:
        """How often `requests` fits into what is free; only what is requested is looked at."""
        offered, used, assumed = leaf.allocatable, self.usage.get(leaf.key), self.assumed.get(leaf.key)
        if empty or not used:
            used = _NOTHING
        most = _MANY
        for resource, amount in requests:
            if amount:
                free = offered.get(resource, 0) - used.get(resource, 0)
                if assumed:
                    free -= assumed.get(resource, 0)
                times = free // amount
                if times < most:
                    most = times
        return most if most > 0 else 0


_NOTHING: Amounts = {}
_FEW = 32

Order = Callable[[Domain], tuple[object, ...]]
Group = tuple[int, bool]
"""A level, or the children of a domain behind the levels, and whether the fullest come first."""


class Counts:
    """Per domain (by index): pods and slices that fit, with and without room for a leader."""

    __slots__ = (
        "_in_order",
        "feasible",
        "key",
        "leaders",
        "placed",
        "pods",
        "pods_leader",
        "scores",
        "seen",
        "slices",
        "slices_leader",
        "tree",
    )

    def __init__(
        self,
        key: CountKey,
        tree: DomainTree,
        capacity: Capacity,
        tolerations: tuple[Toleration, ...],
        within: Domain | None = None,
    ) -> None:
        self.key = key
        self.tree = tree
        size = len(tree.domains)
        self.pods = [0] * size
        self.slices = [0] * size
        self.leaders = [0] * size
        self.pods_leader = self.pods if key.leader is None else [0] * size
        self.slices_leader = self.slices if key.leader is None else [0] * size
        self.feasible = {
            leaf.key
            for leaf in tree.leaves.values()
            if (within is None or leaf.ancestor(within.level) is within)
            and (not tree.is_lowest_host or exclusion(leaf.nodes[0], key.constraints, tolerations) is None)
        }
        self.seen = 0
        """How many changes of usage it has taken into account; counted by its owner."""
        self.placed: dict[Any, Any] = {}
        """What was found from these numbers, by what was asked."""
        self._in_order: dict[Group, list[Domain]] | None = {} if key.leader is None else None
        """Domains that were asked for in order. With a leader order depends on more than is looked after here."""
        self.scores = self._affinity_scores() if key.constraints.preferred else None
        """How much the pods like a domain, when they like some more than others."""
        for leaf in tree.leaves.values():
            self._count_leaf(leaf, capacity)
        for level in range(tree.lowest - 1, -1, -1):
            for domain in tree.by_level[level]:
                self.sum_up(domain)

    def copy(self) -> Counts:
        """The same numbers, to be changed by somebody who tries something out."""
        other = object.__new__(Counts)
        other.key, other.tree, other.feasible, other.seen = self.key, self.tree, self.feasible, self.seen
        other.scores, other.placed, other._in_order = self.scores, {}, None
        other.pods, other.slices, other.leaders = list(self.pods), list(self.slices), list(self.leaders)
        alone = self.key.leader is None
        other.pods_leader = other.pods if alone else list(self.pods_leader)
        other.slices_leader = other.slices if alone else list(self.slices_leader)
        return other

    def _affinity_scores(self) -> list[int]:
        """Of every domain the sum of its nodes that may be used."""
        scores = [0] * len(self.tree.domains)
        for leaf in self.tree.leaves.values():
            if leaf.key in self.feasible:
                score = affinity_score(self.key.constraints, leaf.nodes[0].labels, leaf.nodes[0].name)
                domain: Domain | None = leaf
                while domain is not None and score:
                    scores[domain.index] += score
                    domain = domain.parent
        return scores

    # -- in order -------------------------------------------------------------------------------------------------

    def order(self, *, fullest: bool) -> Order:
        """What is liked most first, then by the slices that fit, then the least room, then by name."""
        slices, pods, scores, sign = self.slices, self.pods, self.scores, -1 if fullest else 1

        def plain(domain: Domain) -> tuple[object, ...]:
            index = domain.index
            return sign * slices[index], pods[index], domain.values

        def liked(domain: Domain) -> tuple[object, ...]:
            assert scores is not None
            return -scores[domain.index], *plain(domain)

        return plain if scores is None else liked

    def level(self, level: int, *, fullest: bool) -> Sequence[Domain]:
        """The domains of a level, in order."""
        return self._kept((level, fullest), self.tree.by_level[level])

    def children(self, domain: Domain, *, fullest: bool) -> Sequence[Domain]:
        """The children of a domain, in order."""
        return self._kept((self._group_of(domain), fullest), domain.children)

    def _group_of(self, domain: Domain) -> int:
        return len(self.tree.levels) + domain.index

    def _kept(self, group: Group, domains: Sequence[Domain]) -> Sequence[Domain]:
        if self._in_order is None:
            return sorted(domains, key=self.order(fullest=group[1]))
        known = self._in_order.get(group)
        if known is None:
            known = self._in_order[group] = sorted(domains, key=self.order(fullest=group[1]))
        return known

    def _moves(self, domain: Domain) -> list[tuple[bool, list[Domain]]]:
        """The orders that a domain is in, whose position is about to change; it is taken out of them."""
        if not self._in_order:
            return []
        groups = (domain.level, self._group_of(domain.parent)) if domain.parent is not None else (domain.level,)
        found = [
            (fullest, known)
            for group in groups
            for fullest in (True, False)
            if (known := self._in_order.get((group, fullest))) is not None
        ]
        for _, known in found:
            known.remove(domain)
        return found

    def _put_back(self, domain: Domain, moves: list[tuple[bool, list[Domain]]]) -> None:
        for fullest, known in moves:
            insort(known, domain, key=self.order(fullest=fullest))

    # -- counting -------------------------------------------------------------------------------------------------

    def refresh(self, capacity: Capacity, changed: Collection[Values]) -> None:
        """Recount the leaves whose usage changed since the last look."""
        if self._in_order and len(changed) > _FEW:
            self._in_order.clear()  # so many are put in order faster than moved
        above: dict[int, None] = {}
        differs = False
        for key in changed:
            leaf = self.tree.leaves.get(key)
            if leaf is not None and self._recount_leaf(leaf, capacity):
                differs = True
                if leaf.parent is not None and self.key.leader is not None:
                    above[leaf.parent.index] = None
        if differs:
            self.placed.clear()
        domains = self.tree.domains
        while above:
            parents: dict[int, None] = {}
            for index in above:
                domain = domains[index]
                self.sum_up(domain)
                if domain.parent is not None:
                    parents[domain.parent.index] = None
            above = parents

    def _recount_leaf(self, leaf: Domain, capacity: Capacity) -> bool:
        """Count a leaf anew; without a leader everything above it, too. True when that gave other numbers."""
        if self.key.leader is not None:
            return self._count_leaf(leaf, capacity)
        if leaf.key not in self.feasible:
            return False
        pods = capacity.room(leaf, self.key.requests, self.key.empty)
        if pods == self.pods[leaf.index]:
            return False
        self._set(leaf, pods, pods // self.key.slice_size if leaf.level == self.key.slice_level else 0)
        return True

    def _set(self, domain: Domain, pods: int, slices: int) -> None:
        """Set the numbers of a domain, and of those above it by what that changes for them."""
        key, index = self.key, domain.index
        inner = dict(key.inner_sizes).get(domain.level, 1) if key.inner_sizes else 1
        more_pods = pods // inner * inner - self.pods[index] // inner * inner
        more_slices = slices - self.slices[index]
        moves = self._moves(domain)
        self.pods[index], self.slices[index] = pods, slices
        self._put_back(domain, moves)
        parent = domain.parent
        if parent is None or not (more_pods or more_slices):
            return
        pods = self.pods[parent.index] + more_pods
        at_slices = parent.level == key.slice_level
        self._set(parent, pods, pods // key.slice_size if at_slices else self.slices[parent.index] + more_slices)

    def _count_leaf(self, leaf: Domain, capacity: Capacity) -> bool:
        """Count a leaf anew; True when that gave other numbers."""
        if leaf.key not in self.feasible:
            return False
        key, index = self.key, leaf.index
        before, pods = self.pods[index], capacity.room(leaf, key.requests, key.empty)
        self.pods[index] = pods
        at_slices = leaf.level == key.slice_level
        if at_slices:
            self.slices[index] = pods // key.slice_size
        if key.leader is None:
            return pods != before
        free = capacity.free(leaf, key.empty)
        led_before = self.leaders[index], self.pods_leader[index]
        with_leader = pods
        self.leaders[index] = 0
        if count_in(key.leader, free) > 0:
            self.leaders[index] = 1
            left = dict(free)
            for resource, amount in key.leader:
                left[resource] = left.get(resource, 0) - amount
            with_leader = count_in(key.requests, left)
        self.pods_leader[index] = with_leader
        if at_slices:
            self.slices_leader[index] = with_leader // key.slice_size
        return pods != before or led_before != (self.leaders[index], with_leader)

    def sum_up(self, domain: Domain) -> None:
        """Count a domain anew from its children."""
        key = self.key
        inner = dict(key.inner_sizes).get(domain.level + 1, 1) if key.inner_sizes else 1
        pods = slices = leaders = 0
        pod_loss = slice_loss = _MANY
        for child in domain.children:
            at = child.index
            fits = self.pods[at] // inner * inner
            pods += fits
            slices += self.slices[at]
            if key.leader is not None and self.leaders[at]:
                leaders = 1
                pod_loss = min(pod_loss, fits - self.pods_leader[at] // inner * inner)
                slice_loss = min(slice_loss, self.slices[at] - self.slices_leader[at])
        index = domain.index
        at_slices = domain.level == key.slice_level
        self.pods[index] = pods
        self.slices[index] = pods // key.slice_size if at_slices else slices
        if key.leader is None:
            return
        self.leaders[index] = leaders
        self.pods_leader[index] = pods - pod_loss if leaders else 0
        with_leader = slices - slice_loss if leaders else 0
        self.slices_leader[index] = self.pods_leader[index] // key.slice_size if at_slices else with_leader


def exclusion(node: NodeSpec, constraints: PodConstraints, tolerations: tuple[Toleration, ...]) -> str | None:
    """Why pods with these constraints cannot use a node, in the words of the failure message."""
    taint = untolerated_taint(node.taints, (*constraints.tolerations, *tolerations)) if node.taints else None
    if taint is not None:
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        return f'taint "{text}"'
    if any(node.labels.get(key) != value for key, value in constraints.node_selector):
        return "nodeSelector"
    if not node_matches(constraints, node.labels, node.name):
        return "affinity"
    return None


def exclusion_summary(counts: Counts, capacity: Capacity, tolerations: tuple[Toleration, ...]) -> str:
    """`. Total nodes: …; excluded: …` for a placement that failed; empty when no node was ruled out."""
    causes: dict[str, int] = {}
    for leaf in counts.tree.leaves.values():
        cause: str | None = None
        if leaf.key in counts.feasible:
            if counts.pods[leaf.index] == 0:
                resource = limiting_resource(counts.key.requests, capacity.free(leaf, counts.key.empty))
                cause = f'resource "{resource}"' if resource else None
        else:
            cause = exclusion(leaf.nodes[0], counts.key.constraints, tolerations) or "topologyDomain"
        if cause is not None:
            causes[cause] = causes.get(cause, 0) + 1
    if not causes:
        return ""
    reasons = ", ".join(sorted(f"{cause}: {times}" for cause, times in causes.items()))
    return f". Total nodes: {len(counts.tree.leaves)}; excluded: {reasons}"
