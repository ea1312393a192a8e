"""Choosing domains for pods: the tightest that fits, fewest of them, stable among equals.

First every domain knows how many pods it can take (`Counts`). Then the search goes from the requested level upwards
until one domain (or, where that is allowed, several) can take everything, and back down, splitting what was assigned
to a domain among its children. Required and preferred placements prefer the fullest domain that still fits the
remainder (best fit); unconstrained ones start from the domain with the least free capacity.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from corral.decide.queueing.model.values import TopologyAssignment, TopologyDomain
from corral.decide.queueing.topology.counts import Counts, Order
from corral.decide.queueing.topology.tree import Domain


class Shape(NamedTuple):
    """What is to be placed, with levels resolved to indexes."""

    pods: int
    leaders: int
    level: int
    slice_level: int
    slice_size: int
    inner_sizes: dict[int, int]
    required: bool
    unconstrained: bool
    least_free: bool
    balanced: bool = False
    """Prefer equal shares to full domains."""


class DomainShare(NamedTuple):
    """Part of the pods given to a domain."""

    domain: Domain
    pods: int
    leaders: int


class NoPlacement(Exception):
    """Nothing fits; `fitting` of `wanted` units would."""

    def __init__(self, fitting: int, wanted: int, level: int) -> None:
        super().__init__(f"{fitting} of {wanted}")
        self.fitting = fitting
        self.wanted = wanted
        self.level = level


class Placer:
    """One placement over the counts of one flavor."""

    def __init__(self, counts: Counts, shape: Shape) -> None:
        self.counts = counts
        self.shape = shape
        self.best_fit = not shape.least_free
        self.order: Order = counts.order(fullest=self.best_fit)
        self.leader_order: Order = self.order
        if counts.key.leader is not None:
            self.leader_order = self._leader_order if counts.scores is None else self._leader_liked_first

    def place(self) -> list[DomainShare]:
        """Leaves with their pods and leaders; raises NoPlacement."""
        shape = self.shape
        level, chosen = self._find_level(shape.level)
        shares = self._distribute(chosen, shape.pods, shape.leaders, shape.slice_size, self._slices)
        lowest = self.counts.tree.lowest
        while level < min(lowest, shape.slice_level):
            children = self._children_of([share.domain for share in shares])
            shares = self._distribute(children, shape.pods, shape.leaders, shape.slice_size, self._slices)
            level += 1
        return self.split_down(level, shares)

    def split_down(self, level: int, shares: list[DomainShare]) -> list[DomainShare]:
        """Split what domains of a level were given among their children, down to the leaves."""
        shape = self.shape
        while level < self.counts.tree.lowest:
            size = shape.slice_size if level < shape.slice_level else shape.inner_sizes.get(level + 1, 1)
            shares = [part for share in shares for part in self._split(share, size)]
            level += 1
        return shares

    def _split(self, share: DomainShare, size: int) -> list[DomainShare]:
        children = self._children_of([share.domain])
        if size > 1:
            return self._distribute(children, share.pods, share.leaders, size, self._units_of(size))
        return self._distribute(children, share.pods, share.leaders, 1, self._pods)

    def _children_of(self, domains: list[Domain]) -> Sequence[Domain]:
        """The children of all of them, in order."""
        groups = [self.counts.children(domain, fullest=self.best_fit) for domain in domains]
        return groups[0] if len(groups) == 1 else sorted(chain(*groups), key=self.order)

    # -- capacities, in units of pods or slices, without and with a leader ----------------------------------------

    def _pods(self, domain: Domain, leader: bool) -> int:
        return (self.counts.pods_leader if leader else self.counts.pods)[domain.index]

    def _slices(self, domain: Domain, leader: bool) -> int:
        return (self.counts.slices_leader if leader else self.counts.slices)[domain.index]

    def _units_of(self, size: int) -> Callable[[Domain, bool], int]:
        return lambda domain, leader: self._pods(domain, leader) // size

    def _score(self, domain: Domain) -> int:
        return self.counts.scores[domain.index] if self.counts.scores is not None else 0

    def _leader_liked_first(self, domain: Domain) -> tuple[object, ...]:
        leaders, *rest = self._leader_order(domain)
        return leaders, -self._score(domain), *rest

    def _leader_order(self, domain: Domain) -> tuple[object, ...]:
        index, counts = domain.index, self.counts
        slices = counts.slices_leader[index]
        return (
            -counts.leaders[index],
            -slices if self.best_fit else slices,
            counts.pods_leader[index],
            domain.values,
        )

    # -- going up -------------------------------------------------------------------------------------------------

    def _find_level(self, level: int) -> tuple[int, list[Domain]]:
        """The level at which everything fits, and the domains to use there."""
        shape, counts = self.shape, self.counts
        wanted = shape.pods // shape.slice_size
        if shape.least_free:
            first = self._first_fitting(counts.tree.by_level[level], wanted)
            if first is not None:
                return level, [first]
        domains = self._in_level(level)
        if not domains:
            raise NoPlacement(0, wanted, level)
        if shape.least_free and shape.required:
            raise NoPlacement(counts.pods[domains[-1].index], wanted, level)
        top = domains[0]
        if self._slices(top, True) >= wanted and counts.leaders[top.index] >= shape.leaders:
            return level, [self._tightest(domains, wanted, shape.leaders, self._slices) if self.best_fit else top]
        if shape.required:
            for index in range(1, len(domains) if counts.scores is not None else 0):
                # The domain liked best is too small; a larger one liked less will do.
                if (
                    self._slices(domains[index], True) >= wanted
                    and counts.leaders[domains[index].index] >= shape.leaders
                ):
                    return level, [self._tightest(domains[index:], wanted, shape.leaders, self._slices)]
            raise NoPlacement(counts.slices[top.index], wanted, level)
        if level > 0 and not shape.unconstrained:
            return self._find_level(level - 1)
        return level, self._several(domains, wanted, level)

    def _in_level(self, level: int) -> Sequence[Domain]:
        """The domains of a level, those first that the leader is looked for on first."""
        if self.counts.key.leader is None:
            return self.counts.level(level, fullest=self.best_fit)
        return sorted(self.counts.tree.by_level[level], key=self.leader_order)

    def _first_fitting(self, domains: Sequence[Domain], wanted: int) -> Domain | None:
        """The first in order that takes everything, found without putting thousands of hosts in order."""
        counts, leaders = self.counts, self.shape.leaders
        if counts.key.leader is None and counts.scores is None and domains:
            # Nobody is led and none is liked more: the least room decides.
            rising = counts.level(domains[0].level, fullest=False)
            at = bisect_left(rising, wanted, key=lambda domain: counts.slices[domain.index])
            return rising[at] if at < len(rising) else None
        room = counts.slices_leader if leaders else counts.slices
        fitting = (domain for domain in domains if room[domain.index] >= wanted)
        return min(
            (domain for domain in fitting if counts.leaders[domain.index] >= leaders),
            key=self.leader_order,
            default=None,
        )

    def _several(self, domains: Sequence[Domain], wanted: int, level: int) -> list[Domain]:
        """As few domains as possible that together take everything, the leader's first."""
        shape, counts = self.shape, self.counts
        domains = self._leader_first(domains, shape.pods, shape.leaders, shape.slice_size, self._slices)
        chosen: list[Domain] = []
        left, leaders = wanted, shape.leaders
        index = 0
        while leaders > 0 and index < len(domains) and counts.leaders[domains[index].index] > 0:
            domain = domains[index]
            if self.best_fit and self._slices(domain, True) >= left:
                domain = self._tightest(domains[index:], left, leaders, self._slices)
            chosen.append(domain)
            leaders -= counts.leaders[domain.index]
            left -= self._slices(domain, True)
            index += 1
        if leaders > 0:
            raise NoPlacement(shape.leaders - leaders, wanted, level)
        rest = sorted(domains[index:], key=self.order)
        for index, candidate in enumerate(rest):
            if left <= 0:
                break
            domain = candidate
            if self.best_fit and self._slices(domain, False) >= left:
                domain = self._tightest(rest[index:], left, 0, self._slices)
            chosen.append(domain)
            left -= self._slices(domain, False)
        if left > 0:
            raise NoPlacement(wanted - left, wanted, level)
        return chosen

    # -- choosing and splitting -----------------------------------------------------------------------------------

    def _tightest(
        self, domains: Sequence[Domain], needed: int, leaders: int, units: Callable[[Domain, bool], int]
    ) -> Domain:
        """The first domain with the least capacity that is enough; the first of all when none is.

        Only domains that are liked as much as the first are looked at.
        """
        if (scores := self.counts.scores) is not None:
            liked = scores[domains[0].index]
            domains = list(takewhile(lambda domain: scores[domain.index] == liked, domains))
        if self._falls(units):
            enough = bisect_right(domains, -needed, key=lambda domain: -units(domain, False))
            if not enough:
                return domains[0]
            least = units(domains[enough - 1], False)
            return domains[bisect_left(domains, -least, hi=enough, key=lambda domain: -units(domain, False))]
        best, best_units = None, 0
        for domain in domains:
            if self.counts.leaders[domain.index] < leaders:
                continue
            fits = units(domain, leaders > 0)
            if fits >= needed and (best is None or fits < best_units):
                best, best_units = domain, fits
        return domains[0] if best is None else best

    def _falls(self, units: Callable[[Domain, bool], int]) -> bool:
        """Do domains in order have fewer and fewer of these units? Their slices do; so do pods where every pod is a slice."""
        counts = self.counts
        if counts.key.leader is not None:
            return False
        return units == self._slices or (
            units == self._pods and counts.key.slice_size == 1 and counts.key.slice_level == counts.tree.lowest
        )

    def _leader_first(
        self,
        domains: Sequence[Domain],
        count: int,
        leaders: int,
        size: int,
        units: Callable[[Domain, bool], int],
    ) -> Sequence[Domain]:
        """Move the first domain to the front that can hold the leader and leaves enough for the workers."""
        if leaders == 0 or len(domains) < 2:
            return domains
        needed = count if units == self._pods else count // size
        spare = sum(units(domain, False) for domain in domains) - needed
        for index, domain in enumerate(domains):
            if self.counts.leaders[domain.index] < leaders:
                continue
            if units(domain, False) - units(domain, True) <= spare:
                return [domain, *domains[:index], *domains[index + 1 :]]
        return domains

    def _distribute(
        self,
        domains: Sequence[Domain],
        count: int,
        leaders: int,
        size: int,
        units: Callable[[Domain, bool], int],
    ) -> list[DomainShare]:
        """Give `count` pods (in groups of `size`) and the leader to the domains in order, the last one tightest."""
        domains = self._leader_first(domains, count, leaders, size, units)
        left = count // size
        shares: list[DomainShare] = []
        for index, candidate in enumerate(domains):
            domain = candidate
            with_leader = leaders > 0
            room = units(domain, with_leader)
            if self.best_fit and room >= left and self.counts.leaders[domain.index] >= leaders:
                domain = self._tightest(domains[index:], left, leaders, units)
                room = units(domain, with_leader)
            holds = self.counts.leaders[domain.index] if with_leader else 0
            if room >= left and holds >= leaders:
                shares.append(DomainShare(domain, left * size, leaders))
                return shares
            taken, led = min(room, left), min(holds, leaders)
            shares.append(DomainShare(domain, taken * size, led))
            left -= taken
            leaders -= led
        raise NoPlacement(count // size - left, count // size, domains[0].level if domains else 0)


def assignment_of(shares: Sequence[tuple[Domain, int]], levels: tuple[str, ...], host: bool) -> TopologyAssignment:
    """The assignment to record: by label values in order; host names stand alone."""
    named = sorted(((domain.values, pods) for domain, pods in shares if pods), key=lambda entry: entry[0])
    if host:
        return TopologyAssignment(levels[-1:], tuple(TopologyDomain(values[-1:], pods) for values, pods in named))
    return TopologyAssignment(levels, tuple(TopologyDomain(values, pods) for values, pods in named))
