"""Go's regular expressions are searched in linear time, with Go's meaning."""

from __future__ import annotations

import re

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
    assert bool(list(regex.find(pattern, text))) is found


@pytest.mark.parametrize("pattern", ["(", "[", "(?=a)", "*"])
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(regex.RegexError):
        regex.search(pattern, "a")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a*", "baac", ["", "aa", ""]),
        ("a*?", "aa", ["", "", ""]),
        ("a|ab", "abab", ["a", "a"]),
        ("ab|a", "abab", ["ab", "ab"]),
        ("(a|b)+?c", "abcbc", ["abc", "bc"]),
        ("a{2,3}", "aaaaaa", ["aaa", "aaa"]),
        ("a{2,3}?", "aaaaaa", ["aa", "aa", "aa"]),
        ("(a*)*", "aa", ["aa"]),
        ("(?i)ab", "aBAb", ["aB", "Ab"]),
        ("(?s).", "\n", ["\n"]),
        ("(?m)^a$", "a\nb\na", ["a", "a"]),
        (r"\bfoo\b", "foo food foo", ["foo", "foo"]),
        (r"\Bo", "oo o", ["o"]),
        (r"[^\d\s]+", "ab 1c", ["ab", "c"]),
        (r"\D+", "a1b", ["a", "b"]),
        ("x?", "", [""]),
        ("(?:a|aa)+$", "a" * 30, ["a" * 30]),
        ("b", "aaa", []),
    ],
)
def test_what_matches_is_found_as_go_finds_it(pattern: str, text: str, found: list[str]) -> None:
    assert list(regex.find(pattern, text)) == found
    if len(text) < 20 and "*" not in pattern:
        assert [match[0] for match in re.finditer(pattern, text, re.ASCII)] == found


def test_more_work_than_is_allowed_is_refused() -> None:
    with pytest.raises(regex.RegexError, match="too long"):
        list(regex.find("(a?){500}b|a", "a" * 5000))
    with pytest.raises(regex.RegexError, match="too large"):
        list(regex.find("((a{100}){20}){9}|b", "b"))
