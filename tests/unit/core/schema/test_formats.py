"""Formats of strings that schemas name."""

from __future__ import annotations

import pytest

from corral.core.schema.formats import FORMATS


@pytest.mark.parametrize(
    ("name", "text", "is_good"),
    [
        ("isbn", "0-306-40615-2", True),
        ("isbn10", "080442957X", True),
        ("isbn", "978-0-306-40615-7", True),
        ("isbn13", "0306406152", False),
        ("isbn10", "9780306406157", False),
        ("isbn", "0-306-40615-3", False),
        ("isbn", "1" * 4000, False),
    ],
)
def test_a_book_number_has_ten_or_thirteen_digits_that_add_up(name: str, text: str, is_good: bool) -> None:
    assert FORMATS[name](text) is is_good
