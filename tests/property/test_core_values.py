"""Laws of quantities and selectors."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from corral.core import quantity, selectors
from corral.core.quantity import Quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
quantities = st.builds(
    lambda sign, whole, fraction, suffix: Quantity.parse(f"{sign}{whole}{fraction}{suffix}"),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**6),
    st.one_of(st.just(""), st.integers(0, 10**6).map(lambda digits: f".{digits}")),
    st.sampled_from(SUFFIXES),
)

ZERO = Quantity.parse("0")


@given(quantities, quantities, quantities)
def test_quantities_form_a_commutative_group(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + ZERO == a
    assert a + -a == ZERO
    assert a - b == a + -b
    assert 3 * a == a + a + a


@given(quantities)
def test_the_canonical_text_has_the_same_value_and_is_a_fixed_point(a: Quantity) -> None:
    text = str(a + ZERO)
    assert Quantity.parse(text) == a
    assert quantity.canonical(text) == text


@given(quantities, quantities)
def test_order_agrees_with_subtraction(a: Quantity, b: Quantity) -> None:
    assert (a < b) == ((a - b).nanos < 0)


@given(st.text(max_size=12))
def test_any_text_parses_or_raises_a_quantity_error(text: str) -> None:
    if quantity.is_quantity(text):
        assert Quantity.parse(quantity.canonical(text)) == Quantity.parse(text)


keys = st.sampled_from(["a", "b", "example.com/c"])
values = st.sampled_from(["", "x", "y", "3", "10"])
requirements = st.one_of(
    keys,
    keys.map(lambda key: f"!{key}"),
    st.builds(lambda key, op, value: f"{key}{op}{value}", keys, st.sampled_from(["=", "==", "!="]), values),
    st.builds(lambda key, op, found: f"{key} {op} ({','.join(found)})", keys, st.sampled_from(["in", "notin"]),
              st.lists(values.filter(bool), min_size=1)),
    st.builds(lambda key, op, number: f"{key}{op}{number}", keys, st.sampled_from("<>"), st.integers(0, 20)),
)  # fmt: skip


@given(st.lists(requirements), st.dictionaries(keys, values))
def test_a_selector_and_its_text_select_the_same(parts: list[str], labels: dict[str, str]) -> None:
    selector = selectors.parse_label_selector(",".join(parts))
    assert selectors.parse_label_selector(str(selector)) == selector
    assert selector.matches(labels) == all(selectors.parse_label_selector(part).matches(labels) for part in parts)


@given(st.text(alphabet="ab=!(),<> in", max_size=20))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    with contextlib.suppress(selectors.SelectorError):
        assert selectors.parse_label_selector(text).matches({}) in (True, False)
