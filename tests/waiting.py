"""Waiting for something that happens outside the test: on a condition, with a deadline, never for a length of time.

Only tests of real processes need it; everything else runs on virtual time. This is the one place that sleeps. It needs the
standard library alone, so that scripts run by other interpreters can use it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 180.0
"""Waiting costs nothing when the thing happens, and a machine may be busy for a while."""
_PAUSE_S = 0.1

T = TypeVar("T")


def eventually(
    condition: Callable[[], T],
    seconds: float = PATIENCE_S,
    *,
    what: str = "it",
    failing: tuple[type[Exception], ...] = (AssertionError,),
    pause: float = _PAUSE_S,
) -> T:
    """The first true answer; an AssertionError when there is none in time. A question that fails is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        last: Exception | None = None
        try:
            if answer := condition():
                return answer
        except failing as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds:g} s") from last
        time.sleep(pause)
