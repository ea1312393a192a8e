"""Quantities parse, print and compare as Kubernetes' do."""

from __future__ import annotations

import pytest

from corral.core import quantity
from corral.core.quantity import Quantity, QuantityError

CANONICAL = {
    "0.5": "500m", "1024Mi": "1Gi", "1Gi": "1Gi", "1000m": "1", "100m": "100m", "1.5Gi": "1536Mi", "0.1": "100m",
    "1e3": "1e3", "12e2": "1200", "5.0": "5", "0": "0", "0.0": "0", "0Gi": "0", "1025Mi": "1025Mi", "0.5Ki": "512",
    "1000": "1k", "1500": "1500", "1000000": "1M", "1Ki": "1Ki", "1023Ki": "1023Ki", "1048576Ki": "1Gi", "2500m": "2500m",
    "100u": "100u", "1000n": "1u", "0.0001n": "1n", ".5": "500m", "-1": "-1", "-0.5": "-500m", "1E": "1E", "1000P": "1E",
    "9999999999999999999Ei": "9223372036854775807", "3.2Gi": "3435973836800m", "-2Gi": "-2Gi",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CANONICAL.items())
def test_canonical_form(text: str, expected: str) -> None:
    assert quantity.canonical(text) == expected
    assert quantity.canonical(expected) == expected


@pytest.mark.parametrize(("number", "expected"), [(1, "1"), (1.0, "1"), (0.1, "100m"), (1500, "1500"), (2.5, "2500m")])
def test_numbers_are_accepted(number: float, expected: str) -> None:
    assert quantity.canonical(number) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", quantity.FORMAT_ERROR),
        ("lots", quantity.FORMAT_ERROR),
        ("1 ", quantity.FORMAT_ERROR),
        ("--1", quantity.FORMAT_ERROR),
        ("1..2", quantity.FORMAT_ERROR),
        ("1e", quantity.SUFFIX_ERROR),
        ("1Km", quantity.SUFFIX_ERROR),
        (".", quantity.NUMERIC_ERROR),
        ("1e999999999", quantity.NUMERIC_ERROR),
    ],
)
def test_bad_text_is_refused_in_upstream_words(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == message


def test_helpers_round_up() -> None:
    assert quantity.milli("1.5") == 1500
    assert quantity.milli("1u") == 1
    assert quantity.milli("-1500u") == -1
    assert quantity.value("1Gi") == 2**30
    assert quantity.value("100m") == 1


def test_booleans_are_not_quantities() -> None:
    assert quantity.milli(1) == 1000
    with pytest.raises(QuantityError):
        quantity.milli(True)
    assert not quantity.is_quantity(True)
    assert not quantity.is_quantity(None)
    assert quantity.is_quantity("1Gi")


def test_arithmetic_keeps_the_family_of_the_left_operand() -> None:
    total = Quantity.parse("1Gi") + Quantity.parse("512Mi")
    assert str(total) == "1536Mi"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("1") - Quantity.parse("250m")) == "750m"
    assert str(3 * Quantity.parse("500m")) == "1500m"
    assert Quantity.parse("1000m") == Quantity.parse("1")
    assert Quantity.parse("1Ki") > Quantity.parse("1k")
    assert not Quantity.parse("0")
