"""Which flavor is better for a request, and whether the search goes on after one that would do."""

from __future__ import annotations

from itertools import product

import pytest

from corral.decide.queueing.cycle.assignment import Fit
from corral.decide.queueing.cycle.fungibility import BEST, WORST, Rank, is_preferred, tries_next
from corral.decide.queueing.model.values import Fungibility

BORROWING_FIRST = "PreemptionOverBorrowing"


@pytest.mark.parametrize(
    ("better", "worse", "preference"),
    [
        (BEST, Rank(Fit.FIT, 1), None),
        (Rank(Fit.FIT, 3), Rank(Fit.RECLAIM, 0), None),
        (Rank(Fit.RECLAIM, 3), Rank(Fit.PREEMPT, 0), None),
        (Rank(Fit.PREEMPT, 3), Rank(Fit.NO_CANDIDATES, 0), None),
        (Rank(Fit.NO_CANDIDATES, 3), WORST, None),
        (Rank(Fit.FIT, 1), Rank(Fit.PREEMPT, 0), "BorrowingOverPreemption"),
        (Rank(Fit.PREEMPT, 0), Rank(Fit.FIT, 1), BORROWING_FIRST),
        (Rank(Fit.RECLAIM, 1), Rank(Fit.PREEMPT, 1), BORROWING_FIRST),
        (Rank(Fit.FIT, 9), Rank(Fit.NO_CANDIDATES, 0), BORROWING_FIRST),
    ],
)
def test_one_flavor_is_better_than_the_other(better: Rank, worse: Rank, preference: str | None) -> None:
    assert is_preferred(better, worse, preference)
    assert not is_preferred(worse, better, preference)


@pytest.mark.parametrize("preference", [None, "BorrowingOverPreemption", BORROWING_FIRST])
def test_the_order_of_flavors_has_no_circles(preference: str | None) -> None:
    ranks = [Rank(fit, borrow) for fit, borrow in product(Fit, range(3))]
    for one, two, three in product(ranks, repeat=3):
        if is_preferred(one, two, preference):
            assert not is_preferred(two, one, preference)
            if is_preferred(two, three, preference):
                assert is_preferred(one, three, preference)


@pytest.mark.parametrize(
    ("rank", "borrow", "preempt", "on"),
    [
        (BEST, "TryNextFlavor", "TryNextFlavor", False),
        (Rank(Fit.FIT, 1), "MayStopSearch", "TryNextFlavor", False),
        (Rank(Fit.FIT, 1), "TryNextFlavor", "MayStopSearch", True),
        (Rank(Fit.PREEMPT, 0), "TryNextFlavor", "MayStopSearch", False),
        (Rank(Fit.PREEMPT, 0), "MayStopSearch", "TryNextFlavor", True),
        (Rank(Fit.RECLAIM, 0), "MayStopSearch", "TryNextFlavor", True),
        (Rank(Fit.RECLAIM, 1), "TryNextFlavor", "MayStopSearch", True),
        (Rank(Fit.NO_CANDIDATES, 0), "MayStopSearch", "MayStopSearch", True),
        (Rank(Fit.NO_FIT, 0), "MayStopSearch", "MayStopSearch", True),
    ],
)
def test_the_search_goes_on_or_stops(rank: Rank, borrow: str, preempt: str, on: bool) -> None:
    assert tries_next(rank, Fungibility(borrow, preempt)) is on
