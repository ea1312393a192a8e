"""How many front processes there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from corral.clusters.fronts.growth import PATIENCE, Growth, Look, is_worth_trying, most, part_of
from corral.core.server_limits import Limits


def look(owner: float, *fronts: float, idle: float = 8.0) -> Look:
    return Look(owner, fronts, idle)


def test_on_few_cores_there_are_none() -> None:
    growth = Growth(2)
    assert [growth.wanted(look(1.0)) for _ in range(100)] == [0] * 100


def test_nobody_is_started_for_a_moment_of_work() -> None:
    growth = Growth(16)
    assert [growth.wanted(look(busy)) for busy in (0.9, 0.1, 0.9, 0.1, 0.5)] == [0] * 5


def test_some_are_started_when_the_owner_stays_busy() -> None:
    growth = Growth(16)
    assert [growth.wanted(look(0.9)) for _ in range(2)] == [0, 4]


def test_nobody_is_started_where_no_core_is_idle() -> None:
    growth = Growth(16)
    assert [growth.wanted(look(0.9, idle=0.3)) for _ in range(5)] == [0] * 5


@pytest.mark.parametrize(
    ("fronts", "idle", "wanted"),
    [
        ((0.9, 0.9, 0.9, 0.9), 8.0, 5),
        ((0.9, 0.9, 0.1, 0.1), 8.0, 4),
        ((0.9, 0.9, 0.9, 0.9), 0.2, 4),
        ((0.9,) * 8, 8.0, 8),
    ],
)
def test_another_one_joins_while_all_are_full_and_cores_are_left(
    fronts: Sequence[float], idle: float, wanted: int
) -> None:
    assert Growth(16).wanted(look(0.5, *fronts, idle=idle)) == wanted


def test_all_are_sent_away_when_there_was_little_to_do_for_long() -> None:
    growth = Growth(16)
    wanted = [growth.wanted(look(0.05, 0.01, 0.01, 0.01, 0.01)) for _ in range(PATIENCE)]
    assert wanted == [*[4] * (PATIENCE - 1), 0]


def test_work_in_between_begins_the_count_anew() -> None:
    growth = Growth(16)
    for _ in range(PATIENCE - 1):
        growth.wanted(look(0.05, 0.01, 0.01))
    assert growth.wanted(look(0.05, 0.5, 0.5)) == 2
    assert growth.wanted(look(0.05, 0.01, 0.01)) == 2


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_number_that_somebody_chose_stays(number: int) -> None:
    growth = Growth(16, number)
    assert {growth.wanted(look(busy, *[busy] * number)) for busy in (0.0, 0.5, 1.0) * 50} == {number}


def test_as_many_cores_again_are_left_for_everybody_else() -> None:
    assert [most(cores) for cores in (1, 2, 3, 4, 8, 16)] == [0, 0, 0, 2, 4, 8]


def test_all_of_them_together_hold_no_more_than_one_may() -> None:
    limits = Limits(bytes=100, bytes_each=50, answers=90, answers_each=10)
    part = part_of(limits, 4)
    assert (part.bytes, part.bytes_each, part.answers, part.answers_each) == (25, 13, 23, 3)
    assert (part.requests, part.watches, part.connections) == (limits.requests, limits.watches, limits.connections)
    assert part_of(limits, 0) == limits


def test_where_none_comes_to_serve_new_ones_are_tried_seldom() -> None:
    assert [is_worth_trying(stillborn, 7) for stillborn in range(5)] == [True, True, True, False, False]
    assert sum(is_worth_trying(3, look) for look in range(600)) == 10
