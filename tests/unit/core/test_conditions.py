"""Conditions keep their transition time while their status stays."""

from __future__ import annotations

from corral.core import conditions


def test_a_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    first = conditions.set_condition([], conditions.condition("Ready", True, "A", "a"), "T1")
    second = conditions.set_condition(first, conditions.condition("Ready", True, "B", "b"), "T2")
    third = conditions.set_condition(second, conditions.condition("Ready", False, "C", "c"), "T3")
    assert [entry[0]["lastTransitionTime"] for entry in (first, second, third)] == ["T1", "T1", "T3"]
    assert second[0]["reason"] == "B"
