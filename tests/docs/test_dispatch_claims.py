"""Pages that say which test shows what name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "docs" / "reference" / "multikueue-claims.md"
FAULTS = ROOT / "tests" / "simulation" / "dispatch" / "README.md"


@pytest.mark.parametrize(
    ("page", "base"), [(CLAIMS, ROOT / "tests"), (FAULTS, FAULTS.parent)], ids=["claims", "faults"]
)
def test_every_test_a_page_names_exists(page: Path, base: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", page.read_text())
    assert len(named) > 15
    for file, function in named:
        path = base / file if (base / file).exists() else ROOT / file
        assert path.exists(), f"{page.name} names {file}"
        assert not function or f"def {function}(" in path.read_text(), f"{page.name} names {file}::{function}"
