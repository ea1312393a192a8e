"""Tests wait for conditions, not for time to pass: nobody but `tests/waiting.py` sleeps on the wall clock.

What a test hands to a container as its program is data: a job may take its time. `asyncio.sleep` is virtual time, but for tests of
real processes, where it is the pause of a loop that waits for something.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

TESTS = Path(__file__).parents[1]
THE_ONE = TESTS / "waiting.py"


def sleeps(source: str) -> Iterator[int]:
    """The lines that sleep, by whatever name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "sleep" and getattr(node.value, "id", "") == "time":
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (node.lineno for name in node.names if name.name == "sleep")


def test_nobody_else_sleeps_on_the_wall_clock() -> None:
    found = {path.relative_to(TESTS).as_posix(): list(sleeps(path.read_text())) for path in TESTS.rglob("*.py")}
    assert {path for path, lines in found.items() if lines} == {THE_ONE.name}


def test_sleeping_is_noticed() -> None:
    assert sorted(sleeps("import time\ntime.sleep(1)\nfrom time import sleep\n'time.sleep(1)'")) == [2, 3]


def test_the_first_true_answer_is_given() -> None:
    answers = iter([0, "", "yes", "no"])
    assert eventually(lambda: next(answers), pause=0) == "yes"


def test_a_question_that_fails_is_asked_again_and_what_never_happens_says_why() -> None:
    tries = iter(range(3))

    def answer() -> bool:
        assert next(tries) == 2
        return True

    assert eventually(answer, pause=0)
    with pytest.raises(AssertionError, match=r"^dawn did not happen within 0 s$") as failure:
        eventually(lambda: 1 // 0, 0, what="dawn", failing=(ZeroDivisionError,), pause=0)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
