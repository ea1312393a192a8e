"""What an evaluation costs, in the spirit of Kubernetes' cost budget: loops by their elements, text by its length, comparisons by
what is compared. A frame's slot 0 is what is left; whoever does work that grows with a value takes its price from there first.
"""

from __future__ import annotations

from typing import Any, Final

from corral.core.cel.values import CelError

BUDGET: Final = 300_000
"""What one evaluation may cost."""
OBJECT_BUDGET: Final = 1_500_000
"""What all rules of one object may cost together."""
PER_CALL: Final = 1
CHARACTERS: Final = 10
"""So many characters, or bytes, cost as much as one step of a loop."""
QUADRATIC: Final = frozenset({"distinct", "sets.contains", "sets.equivalent", "sets.intersects"})


class CostExceeded(CelError):
    """There is nothing left to spend. Unlike other errors, the rest of an expression does not make up for it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def spend(frame: list[Any], price: int) -> None:
    frame[0] -= price
    if frame[0] < 0:
        raise CostExceeded


def weight(value: Any) -> int:
    """The price of looking at all of a value once."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) // CHARACTERS
    if kind is not list and kind is not dict:
        return 0
    total, pending = 0, [value]
    while pending and total <= BUDGET:
        item = pending.pop()
        kind = type(item)
        if kind is list or kind is dict:
            total += len(item)
            pending.extend(item.values() if kind is dict else item)
        elif kind is str or kind is bytes:
            total += len(item) // CHARACTERS
    return total


def call_price(name: str, arguments: list[Any]) -> int:
    """The price of a call, known before it is made: what it reads, and what it can write at most."""
    if name in QUADRATIC:
        sizes = [len(each) for each in arguments if type(each) is list]
        return sizes[0] * sizes[-1] if sizes else 0
    price = sum(map(weight, arguments))
    if name == "replace" and len(arguments) >= 3 and all(type(each) is str for each in arguments[:3]):
        text, old, new = arguments[:3]
        return price + int(text.count(old) * len(new) // CHARACTERS)
    if name == "join" and len(arguments) == 2 and type(arguments[0]) is list and type(arguments[1]) is str:
        return price + len(arguments[0]) * len(arguments[1]) // CHARACTERS
    if name == "lists.range" and type(arguments[0]) is int:
        return max(arguments[0], 0)
    return price


class ObjectBudget:
    """What is left for the rules of one object."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = OBJECT_BUDGET

    @property
    def is_spent(self) -> bool:
        return self.left <= 0
