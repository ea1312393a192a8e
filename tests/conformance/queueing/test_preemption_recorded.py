"""The numeric preemption cases of `tests/data`, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from preemption_cases import check

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "kueue-preemption-cases.json").read_text()
)


@pytest.mark.parametrize(
    ("kind", "case"),
    [pytest.param(kind, case, id=f"{kind}: {case['name']}") for kind, cases in CASES.items() for case in cases],
)
def test_victims_are_as_recorded(kind: str, case: dict[str, Any]) -> None:
    assert check(case, kind) == ""
