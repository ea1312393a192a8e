"""Whole numbers in texts that others write: annotations, labels, versions.

`str.isdigit` is no test for them: it is true of "²", which `int` refuses, and of more digits than `int` takes from a text. What
is no number here is a wrong value of one object, never an error of whoever reads it.
"""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 40
"""Enough for every integer of the API, with zeros before it."""


def whole_number(text: str) -> int | None:
    """The number that `text` writes in ASCII digits alone, without a sign; None when it does not."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
