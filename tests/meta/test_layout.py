"""The house is furnished as its map says: rooms of a size one can look over, each said what it is for, tests beside them.

A test under `tests/unit` is found by the path of what it tests: `tests/unit/<room>/test_<module>.py`, with a word more where a
module has several; `test_<room>.py` tests a room as a whole.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "corral"
UNIT = ROOT / "tests" / "unit"
MOST_MODULES = 25

VAGUE = (
    "beyond",
    "more",
    "details",
    "closing",
    "misc",
    "various",
    "other",
    "others",
    "very_many",
    "differences",
    "stuff",
)
"""Names of buckets: they say where a test was put, not what it shows."""

OF_SEVERAL_MODULES = {
    "decide/member/test_rules.py": "small tables, one for each pure module of the room",
    "decide/placement/test_decisions.py": "small tables, one for each pure module of the room",
    "kinds/kubernetes/test_recorded_errors.py": "recorded answers about every built-in kind",
    "kinds/kubernetes/test_refused_creates.py": "recorded answers about every built-in kind",
    "kinds/kubernetes/test_rules.py": "defaults and rules of every built-in kind, one line each",
    "kinds/kubernetes/test_status_defaults.py": "one property of every built-in kind",
    "server/test_answers.py": "answers of the whole API, from request to response",
}


def packages() -> list[Path]:
    return sorted({path.parent for path in SOURCE.rglob("*.py")})


def modules(package: Path) -> list[Path]:
    return sorted(path for path in package.glob("*.py") if path.name != "__init__.py")


def has_rooms(package: Path) -> bool:
    return any((path / "__init__.py").exists() for path in package.iterdir())


def named_by(test: Path) -> Path | None:
    """What a test of `tests/unit` names: a module of its room, or the room."""
    room = SOURCE / test.relative_to(UNIT).parent
    words = test.stem.removeprefix("test_").split("_")
    for length in range(len(words), 0, -1):
        name = "_".join(words[:length])
        for place in (room / f"{name}.py", room / name):
            if place.exists():
                return place
        if room.name == name and length == len(words):
            return room
    return None


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_unit_test_stands_where_what_it_tests_stands() -> None:
    lost = [path.relative_to(UNIT).as_posix() for path in UNIT.rglob("test_*.py") if named_by(path) is None]
    assert sorted(lost) == sorted(OF_SEVERAL_MODULES)


def test_no_test_file_is_a_bucket() -> None:
    vague = [
        relative(path)
        for path in (ROOT / "tests").rglob("*.py")
        if (name := path.stem.removeprefix("test_")) in VAGUE or name.endswith(tuple(f"_{word}" for word in VAGUE))
    ]
    assert vague == []


@pytest.mark.parametrize("package", packages(), ids=relative)
def test_a_room_can_be_looked_over(package: Path) -> None:
    found = modules(package)
    assert len(found) <= MOST_MODULES
    assert len(found) != 1 or has_rooms(package), f"{relative(package)} holds {found[0].name} alone: let it be a module"


@pytest.mark.parametrize("package", packages(), ids=relative)
def test_every_room_and_every_module_says_what_it_is_for(package: Path) -> None:
    assert (package / "__init__.py").exists()
    silent = [relative(path) for path in package.glob("*.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []
