"""Partial admission finds the most pods that fit, spread over the pod sets that may shrink."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.decide.queueing.cycle.partial import reduced_counts
from corral.decide.queueing.model.values import PodSetInfo


def pod_set(count: int, least: int | None = None) -> PodSetInfo:
    return PodSetInfo("main", count, count, least, {}, {})


@pytest.mark.parametrize(
    ("pod_sets", "room", "counts"),
    [
        ([pod_set(5)], 4, None),
        ([pod_set(5, 5)], 4, None),
        ([pod_set(5, 2)], 9, [5]),
        ([pod_set(5, 2)], 4, [4]),
        ([pod_set(5, 2)], 2, [2]),
        ([pod_set(5, 2)], 1, None),
        ([pod_set(5, 1), pod_set(3)], 6, [3, 3]),
        ([pod_set(6, 2), pod_set(6, 4)], 9, [4, 5]),
        ([pod_set(6, 2), pod_set(6, 4)], 6, [2, 4]),
        ([pod_set(6, 2), pod_set(6, 4)], 5, None),
    ],
)
def test_the_largest_counts_that_fit(pod_sets: list[PodSetInfo], room: int, counts: list[int] | None) -> None:
    assert reduced_counts(pod_sets, lambda tried: tried if sum(tried) <= room else None) == counts


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=4), st.integers(0, 100))
def test_no_other_step_of_the_search_has_more_pods(sizes: list[tuple[int, int]], room: int) -> None:
    pod_sets = [pod_set(count, min(least, count)) for count, least in sizes]
    spare = [count - min(least, count) for count, least in sizes]
    steps = [
        [count - extra * dropped // sum(spare) for (count, _), extra in zip(sizes, spare, strict=True)]
        for dropped in range(sum(spare) + 1)
        if sum(spare)
    ]
    best = next((counts for counts in steps if sum(counts) <= room), None)
    assert reduced_counts(pod_sets, lambda tried: tried if sum(tried) <= room else None) == best
