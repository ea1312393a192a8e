"""Asking several clusters at once, none of them for longer than a moment: one that hangs does not hold up what others say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from corral.client.limits import ANSWER_S

T = TypeVar("T")


def asked_at_once(questions: Mapping[str, Callable[[], T]], seconds: float = ANSWER_S) -> dict[str, T | Exception]:
    """The answer to each question, or why there is none; one that is still open when time is up is a TimeoutError."""
    answers: dict[str, T | Exception] = {}

    def ask(name: str, question: Callable[[], T]) -> None:
        try:
            answer: T | Exception = question()
        except Exception as error:  # whatever it is, it is told where the answers are used
            answer = error
        answers.setdefault(name, answer)

    threads = [threading.Thread(target=ask, args=entry, daemon=True) for entry in questions.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for name in questions:
        answers.setdefault(name, TimeoutError(f"it did not answer within {seconds:g} s"))
    return {name: answers[name] for name in questions}
