"""The same scenario has the same decisions, in whatever order the controllers get their turns."""

from __future__ import annotations

import pytest
from tests.soaking import Tally, only_soaking
from tools.differential import compare, embedded
from tools.differential.player import Record, Rest

BRIEFLY, TIMES = 10, 100


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 7, 9])
def test_the_order_of_turns_decides_nothing(seed: int) -> None:
    assert not embedded.first_variation(seed, BRIEFLY)


@pytest.mark.timeout(900)
def test_a_scenario_with_evictions_is_decided_the_same_a_hundred_times_out_of_a_hundred() -> None:
    seed = 1
    assert sum(len(rest.evictions) for rest in embedded.play_seed(seed).rests) > 2
    assert not embedded.first_variation(seed, TIMES)


VERDICTS = {
    "differs each time, the same way": ("bbb", "aaa", compare.DIFFERENT),
    "differs each time, in several ways": ("bcb", "aaa", compare.APART),
    "differs the first time only": ("baa", "aaa", compare.ONCE),
    "differs the first time and another": ("bab", "aaa", compare.CHANCE),
    "was played once": ("b", "a", compare.DIFFERENT),
    "is Corral's, which varies": ("bbb", "aba", compare.VARYING),
}


@pytest.mark.parametrize("case", VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_on_a_scenario_that(case: tuple[str, str, str]) -> None:
    kueue, corral, expected = case
    assert compare.verdict([_decided(way) for way in kueue], [_decided(way) for way in corral]) == expected


TIMED_VERDICTS = {
    "differs each time, the same way": ("bb", "aa", compare.DIFFERENT),
    "differs each time, in several ways": ("bc", "aa", compare.APART),
    "differs the first time only": ("bac", "aac", compare.ONCE),
    "differs one time, whatever the others have in common": ("bab", "aaa", compare.CHANCE),
    "was played once": ("b", "a", compare.DIFFERENT),
}


@pytest.mark.parametrize("case", TIMED_VERDICTS.values(), ids=TIMED_VERDICTS)
def test_the_verdict_where_each_play_has_times_of_its_own_on_a_scenario_that(case: tuple[str, str, str]) -> None:
    kueue, corral, expected = case
    assert compare.timed_verdict([_decided(way) for way in kueue], [_decided(way) for way in corral]) == expected


def test_a_scenario_is_played_at_the_times_of_a_record() -> None:
    own = embedded.play_seed(8)
    slower = [time + 1.5 * number for number, time in enumerate(own.times)]
    kept = embedded.play_seed(8, pace=slower).times[:10]
    assert kept == [pytest.approx(time, abs=0.05) for time in slower[:10]]


def _decided(way: str) -> Record:
    return Record("s0", [Rest("0 submit w00", {"w00": {"is": way}})])


@only_soaking("scenarios decided a hundred times", first=20)
def test_a_hundred_times_the_same_scenario_has_the_same_decisions(seeds: range, tally: Tally) -> None:
    for seed in seeds:
        assert not embedded.first_variation(seed, TIMES), seed
        tally("scenarios decided a hundred times", 1)
