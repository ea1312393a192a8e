"""Balanced placement: the same share for every domain of the preferred level, instead of as full as possible.

Among the domains below one parent the smallest share is made as large as it can be: with the fewest domains that can
take everything, no domain gets less than this threshold. Domains that offer less are left out, the fewest and smallest of
the others are taken, each gets the threshold, and what is left over goes to the first of them. Where no parent has room
for a balanced placement, the usual search is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

from corral.decide.queueing.topology.counts import Counts
from corral.decide.queueing.topology.placement import DomainShare, Placer, Shape
from corral.decide.queueing.topology.tree import Domain


class Greedy(NamedTuple):
    """What filling the largest domains first needs: how many, and the last one with and without the leader."""

    domains: int
    last_led: Domain | None
    last: Domain | None


class BalancedSiblings(NamedTuple):
    """Siblings a balanced placement is possible on."""

    threshold: int
    needed: int
    siblings: Sequence[Domain]
    counts: Counts


def place_balanced(counts: Counts, shape: Shape) -> tuple[Placer, int, list[DomainShare]] | None:
    """A placer over the domains left in, the level reached, and the share of each domain there; None when impossible."""
    best = _best_siblings(counts, shape)
    if best is None:
        return None
    placer = Placer(best.counts, shape)
    domains, level = best.siblings, shape.level
    if level < shape.slice_level:
        chosen = _fewest(placer, domains, evenness=True)
        if chosen is None:
            return None
        domains, level = [child for domain in chosen for child in domain.children], level + 1
    shares = _shares(placer, domains, best.threshold)
    return None if shares is None else (placer, level, shares)


def _best_siblings(counts: Counts, shape: Shape) -> BalancedSiblings | None:
    """The siblings with the largest threshold; among equals those that need fewest domains."""
    best: BalancedSiblings | None = None
    for siblings in _sibling_groups(counts, shape):
        found = _candidate(counts, shape, siblings, 0 if best is None else best.threshold)
        if found is None or found.threshold == 0:
            continue
        if best is None or (-found.threshold, found.needed) < (-best.threshold, best.needed):
            best = found
    return best


def _sibling_groups(counts: Counts, shape: Shape) -> list[list[Domain]]:
    by_level = counts.tree.by_level
    if shape.level == 0:
        return [by_level[0]]
    parents = sorted(by_level[shape.level - 1], key=lambda domain: domain.values)
    return [parent.children for parent in parents]


def _candidate(counts: Counts, shape: Shape, siblings: list[Domain], least: int) -> BalancedSiblings | None:
    """What the siblings can do, if it is at least as good as `least`."""
    below = [child for domain in siblings for child in domain.children] if shape.level < shape.slice_level else siblings
    full = _greedy(Placer(counts, shape), below)
    if full is None:
        return None
    threshold = _slices(shape) // full.domains
    if full.last_led is not None:
        threshold = min(threshold, counts.slices_leader[full.last_led.index])
    if full.last is not None:
        threshold = min(threshold, counts.slices[full.last.index])
    thresholds = [threshold]
    if shape.leaders and full.last is not None:
        # Room for the leader on the smallest domain, in case the first threshold leaves none.
        thresholds.append(min(threshold, counts.slices_leader[full.last.index]))
    for threshold in dict.fromkeys(thresholds):
        if threshold < max(least, 1):
            return None
        pruned = _pruned(counts, siblings, threshold, shape.leaders > 0)
        fits = _greedy(Placer(pruned, shape), siblings)
        if fits is not None:
            return BalancedSiblings(threshold, fits.domains, siblings, pruned)
    return None


def _slices(shape: Shape) -> int:
    return shape.pods // shape.slice_size


def _greedy(placer: Placer, domains: Sequence[Domain]) -> Greedy | None:
    """Fill the largest domains first; None when all together are not enough."""
    counts, shape = placer.counts, placer.shape
    slices, leaders, used = _slices(shape), shape.leaders, 0
    last_led = last = None
    rest = list(domains)
    if leaders:
        rest.sort(key=placer.leader_order)
        while leaders > 0 and rest and counts.leaders[rest[0].index] > 0:
            last_led = rest.pop(0)
            used += 1
            leaders -= counts.leaders[last_led.index]
            slices -= counts.slices_leader[last_led.index]
    if leaders > 0:
        return None
    for domain in sorted(rest, key=placer.order):
        if slices <= 0 or counts.slices[domain.index] <= 0:
            break
        last = domain
        used += 1
        slices -= counts.slices[domain.index]
    return Greedy(used, last_led, last) if slices <= 0 and used else None


# -- leaving domains out ----------------------------------------------------------------------------------------------


def _pruned(counts: Counts, siblings: Sequence[Domain], threshold: int, leader: bool) -> Counts:
    """The counts without domains, and children of domains, that offer less than the threshold."""
    pruned = counts.copy()
    for domain in siblings:
        for child in domain.children:
            _prune(pruned, child, threshold, leader)
    for domain in siblings:
        if domain.children:
            pruned.sum_up(domain)
        _prune(pruned, domain, threshold, leader)
    return pruned


def _prune(counts: Counts, domain: Domain, threshold: int, leader: bool) -> None:
    index = domain.index
    if counts.slices[index] < threshold:
        _clear(counts, domain, only_leader=False)
    elif leader and counts.leaders[index] and counts.slices_leader[index] < threshold:
        _clear(counts, domain, only_leader=True)


def _clear(counts: Counts, domain: Domain, *, only_leader: bool) -> None:
    index = domain.index
    counts.leaders[index] = counts.pods_leader[index] = counts.slices_leader[index] = 0
    if not only_leader:
        counts.pods[index] = counts.slices[index] = 0
    for child in domain.children:
        _clear(counts, child, only_leader=only_leader)


# -- choosing domains -------------------------------------------------------------------------------------------------

_Left = tuple[int, int]
"""Leaders and pods still without a place."""


def _fewest(placer: Placer, domains: Sequence[Domain], *, evenness: bool) -> Sequence[Domain] | None:
    """As few domains as possible that take everything, with the least room to spare.

    With `evenness` large domains whose children are alike come first among equals, otherwise those first by name.
    """
    counts, shape = placer.counts, placer.shape
    greedy = _greedy(placer, domains)
    if greedy is None:
        return None
    order = sorted(domains, key=lambda domain: _even_order(counts, domain) if evenness else domain.values)
    reached: list[dict[_Left, tuple[Domain, ...]]] = [{} for _ in range(greedy.domains + 1)]
    reached[0][shape.leaders, _slices(shape) * shape.slice_size] = ()
    for domain in order:
        index = domain.index
        for used in range(greedy.domains, 0, -1):
            for (leaders, pods), chosen in sorted(reached[used - 1].items()):
                if leaders <= 0 and pods <= 0:
                    continue
                if leaders > 0 and counts.leaders[index] > 0:
                    left = leaders - counts.leaders[index], pods - counts.pods_leader[index]
                    reached[used].setdefault(left, (*chosen, domain))
                if counts.slices[index] > 0:
                    reached[used].setdefault((leaders, pods - counts.pods[index]), (*chosen, domain))
    enough = [left for left in reached[greedy.domains] if left[0] == 0 and left[1] <= 0]
    return reached[greedy.domains][max(enough)] if enough else None


def _even_order(counts: Counts, domain: Domain) -> tuple[object, ...]:
    index = domain.index
    return -counts.leaders[index], -counts.slices_leader[index], -_evenness(counts, domain.children), domain.values


def _evenness(counts: Counts, domains: Sequence[Domain]) -> float:
    """Entropy of how the room is spread over the domains, in bits; rounded, so that order does not depend on addition."""
    rooms = [counts.pods[domain.index] for domain in domains if counts.pods[domain.index] > 0]
    total = sum(rooms)
    return round(-sum(room / total * log2(room / total) for room in rooms), 9) if total else 0.0


def _shares(placer: Placer, domains: Sequence[Domain], threshold: int) -> list[DomainShare] | None:
    """The threshold for every domain taken, the leader and all that is left over for the first of them."""
    counts, shape = placer.counts, placer.shape
    chosen = _fewest(placer, domains, evenness=False)
    if chosen is None:
        return None
    extra, leaders = _slices(shape) - len(chosen) * threshold, shape.leaders
    if extra < 0:
        return None
    shares: list[DomainShare] = []
    for domain in sorted(chosen, key=placer.leader_order):
        led = min(1, leaders)
        room = (counts.slices_leader if led else counts.slices)[domain.index]
        more = min(room - threshold, extra)
        shares.append(DomainShare(domain, (threshold + more) * shape.slice_size, led))
        extra -= more
        leaders -= led
    return shares if not extra and not leaders else None
