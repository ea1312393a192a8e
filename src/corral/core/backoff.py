"""Pauses that double: after any number of failures, for a count may come from a status or grow for months."""

from __future__ import annotations

from typing import Final

_MOST_DOUBLINGS: Final = 60


def doubled(first: float, times: int, longest: float) -> float:
    """`first` seconds, doubled so many times, and never more than `longest`."""
    return min(first * 2.0 ** min(max(times, 0), _MOST_DOUBLINGS), longest)
