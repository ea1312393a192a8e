"""Why workers do not take a Workload, in one line."""

from __future__ import annotations

import pytest

from corral.decide.dispatch.reasons import grouped_reasons


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ({}, ""),
        ({"w1": "full"}, "w1: full"),
        ({"w2": "full", "w1": "full", "w3": "away"}, "w1, w2: full; w3: away"),
        ({"": "waits for the first pod"}, "waits for the first pod"),
    ],
)
def test_workers_with_the_same_reason_are_named_together(reasons: dict[str, str], line: str) -> None:
    assert grouped_reasons(reasons) == line
