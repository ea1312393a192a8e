"""How measured times are told: their median and their far end, which is a p99 only of a hundred values or more."""

from __future__ import annotations

from collections.abc import Iterable

ENOUGH = 200
"""With fewer values the 99th percentile is the slowest but one, or the slowest."""


def spread(values: Iterable[float], unit: str, scale: float = 1.0, digits: int = 1) -> str:
    ordered = sorted(value * scale for value in values)
    middle, count = ordered[len(ordered) // 2], len(ordered)
    name, far = ("p99", ordered[count * 99 // 100]) if count >= ENOUGH else (f"slowest of {count}", ordered[-1])
    return f"p50 {middle:.{digits}f} {unit}, {name} {far:.{digits}f} {unit}"
