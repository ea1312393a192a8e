"""Go's regular expressions are searched in linear time, with Go's meaning."""

from __future__ import annotations

import pytest

from corral.core import regex


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^a$", "a\n", False),
        (r"^\d$", "٣", False),
        (r"^[[:alpha:]]+$", "ab", True),
        (r"^[[:digit:]x]+$", "1x", True),
        (r"(?i)^abc$", "ABC", True),
        (r"\Aab\z", "ab", True),
        (r"^\w+$", "é", False),
        (r"^[^]a]$", "b", True),
        ("^(a+)+$", "a" * 40 + "b", False),
    ],
)
def test_search(pattern: str, text: str, found: bool) -> None:
    assert regex.search(pattern, text) is found
    if len(text) < 40:
        assert bool(regex.compile_python(pattern).search(text)) is found


@pytest.mark.parametrize("pattern", ["(", "[", "(?=a)", "*"])
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(regex.RegexError):
        regex.search(pattern, "a")
