"""Index sets read and write themselves as a Job's status does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.jobs.batch_job.indexes import Indexes


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([0, 2, 3, 4, 9, 10], "0,2-4,9,10")],
)
def test_indexes_are_written_like_kubernetes(numbers: list[int], text: str) -> None:
    assert str(Indexes.of(numbers)) == text
    assert list(Indexes.parse(text, 100)) == numbers


def test_parsing_forgets_what_lies_beyond_the_completions() -> None:
    assert str(Indexes.parse("0-2,5,7-12", 9)) == "0-2,5,7,8"
    assert str(Indexes.parse("x,1-y,3", 9)) == "3"


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_indexes_behave_as_sets(left: set[int], right: set[int]) -> None:
    a, b = Indexes.of(left), Indexes.of(right)
    assert set(a | b) == left | right
    assert a.common(b) == len(left & right)
    assert len(a) == len(left)
    assert all((number in a) == (number in left) for number in range(62))
    assert Indexes.parse(str(a), 61) == a
    assert a.missing(61, 5) == [number for number in range(61) if number not in left][:5]
