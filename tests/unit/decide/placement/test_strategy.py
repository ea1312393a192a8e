"""The strategy of a placement, decoded: what is not said is upstream's default."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.decide.placement.strategy import APPLY_STEPS, DEFAULT_APPLY, DIFF_STEPS, Strategy, strategy_of


def placement(**strategy: object) -> Obj:
    return {"metadata": {"name": "app"}, "spec": {"strategy": strategy}}


def test_a_placement_without_a_strategy_has_the_defaults() -> None:
    assert strategy_of({"metadata": {"name": "app"}}) == strategy_of(placement()) == Strategy(DEFAULT_APPLY)
    assert strategy_of(placement()).steps == APPLY_STEPS


def test_what_a_placement_says_of_its_rollout_is_taken() -> None:
    found = strategy_of(
        placement(
            rollingUpdate={"maxUnavailable": 0, "maxSurge": "50%", "unavailablePeriodSeconds": 0},
            deleteStrategy={"propagationPolicy": "Abandon"},
            reportBackStrategy={"type": "Mirror"},
        )
    )
    assert (found.max_unavailable, found.max_surge, found.unavailable_period) == (0, "50%", 0.0)
    assert (found.abandons, found.report_back, found.external) == (True, {"type": "Mirror"}, False)
    assert strategy_of(placement(type="External")).external


def test_what_a_placement_says_of_applying_is_filled_up() -> None:
    found = strategy_of(placement(applyStrategy={"type": "ReportDiff", "whenToApply": "IfNotDrifted"}))
    assert found.apply == {**DEFAULT_APPLY, "type": "ReportDiff", "whenToApply": "IfNotDrifted"}
    assert found.steps == DIFF_STEPS
