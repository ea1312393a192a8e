"""Regular expressions of the Go dialect, searched in linear time.

Patterns come from custom resource definitions and CEL rules, that is, from users: a backtracking engine would let one of
them stall the server. Searching is done by the Rust engine inside jsonschema-rs, which like Go's never backtracks.
Where the text that matched is asked for (`find` in CEL), a machine of our own runs, which does not either. No pattern that is
not written in the program may go to Python's engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import jsonschema_rs

from corral.core.regex_machine import Machine, TooLarge
from corral.core.remembering import remembered


class RegexError(ValueError):
    """The pattern is not a valid regular expression."""


@remembered(4096)
def _searcher(pattern: str) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(
            {"pattern": to_rust(pattern)}, pattern_options=jsonschema_rs.RegexOptions()
        )
    except ValueError:  # jsonschema_rs.ValidationError is one; half a surrogate pair in the pattern is another
        raise RegexError(f"error parsing regexp: `{pattern}`") from None


def check(pattern: str) -> None:
    """Raises RegexError for a pattern that cannot be run: admission asks before anything is stored."""
    _searcher(pattern)


def search(pattern: str, text: str) -> bool:
    """True when `pattern` matches anywhere in `text`; raises RegexError for a bad pattern."""
    try:
        found: bool = _searcher(pattern).is_valid(text)
    except UnicodeEncodeError:
        return False  # half a surrogate pair is not text
    return found


def fullmatch(pattern: str, text: str) -> bool:
    """True when `pattern` matches the whole of `text`; raises RegexError for a bad pattern."""
    check(pattern)  # alone, or `)(` would pass between the brackets added here
    return search(rf"\A(?:{pattern})\z", text)


def find(pattern: str, text: str) -> Iterator[str]:
    """Every part of `text` that matches, as Go's FindAllString finds them; raises RegexError."""
    if not search(pattern, text):
        return
    try:
        for begin, end in _machine(pattern).matches(text):
            yield text[begin:end]
    except TooLarge:
        raise RegexError(f"the text is too long for the regexp `{pattern}`") from None


@remembered(256)
def _machine(pattern: str) -> Machine:
    try:
        return Machine(_to_python(pattern))
    except TooLarge:
        raise RegexError(f"error parsing regexp: expression too large: `{pattern}`") from None
    except (ValueError, KeyError, OverflowError, RecursionError, re.error):
        raise RegexError(f"error parsing regexp: `{pattern}`") from None


def to_rust(pattern: str) -> str:
    """`pattern` with the POSIX classes spelt out, the one thing that differs."""
    if "[:" not in pattern:
        return pattern
    for name, members in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, members)
    return pattern


_PERL_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_POSIX_CLASSES: Final = {
    "[:alnum:]": "0-9A-Za-z", "[:alpha:]": "A-Za-z", "[:ascii:]": r"\x00-\x7F", "[:blank:]": r"\t ", "[:digit:]": "0-9",
    "[:lower:]": "a-z", "[:space:]": r"\t\n\v\f\r ", "[:upper:]": "A-Z", "[:word:]": r"0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f", "[:punct:]": r"!-/:-@\[-`{-~",
}  # fmt: skip


def _to_python(pattern: str) -> str:
    """Rewrite what means something else in Python: `\\z`, classes limited to ASCII, `(?P<…>`, POSIX classes."""
    result, position, in_class = [], 0, False
    while position < len(pattern):
        char = pattern[position]
        if char == "\\" and position + 1 < len(pattern):
            result.append(_escape_sequence(pattern[position + 1], in_class))
            position += 2
            continue
        posix = next((name for name in _POSIX_CLASSES if in_class and pattern.startswith(name, position)), None)
        if posix:
            result.append(_POSIX_CLASSES[posix])
            position += len(posix)
            continue
        if char == "[" and in_class:
            result.append("\\[")
        elif char == "[":
            in_class = True
            result.append("[")
            if pattern.startswith("[^", position):
                result.append("^")
                position += 1
            if pattern[position + 1 : position + 2] == "]":
                result.append("\\]")
                position += 1
        elif char == "]" and in_class:
            in_class = False
            result.append("]")
        else:
            result.append(char)
        position += 1
    return "".join(result)


def _escape_sequence(char: str, in_class: bool) -> str:
    if char in _PERL_CLASSES:
        return _PERL_CLASSES[char] if in_class else f"[{_PERL_CLASSES[char]}]"
    if char.lower() in _PERL_CLASSES and not in_class:
        return f"[^{_PERL_CLASSES[char.lower()]}]"
    return r"\Z" if char == "z" else f"\\{char}"
