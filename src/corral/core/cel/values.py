"""Values of CEL as Python values, and the operators on them.

int, float, str, bytes, bool, None, list and dict stand for themselves; unsigned integers, optionals and types have small
classes here; timestamps are aware datetimes, durations timedeltas. Integers are 64 bits wide and overflow is an error,
as is every other nonsense: CEL never coerces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from corral.core.validation import go_number


class CelError(Exception):
    """An expression that cannot be compiled, or an evaluation that failed."""


class UInt(int):
    """An unsigned integer."""


class Optional:
    """A value that may be missing."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any = None, present: bool = False) -> None:
        self.value = value
        self.present = present


NONE: Final = Optional()


def some(value: Any) -> Optional:
    return Optional(value, True)


class TypeValue:
    """The type of a value, which is itself a value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


_TYPE_NAMES: Final[dict[type, str]] = {
    int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", bool: "bool", type(None): "null_type",
    list: "list", dict: "map", datetime: "google.protobuf.Timestamp", timedelta: "google.protobuf.Duration",
    TypeValue: "type", Optional: "optional_type",
}  # fmt: skip
TYPES: Final = {
    **{name: TypeValue(name) for name in ("int", "uint", "double", "string", "bytes", "bool", "null_type", "list", "map", "type")},
    "optional_type": TypeValue("optional_type"),
}  # fmt: skip


def type_name(value: Any) -> str:
    kind = type(value)
    return _TYPE_NAMES.get(kind) or str(getattr(kind, "cel_type", kind.__name__))


def type_of(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def no_overload(name: str = "") -> CelError:
    return CelError(f"no such overload: {name}" if name else "no such overload")


def no_such_key(key: Any) -> CelError:
    return CelError(f"no such key: {key}")


def checked(number: int) -> int:
    """A 64-bit integer, or the error that it is none."""
    if -(2**63) <= number < 2**63:
        return number
    raise CelError("integer overflow")


def checked_unsigned(number: int) -> UInt:
    if 0 <= number < 2**64:
        return UInt(number)
    raise CelError("unsigned integer overflow")


_NUMBERS: Final = frozenset({int, float, UInt})


def equals(a: Any, b: Any) -> bool:
    """Equality across types: numbers compare by value, other types are simply different."""
    kind = type(a)
    if kind is type(b):
        if kind is list:
            return len(a) == len(b) and all(map(equals, a, b))
        if kind is dict:
            return len(a) == len(b) and all(key in b and equals(value, b[key]) for key, value in a.items())
        if kind is Optional:
            return a.present == b.present and (not a.present or equals(a.value, b.value))
        return bool(a == b)
    return kind in _NUMBERS and type(b) in _NUMBERS and bool(a == b)


def equals_unordered(a: Any, b: Any) -> bool:
    """Equality of lists that are sets or have keys: the order does not matter."""
    if type(a) is not list or type(b) is not list:
        return equals(a, b)
    if len(a) != len(b):
        return False
    rest = list(b)
    for item in a:
        position = next((at for at, other in enumerate(rest) if equals(item, other)), None)
        if position is None:
            return False
        del rest[position]
    return True


_ORDERED: Final = frozenset({str, bytes, bool, datetime, timedelta})


def _compare(name: str, test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(a: Any, b: Any) -> bool:
        kind, other = type(a), type(b)
        if (kind in _NUMBERS and other in _NUMBERS) or (kind is other and kind in _ORDERED):
            return test(a, b)
        raise no_overload(f"_{name}_")

    return compare


less: Final = _compare("<", lambda a, b: bool(a < b))
less_or_equal: Final = _compare("<=", lambda a, b: bool(a <= b))
greater: Final = _compare(">", lambda a, b: bool(a > b))
greater_or_equal: Final = _compare(">=", lambda a, b: bool(a >= b))


def add(a: Any, b: Any) -> Any:
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int:
            return checked(a + b)
        if kind in (str, float, list, bytes):
            return a + b
        if kind is UInt:
            return checked_unsigned(int(a) + int(b))
        if kind is timedelta:
            return a + b
    if {kind, other} == {datetime, timedelta}:
        return _in_range(lambda: a + b)
    raise no_overload("_+_")


def subtract(a: Any, b: Any) -> Any:
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int:
            return checked(a - b)
        if kind is UInt:
            return checked_unsigned(int(a) - int(b))
        if kind in (float, timedelta, datetime):
            return a - b
    if kind is datetime and other is timedelta:
        return _in_range(lambda: a - b)
    raise no_overload("_-_")


def _in_range(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except OverflowError:
        raise CelError("timestamp overflow") from None


def multiply(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return checked(a * b)
        if kind is UInt:
            return checked_unsigned(int(a) * int(b))
        if kind is float:
            return a * b
    raise no_overload("_*_")


def divide(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b) or kind not in _NUMBERS:
        raise no_overload("_/_")
    if kind is float:
        if b == 0:
            return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
        return a / b
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(int(a)) // abs(int(b))
    return checked_unsigned(quotient) if kind is UInt else checked(quotient if (a < 0) == (b < 0) else -quotient)


def modulo(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b) or kind not in (int, UInt):
        raise no_overload("_%_")
    if b == 0:
        raise CelError("modulus by zero")
    rest = abs(int(a)) % abs(int(b))
    return checked_unsigned(rest) if kind is UInt else (-rest if a < 0 else rest)


def negate(a: Any) -> Any:
    if type(a) is int:
        return checked(-a)
    if type(a) is float:
        return -a
    raise no_overload("-_")


def contains(item: Any, container: Any) -> bool:
    if type(container) is dict:
        if type(item) in (list, dict):
            raise no_overload("@in")
        if type(item) in (float, UInt):
            return any(equals(item, key) for key in container)
        return type(item) in (str, int, bool) and item in container and any(equals(item, key) for key in container)
    if type(container) is list:
        return any(equals(item, other) for other in container)
    raise no_overload("@in")


def parse_timestamp(text: str) -> datetime:
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text, re.ASCII)
    if match is None:
        raise CelError(f'cannot convert "{text}" to timestamp')
    try:
        moment = datetime.fromisoformat(f"{match[1]}{(match[2] or '')[:7]}{'+00:00' if match[3] == 'Z' else match[3]}")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise CelError(f'cannot convert "{text}" to timestamp') from None


_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_DURATION: Final = re.compile(r"([0-9]*\.?[0-9]+|[0-9]+\.)(h|ms|m|s|us|µs|μs|ns)")


def parse_duration(text: str) -> timedelta:
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    parts = _DURATION.findall(body)
    if (not parts or "".join(number + unit for number, unit in parts) != body) and body != "0":
        raise CelError(f'time: invalid duration "{text}"')
    try:
        return sign * timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise CelError("duration overflow") from None


def timestamp_text(moment: datetime) -> str:
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def duration_text(duration: timedelta) -> str:
    micros = duration // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    whole, fraction = divmod(micros, 1_000_000)
    return f"{sign}{whole}" + (f".{fraction:06}".rstrip("0") if fraction else "") + "s"


def text_of(value: Any) -> str:
    """What `string(value)` gives."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in _NUMBERS:
        return go_number(value) if kind is float else str(int(value))
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is datetime:
        return timestamp_text(value)
    if kind is timedelta:
        return duration_text(value)
    text = getattr(value, "cel_text", None)
    if text is not None:
        return str(text())
    raise no_overload("string")
