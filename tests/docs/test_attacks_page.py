"""The page of attacks names tests that are there, and every file of `tests/security` is on it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security" / "attacks.md"
NAMED = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)::(test_\w+)`")


def file_of(name: str) -> Path:
    return ROOT / name if "/" in name else ROOT / "tests" / "security" / name


@cache
def defined_in(file: Path) -> set[str]:
    found = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if set(row[0]) != {"-"} and row[-1] != "test"]


def test_every_attack_says_what_happens_and_names_tests_that_are_there() -> None:
    assert len(rows()) > 70
    for attack, outcome, shown in rows():
        named = NAMED.findall(shown)
        assert attack, shown
        assert outcome, attack
        assert named, attack
        assert re.sub(NAMED, "", shown).strip(" ,") == "", f"{attack}: what is not a test"
        for file, test in named:
            assert test in defined_in(file_of(file)), f"{attack}: {file} has no {test}"


def test_every_test_file_of_security_is_on_the_page() -> None:
    there = {path.name for path in (ROOT / "tests" / "security").glob("test_*.py")}
    shown = {file for _, _, tests in rows() for file, _ in NAMED.findall(tests) if "/" not in file}
    assert there - shown == set()
