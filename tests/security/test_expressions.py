"""Expressions have a price, and an object has only so much to spend: no rule works for long, and no text grows for ever."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.cel import CelError, compile_expression, cost
from corral.core.schema.rules import OUT_OF_BUDGET, check_rules
from corral.core.schema.structural import compile_schema

LONG = "x" * 1_000_000
MANY = list(range(2000))
DEAR = {
    "a long text looked through for every element": ("self.l.all(n, !self.t.contains('y'))", {"t": LONG, "l": MANY}),
    "a long text compared for every element": ("self.l.all(n, self.t == self.u)", {"t": LONG, "u": LONG + "", "l": MANY}),
    "a long text matched for every element": ("self.l.all(n, self.t.matches('x'))", {"t": LONG, "l": MANY}),
    "a long text searched for every element": ("self.l.all(n, self.t.find('y+') == '')", {"t": LONG, "l": MANY}),
    "a large list compared for every element": ("self.l.all(n, self.m == self.m)", {"m": [[n] for n in MANY] * 9, "l": MANY}),
    "a large list looked through for every element": ("self.l.all(n, n in self.l)", {"l": MANY}),
    "a text that doubles": (
        "".join(f"cel.bind(a{n}, {f'a{n - 1}' if n else 'self.t'} + {f'a{n - 1}' if n else 'self.t'}, " for n in range(22))
        + "a21.size() > 0" + ")" * 22,
        {"t": "x" * 64},
    ),
    "a text that is multiplied": ("self.t.replace('x', self.t).size() > 0", {"t": "x" * 100_000}),
    "a separator that is multiplied": ("self.l.join(self.t).size() > 0", {"t": LONG, "l": ["a"] * 2000}),
    "every pair of a list": ("self.l.distinct().size() > 0", {"l": list(range(5000))}),
    "what another part would make up for": ("self.l.exists(n, self.t.contains('y')) || true", {"t": LONG * 5, "l": MANY}),
    "a loop in a loop": ("self.l.all(a, self.l.all(b, a + b >= 0))", {"l": MANY}),
}  # fmt: skip


@pytest.mark.parametrize("what", DEAR)
def test_what_costs_too_much_is_given_up(what: str) -> None:
    source, value = DEAR[what]
    program = compile_expression(source, {"self": None})
    with pytest.raises(CelError, match="cost limit exceeded"):
        program.evaluate(value)


@pytest.mark.parametrize("what", DEAR)
def test_the_same_on_something_small_is_affordable(what: str) -> None:
    source, value = DEAR[what]
    small = {name: item[:20] for name, item in value.items()}
    if what != "a text that doubles":
        assert compile_expression(source, {"self": None}).evaluate(small) in (True, False)


def test_the_rules_of_an_object_share_a_budget() -> None:
    rule = {"rule": "self.l.all(n, n >= 0)"}
    item = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [rule],
    }
    schema = compile_schema({"type": "array", "items": item})
    affordable = [{"l": MANY}] * (cost.OBJECT_BUDGET // 2500)
    assert check_rules(affordable, schema) == []
    dear: list[Any] = [{"l": MANY}] * (cost.OBJECT_BUDGET // 1000)
    assert check_rules(dear, schema)[-1] == OUT_OF_BUDGET
