"""Amounts as the page shows them: sums by resource, and the part of a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corral.core.quantity import Quantity, milli

ByResource = dict[str, Quantity]


def added(total: ByResource, more: Mapping[str, object], times: int = 1) -> None:
    """Add amounts as they stand in objects to a sum."""
    for resource, amount in more.items():
        total[resource] = total.get(resource, Quantity(0)) + Quantity.parse(str(amount)) * times


def summed(amounts: Iterable[Mapping[str, object]]) -> ByResource:
    total: ByResource = {}
    for one in amounts:
        added(total, one)
    return total


def shown(total: ByResource) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in sorted(total.items())}


def share(used: object, whole: object) -> float | None:
    """The part of a whole that is used, 1.0 for all of it; None where there is no whole."""
    all_of_it = milli(str(whole or "0"))
    return round(milli(str(used)) / all_of_it, 4) if all_of_it else None
