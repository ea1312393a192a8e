"""Results remembered by text, within bounds: what callers make up must not be kept, however often they ask.

A cache counts its entries, not their bytes. Whoever may choose the text chooses its length, so a long one is worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, ParamSpec, TypeVar

LONGEST: Final = 1024

P = ParamSpec("P")
R = TypeVar("R")


def remembered(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Remember the last `maxsize` results of a pure function of texts, none of them longer than LONGEST."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = lru_cache(maxsize)(function)

        @wraps(function)
        def call(*texts: P.args, **named: P.kwargs) -> R:
            for text in texts:
                if len(text) > LONGEST:  # type: ignore[arg-type]  # texts, all of them
                    return function(*texts, **named)
            return known(*texts, **named)  # type: ignore[arg-type]  # texts are hashable

        return call

    return decorate
