"""The functions of CEL on strings, formatting included."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from corral.core import regex
from corral.core.cel.values import (
    CelError,
    TypeValue,
    UInt,
    duration_text,
    no_overload,
    text_of,
    timestamp_text,
)
from corral.core.validation import go_number, go_quote


def text_argument(value: Any, name: str) -> str:
    if type(value) is not str:
        raise no_overload(name)
    return value


def _int(value: Any, name: str) -> int:
    if type(value) is not int:
        raise no_overload(name)
    return value


def contains(text: Any, part: Any) -> bool:
    return text_argument(part, "contains") in text_argument(text, "contains")


def starts_with(text: Any, part: Any) -> bool:
    return text_argument(text, "startsWith").startswith(text_argument(part, "startsWith"))


def ends_with(text: Any, part: Any) -> bool:
    return text_argument(text, "endsWith").endswith(text_argument(part, "endsWith"))


def matches(text: Any, pattern: Any) -> bool:
    try:
        return regex.search(text_argument(pattern, "matches"), text_argument(text, "matches"))
    except regex.RegexError as error:
        raise CelError(str(error)) from None


def _found(text: Any, pattern: Any, name: str, limit: int) -> list[str]:
    try:
        return list(islice(regex.find(text_argument(pattern, name), text_argument(text, name)), limit))
    except regex.RegexError as error:
        raise CelError(str(error)) from None


def find(text: Any, pattern: Any) -> str:
    return next(iter(_found(text, pattern, "find", 1)), "")


def find_all(text: Any, pattern: Any, limit: Any = -1) -> list[str]:
    wanted = _int(limit, "findAll")
    return _found(text, pattern, "findAll", wanted if wanted >= 0 else sys.maxsize)


def char_at(text: Any, index: Any) -> str:
    body, at = text_argument(text, "charAt"), _int(index, "charAt")
    if not 0 <= at <= len(body):
        raise CelError(f"index out of range: {at}")
    return body[at : at + 1]


def index_of(text: Any, part: Any, start: Any = 0) -> int:
    body, wanted, begin = text_argument(text, "indexOf"), text_argument(part, "indexOf"), _int(start, "indexOf")
    if not 0 <= begin <= len(body):
        raise CelError(f"index out of range: {begin}")
    return body.find(wanted, begin)


def last_index_of(text: Any, part: Any, end: Any = None) -> int:
    body, wanted = text_argument(text, "lastIndexOf"), text_argument(part, "lastIndexOf")
    if end is None:
        return body.rfind(wanted)
    if not 0 <= _int(end, "lastIndexOf") <= len(body):
        raise CelError(f"index out of range: {end}")
    return body.rfind(wanted, 0, end + len(wanted))


def join(items: Any, separator: Any = "") -> str:
    if type(items) is not list:
        raise no_overload("join")
    return text_argument(separator, "join").join(text_argument(item, "join") for item in items)


def replace(text: Any, old: Any, new: Any, limit: Any = -1) -> str:
    body = text_argument(text, "replace")
    return body.replace(text_argument(old, "replace"), text_argument(new, "replace"), _int(limit, "replace"))


def split(text: Any, separator: Any, limit: Any = -1) -> list[str]:
    body, between, most = text_argument(text, "split"), text_argument(separator, "split"), _int(limit, "split")
    if most == 0:
        return []
    if not between:
        parts = list(body)
        return parts if most < 0 or most >= len(parts) else [*parts[: most - 1], body[most - 1 :]]
    return body.split(between, most - 1 if most > 0 else -1)


def substring(text: Any, start: Any, end: Any = None) -> str:
    body, begin = text_argument(text, "substring"), _int(start, "substring")
    stop = len(body) if end is None else _int(end, "substring")
    if not (0 <= begin <= len(body) and 0 <= stop <= len(body)):
        raise CelError(f"index out of range: {begin if not 0 <= begin <= len(body) else stop}")
    if begin > stop:
        raise CelError(f"invalid substring range. start: {begin}, end: {stop}")
    return body[begin:stop]


def _ascii_case(convert: Callable[[str], str], name: str) -> Callable[[Any], str]:
    def change(text: Any) -> str:
        return "".join(convert(char) if char.isascii() else char for char in text_argument(text, name))

    return change


def trim(text: Any) -> str:
    return text_argument(text, "trim").strip()


def quote(text: Any) -> str:
    return go_quote(text_argument(text, "strings.quote"))


def format_text(template: Any, arguments: Any) -> str:
    """`"%s is %d".format([a, b])`."""
    template = text_argument(template, "format")
    if type(arguments) is not list:
        raise no_overload("format")
    parts: list[str] = []
    position, used = 0, 0
    while position < len(template):
        char = template[position]
        position += 1
        if char != "%":
            parts.append(char)
            continue
        if template[position : position + 1] == "%":
            parts.append("%")
            position += 1
            continue
        precision = 6
        if template[position : position + 1] == ".":
            digits = position + 1
            while digits < len(template) and template[digits].isdigit():
                digits += 1
            precision = min(int(template[position + 1 : digits] or 0), 1000)
            position = digits
        verb = template[position : position + 1]
        position += 1
        if used >= len(arguments):
            raise CelError(f"index {used} out of range")
        parts.append(_format_one(verb, arguments[used], precision))
        used += 1
    return "".join(parts)


def _format_one(verb: str, value: Any, precision: int) -> str:
    kind = type(value)
    if verb == "s":
        return _format_string(value)
    if verb == "d" and (kind in (int, UInt) or _non_finite(value)):
        return _non_finite(value) or str(int(value))
    if verb in ("f", "e") and kind in (int, UInt, float):
        return _non_finite(value) or f"{float(value):.{precision}{verb}}"
    if verb == "b" and kind in (int, UInt, bool):
        return f"{int(value):b}"
    if verb in ("x", "X", "o") and kind in (int, UInt):
        return f"{int(value):{verb}}"
    if verb in ("x", "X") and kind in (str, bytes):
        raw = value.hex() if kind is bytes else value.encode().hex()
        return str(raw if verb == "x" else raw.upper())
    raise CelError(f"error during formatting: no such overload for %{verb}")


def _non_finite(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return ""


def _format_string(value: Any) -> str:
    kind = type(value)
    if kind is list:
        return "[" + ", ".join(map(_format_string, value)) + "]"
    if kind is dict:
        entries = {_format_string(key): _format_string(item) for key, item in value.items()}
        return "{" + ", ".join(f"{key}: {entries[key]}" for key in sorted(entries)) + "}"
    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if kind is float:
        return _non_finite(value) or go_number(value)
    if kind is datetime:
        return timestamp_text(value)
    return duration_text(value) if kind is timedelta else text_of(value)


METHODS: Final[dict[str, Callable[..., Any]]] = {
    "contains": contains,
    "startsWith": starts_with,
    "endsWith": ends_with,
    "matches": matches,
    "find": find,
    "findAll": find_all,
    "charAt": char_at,
    "join": join,
    "replace": replace,
    "split": split,
    "substring": substring,
    "lowerAscii": _ascii_case(str.lower, "lowerAscii"),
    "upperAscii": _ascii_case(str.upper, "upperAscii"),
    "trim": trim,
    "format": format_text,
}
