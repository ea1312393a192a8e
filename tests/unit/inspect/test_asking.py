"""One cluster that hangs does not hold up what the others say."""

from __future__ import annotations

import threading

from corral.inspect.asking import asked_at_once


def test_the_others_answer_and_the_one_that_hangs_is_named() -> None:
    never = threading.Event()

    def fail() -> str:
        raise ValueError("no")

    answers = asked_at_once({"a": lambda: "here", "b": lambda: str(never.wait()), "c": fail}, seconds=0.2)
    never.set()
    assert list(answers) == ["a", "b", "c"]
    assert answers["a"] == "here"
    assert isinstance(answers["b"], TimeoutError)
    assert str(answers["b"]) == "it did not answer within 0.2 s"
    assert isinstance(answers["c"], ValueError)
