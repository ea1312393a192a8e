"""README.md and SCENARIOS.md name tests and recordings that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dispatch_index
from dispatch_index import index

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
README = (HERE / "README.md").read_text()


def short_names() -> dict[str, Path]:
    found = {}
    for short, name in re.findall(r"`(\w+)` =\s+`([\w/.]+\.py)`", README):
        folder = HERE.parent if name.startswith("dispatch/") else TESTS / "simulation" / "dispatch"
        found[short] = folder / name
    return found


def test_every_file_that_is_named_exists() -> None:
    files = [*short_names().values(), *(TESTS.parent / name for name in re.findall(r"`(tests/[\w/.]+\.py)", README))]
    assert len(files) > 10
    assert [str(path) for path in files if not path.exists()] == []


def test_every_test_that_is_named_exists() -> None:
    names = short_names()
    missing = []
    for place, test in re.findall(r"`([\w/.]+)::(test_\w+)`", README):
        path = names.get(place) or TESTS.parent / place
        if f"def {test}(" not in path.read_text():
            missing.append(f"{place}::{test}")
    assert missing == []


def test_every_recording_that_is_named_exists() -> None:
    have = {path.name.partition("-")[0] for path in (TESTS / "data" / "multikueue").glob("*.json")}
    named = {
        name for text in re.findall(r"recordings? ([\w, ]+)", README) for name in re.findall(r"\b\d\d[a-g]?\b", text)
    }
    assert len(named) > 15
    assert named - have == set()


def test_every_scenario_has_a_test_or_a_reason_or_is_called_open() -> None:
    text = dispatch_index.OUTPUT.read_text()
    named = dict(re.findall(r"^- ([A-Z]{3}-\d+): `(.*)`$", text, re.MULTILINE))
    claims = index.read_claims(dispatch_index.CLAIMS.read_text())
    assert named == claims.tests
    assert not set(named) & set(claims.reasons)
    assert index.missing(named.values(), index.collect(dispatch_index.FOLDERS)) == []
    total = re.search(r"^\| \*\*all\*\* \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert total is not None
    count, tested, refused, still = map(int, total.groups())
    assert (tested, refused) == (len(named), len(claims.reasons))
    assert count == tested + refused + still
