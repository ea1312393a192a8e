"""The index of scenarios tells the truth: every test it names is where it says, and no scenario is left out."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = re.findall(r"^\| (\d+) \| (.*)$", (HERE / "README.md").read_text(), flags=re.MULTILINE)


def test_every_scenario_of_the_job_kinds_is_there() -> None:
    assert {int(number) for number, _ in ROWS} >= set(range(1, 109))


def test_every_named_test_exists() -> None:
    named = [entry for _, row in ROWS for entry in re.findall(r"`(test_\w+)` in \[[^]]+\]\(([^)]+)\)", row)]
    assert len(named) >= len(ROWS)
    missing = [
        (test, file) for test, file in named if not re.search(rf"def {test}\b", (HERE / file).resolve().read_text())
    ]
    assert missing == []
