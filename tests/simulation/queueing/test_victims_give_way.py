"""Nobody is evicted twice for the same other while that other was not admitted in between."""

from __future__ import annotations

import pytest
from tools.differential import embedded
from tools.differential.scenario import scenario

ROUND_IN_CIRCLES = (8, 38, 98, 125, 153, 169, 171, 239, 436, 448)
"""Seeds of every family in which a victim used to come back before its preemptor had its turn, and was evicted for it again."""


@pytest.mark.parametrize("seed", ROUND_IN_CIRCLES)
def test_nobody_makes_room_in_vain_twice(seed: int) -> None:
    played = embedded.play(scenario(seed), None, {})
    assert (played.in_vain, played.restless) == ([], "")


def test_upstream_lets_the_victim_come_back_first() -> None:
    assert embedded.play(scenario(125), None, {"victimsGiveWay": False}).in_vain
