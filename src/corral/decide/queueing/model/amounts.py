"""Amounts of resources: reading quantities into integers, printing them, adding them up.

cpu is counted in thousandths, every other resource in whole units (rounded up), as upstream does; Python integers
do not overflow, so nothing saturates until a value is printed for an int64 field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from corral.core.quantity import Quantity, milli, value
from corral.decide.queueing.model.values import Amounts

MAX_INT64 = 2**63 - 1


def parse_amount(resource: str, quantity: str | int | float) -> int:
    """The integer amount of `resource` a quantity stands for."""
    return milli(quantity) if resource == "cpu" else value(quantity)


def format_limit(resource: str, amount: int) -> str:
    """Like `format_amount`; what no quantity can hold is `<unlimited>`."""
    return "<unlimited>" if amount >= MAX_INT64 else format_amount(resource, amount)


@lru_cache(maxsize=8192)
def format_amount(resource: str, amount: int) -> str:
    """The canonical quantity text of an amount, cut off where a 64-bit integer ends."""
    amount = min(amount, MAX_INT64)
    if resource == "cpu":
        return str(Quantity(amount * 1_000_000))
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return str(Quantity(amount * 10**9, "BinarySI"))
    return str(Quantity(amount * 10**9))


def add_into(total: Amounts, more: Mapping[str, int], times: int = 1) -> None:
    """Add `times` × `more` to `total` in place."""
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount * times
