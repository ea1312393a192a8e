"""Pages that say which test shows what name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "docs" / "reference" / "multikueue-claims.md"
PROMISES = ROOT / "docs" / "reference" / "promises.md"
FAULTS = ROOT / "tests" / "simulation" / "dispatch" / "README.md"


@pytest.mark.parametrize(
    ("page", "base"),
    [(CLAIMS, ROOT / "tests"), (PROMISES, ROOT / "tests"), (FAULTS, FAULTS.parent)],
    ids=["claims", "promises", "faults"],
)
def test_every_test_a_page_names_exists(page: Path, base: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", page.read_text())
    assert len(named) > 15
    for file, function in named:
        path = base / file if (base / file).exists() else ROOT / file
        assert path.exists(), f"{page.name} names {file}"
        assert not function or f"def {function}(" in path.read_text(), f"{page.name} names {file}::{function}"


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PROMISES.read_text().splitlines() if line.startswith("| ")]
    told = [row for row in rows if not row.startswith("| you can rely on |")]
    assert len(told) > 50
    assert [row for row in told if "::test_" not in row.split(" | ")[-1]] == []
