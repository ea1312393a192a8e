"""Which flavor is better for a request, and whether the search goes on after one that would do."""

from __future__ import annotations

from typing import NamedTuple

from corral.decide.queueing.cycle.assignment import Fit
from corral.decide.queueing.model.values import Fungibility


class Rank(NamedTuple):
    """How good a flavor is for a request."""

    fit: Fit
    borrow: int


BEST = Rank(Fit.FIT, 0)
WORST = Rank(Fit.NO_FIT, 2**31)


def is_preferred(one: Rank, other: Rank, preference: str | None) -> bool:
    """Is flavor `one` strictly better than `other`?

    A flavor without preemption candidates is below every viable one. After that the API's preference names what is
    *weighed first*: `PreemptionOverBorrowing` looks for the least borrowing, everything else for the best fit.
    """
    if one.fit is Fit.NO_FIT or other.fit is Fit.NO_FIT:
        return one.fit is not Fit.NO_FIT and other.fit is Fit.NO_FIT
    if (one.fit is Fit.NO_CANDIDATES) is not (other.fit is Fit.NO_CANDIDATES):
        return other.fit is Fit.NO_CANDIDATES
    if preference == "PreemptionOverBorrowing" and one.borrow != other.borrow:
        return one.borrow < other.borrow
    if one.fit != other.fit:
        return one.fit > other.fit
    return one.borrow < other.borrow


def tries_next(rank: Rank, fungibility: Fungibility) -> bool:
    """Does the search go on after a flavor of this rank?"""
    if rank.fit <= Fit.NO_CANDIDATES:
        return True
    if rank.fit in (Fit.PREEMPT, Fit.RECLAIM) and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return rank.borrow > 0 and fungibility.when_can_borrow == "TryNextFlavor"
