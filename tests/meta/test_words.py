"""Words: retired ones stay out of identifiers and module names, and the glossary points at what is there."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "corral"
GLOSSARY = ROOT / "docs" / "glossary.md"

RETIRED = {
    "surroundings": "view, inputs, lookups or evidence: whatever is looked at",
    "around": "view, inputs or evidence",
    "errand": "task",
    "errands": "tasks",
    "whereabouts": "possible locations",
    "unwelcome": "rejection",
    "bookings": "reservations",
    "upkeep": "requeue triggers",
    "stir": "mark dirty",
    "stirred": "dirty",
    "told": "reported, last message, reasons: whatever it is",
    "elsewhere": "remote, or other workers, other namespaces",
    "peace": "queue terms",
}
"""A word that is no part of an identifier any more, and what is said instead."""

MEANS_ONE_THING = (
    "Candidate",
    "Context",
    "Draft",
    "Feed",
    "Finish",
    "Intake",
    "Look",
    "Share",
    "Step",
    "Surroundings",
    "Turns",
    "Verdict",
    "View",
    "Wait",
    "Write",
)
"""Names of which there is at most one class or alias; several rooms had one each."""

MODULES = sorted(SOURCES.rglob("*.py"))


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def identifiers(path: Path) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def test_no_identifier_uses_a_retired_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}: say {RETIRED[word]}"
        for path in MODULES
        for name in sorted(identifiers(path))
        for word in sorted(words_of(name) & RETIRED.keys())
    ]
    assert not found


def test_no_module_is_named_by_a_retired_word() -> None:
    found = [str(path.relative_to(ROOT)) for path in MODULES if words_of(path.stem) & RETIRED.keys()]
    assert not found


@pytest.mark.parametrize("name", MEANS_ONE_THING)
def test_a_general_word_names_at_most_one_class(name: str) -> None:
    defined = re.compile(rf"^(class {name}\b|{name}\b( = |: ))", re.MULTILINE)
    found = [str(path.relative_to(ROOT)) for path in MODULES if defined.search(path.read_text())]
    assert len(found) <= 1, f"{name} is defined in {', '.join(found)}: say which one"


def rows() -> list[tuple[str, str]]:
    """Every word of the glossary, and where it lives."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in GLOSSARY.read_text().splitlines()
        if "|" in line
    ]
    return [(row[0], row[-1]) for row in cells if row[-1].startswith("`")]


def test_the_glossary_defines_words_in_order() -> None:
    assert len(rows()) > 40
    for chapter in GLOSSARY.read_text().split("\n## ")[1:]:
        words = [line.split("|")[1].strip().lower() for line in chapter.splitlines() if line.startswith("| ")][1:]
        assert words == sorted(words), chapter.splitlines()[0]


@pytest.mark.parametrize(("word", "where"), rows(), ids=[word for word, _ in rows()])
def test_the_glossary_points_at_what_is_there(word: str, where: str) -> None:
    path, _, name = where.strip("`").partition(":")
    assert (SOURCES / path).is_file(), f"{word}: there is no {path}"
    assert not name or name in identifiers(SOURCES / path), f"{word}: there is no {name} in {path}"
