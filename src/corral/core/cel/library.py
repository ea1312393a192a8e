"""The functions and methods every expression can call: CEL's own, and what Kubernetes adds.

`FUNCTIONS` are called as `f(x)` (some under a name space, `sets.contains(a, b)`), `METHODS` as `x.f(y)`.
Each checks its arguments and raises "no such overload" for the wrong ones.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cmp_to_key, partial, total_ordering
from itertools import pairwise
from typing import Any, Final

from corral.core import names, quantity
from corral.core.cel import network, strings
from corral.core.cel.values import (
    NONE,
    CelError,
    Optional,
    UInt,
    add,
    checked,
    checked_unsigned,
    contains,
    equals,
    less,
    no_overload,
    parse_duration,
    parse_timestamp,
    some,
    text_of,
    type_of,
)

Function = Callable[..., Any]


def size(value: Any) -> int:
    if type(value) in (str, list, dict, bytes):
        return len(value)
    raise no_overload("size")


def to_int(value: Any) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is UInt:
        return checked(int(value))
    if kind is float:
        if not -(2.0**63) < value < 2.0**63:
            raise CelError("integer overflow")
        return int(value)
    if kind is str and re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
        return checked(int(value))
    if kind is datetime:
        return int(value.timestamp() // 1)
    raise (
        CelError(f"type conversion error from '{type_of(value).name}' to 'int'") if kind is str else no_overload("int")
    )


def to_uint(value: Any) -> UInt:
    if type(value) in (int, UInt):
        return checked_unsigned(int(value))
    if type(value) is float and 0 <= value < 2.0**64:
        return UInt(int(value))
    if type(value) is str and re.fullmatch("[0-9]+", value, re.ASCII):
        return checked_unsigned(int(value))
    raise CelError("unsigned integer overflow") if type(value) is float else no_overload("uint")


def to_double(value: Any) -> float:
    if type(value) in (int, UInt, float):
        return float(value)
    if type(value) is str:
        try:
            return float(value.replace("_", "x"))
        except ValueError:
            raise CelError(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from None
    raise no_overload("double")


def to_bytes(value: Any) -> bytes:
    if type(value) is str:
        return value.encode()
    if type(value) is bytes:
        return value
    raise no_overload("bytes")


def to_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in ("true", "True", "TRUE", "t", "1"):
            return True
        if value in ("false", "False", "FALSE", "f", "0"):
            return False
        raise CelError(f'strconv.ParseBool: parsing "{value}": invalid syntax')
    raise no_overload("bool")


def to_timestamp(value: Any) -> datetime:
    if type(value) is str:
        return parse_timestamp(value)
    if type(value) is datetime:
        return value
    if type(value) is int:
        try:
            return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError):
            raise CelError("timestamp overflow") from None
    raise no_overload("timestamp")


def to_duration(value: Any) -> timedelta:
    if type(value) is str:
        return parse_duration(value)
    if type(value) is timedelta:
        return value
    raise no_overload("duration")


def _zone(name: Any) -> tzinfo:
    if type(name) is not str:
        raise no_overload("timezone")
    match = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name, re.ASCII)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo  # large, and rarely asked for

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _part(of_time: Callable[[datetime], int] | None, of_span: Callable[[timedelta], int] | None = None) -> Function:
    def read(value: Any, zone: Any = "UTC") -> int:
        if type(value) is datetime and of_time is not None:
            return of_time(value if zone == "UTC" else value.astimezone(_zone(zone)))
        if type(value) is timedelta and of_span is not None:
            return of_span(value)
        raise no_overload("timestamp accessor")

    return read


def _whole(unit: timedelta) -> Callable[[timedelta], int]:
    return lambda span: int(span / unit)


def _list(value: Any, name: str) -> list[Any]:
    if type(value) is not list:
        raise no_overload(name)
    return value


def is_sorted(items: Any) -> bool:
    found = _list(items, "isSorted")
    return not any(less(after, before) for before, after in pairwise(found))


def sum_of(items: Any) -> Any:
    found = _list(items, "sum")
    if not found:
        return 0
    total = found[0]
    for item in found[1:]:
        total = add(total, item)
    return total


def _extreme(name: str, better: Callable[[Any, Any], bool]) -> Function:
    def choose(items: Any) -> Any:
        found = _list(items, name)
        if not found:
            raise CelError(f"{name} called on empty list")
        best = found[0]
        for item in found[1:]:
            if better(item, best):
                best = item
        return best

    return choose


def index_of(items: Any, item: Any, start: Any = 0) -> int:
    if type(items) is str:
        return strings.index_of(items, item, start)
    found = _list(items, "indexOf")
    return next((at for at, other in enumerate(found) if equals(item, other)), -1)


def last_index_of(items: Any, item: Any, end: Any = None) -> int:
    if type(items) is str:
        return strings.last_index_of(items, item, end)
    found = _list(items, "lastIndexOf")
    return next((at for at in range(len(found) - 1, -1, -1) if equals(item, found[at])), -1)


def slice_of(items: Any, start: Any, end: Any) -> list[Any]:
    found = _list(items, "slice")
    if type(start) is not int or type(end) is not int:
        raise no_overload("slice")
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(found):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(found)}")
    return found[start:end]


def flatten(items: Any, depth: Any = 1) -> list[Any]:
    result: list[Any] = []
    for item in _list(items, "flatten"):
        result += (flatten(item, depth - 1) if depth > 0 else [item]) if type(item) is list and depth > 0 else [item]
    return result


def sort(items: Any) -> list[Any]:
    return sorted(_list(items, "sort"), key=cmp_to_key(lambda a, b: -1 if less(a, b) else int(less(b, a))))


def distinct(items: Any) -> list[Any]:
    result: list[Any] = []
    for item in _list(items, "distinct"):
        if not contains(item, result):
            result.append(item)
    return result


def reverse(value: Any) -> Any:
    if type(value) in (str, list):
        return value[::-1]
    raise no_overload("reverse")


def list_range(count: Any) -> list[int]:
    if type(count) is not int or count > 100_000:
        raise no_overload("lists.range")
    return list(range(count))


def _sets(name: str, test: Callable[[list[Any], list[Any]], bool]) -> Function:
    return lambda a, b: test(_list(a, name), _list(b, name))


def _contains_all(a: list[Any], b: list[Any]) -> bool:
    return all(contains(item, a) for item in b)


@total_ordering
class QuantityValue:
    """A resource quantity inside an expression."""

    cel_type = "kubernetes.Quantity"
    __slots__ = ("amount",)

    def __init__(self, amount: quantity.Quantity) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.amount == other.amount

    def __lt__(self, other: QuantityValue) -> bool:
        return self.amount < other.amount

    def __hash__(self) -> int:
        return hash(self.amount)

    def cel_text(self) -> str:
        return str(self.amount)


def to_quantity(text: Any) -> QuantityValue:
    if type(text) is not str:
        raise no_overload("quantity")
    try:
        return QuantityValue(quantity.Quantity.parse(text))
    except quantity.QuantityError as error:
        raise CelError(str(error)) from None


def is_quantity(text: Any) -> bool:
    if type(text) is not str:
        raise no_overload("isQuantity")
    return quantity.is_quantity(text)


@total_ordering
class Semver:
    """A semantic version."""

    cel_type = "kubernetes.Semver"
    __slots__ = ("numbers", "pre", "text")
    PATTERN = re.compile(
        r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
    )

    def __init__(self, text: str) -> None:
        match = self.PATTERN.fullmatch(text)
        if match is None:
            raise CelError(f'semver parse error during conversion from string: "{text}"')
        self.text = text
        self.numbers = (int(match[1]), int(match[2]), int(match[3]))
        self.pre = match[4] or ""

    def _key(self) -> tuple[Any, ...]:
        parts = (
            [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre.split(".")] if self.pre else []
        )
        return (self.numbers, not self.pre, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self.numbers)

    def cel_text(self) -> str:
        return self.text


def to_semver(text: Any, normalize: Any = False) -> Semver:
    if type(text) is not str:
        raise no_overload("semver")
    if normalize:
        text = ".".join(
            [*[str(int(part)) for part in text.removeprefix("v").split(".") if part.isdigit()], "0", "0"][:3]
        )
    return Semver(text)


def is_semver(text: Any, normalize: Any = False) -> bool:
    if type(text) is not str:
        raise no_overload("isSemver")
    try:
        to_semver(text, normalize)
    except CelError:
        return False
    return True


def _both(a: Any, b: Any, name: str) -> None:
    if type(a) is not type(b) or not isinstance(a, QuantityValue | Semver):
        raise no_overload(name)


def compare_to(a: Any, b: Any) -> int:
    _both(a, b, "compareTo")
    return -1 if a < b else int(a > b)


def is_less_than(a: Any, b: Any) -> bool:
    _both(a, b, "isLessThan")
    return bool(a < b)


def is_greater_than(a: Any, b: Any) -> bool:
    _both(a, b, "isGreaterThan")
    return bool(a > b)


def _amount(value: Any, name: str) -> quantity.Quantity:
    if isinstance(value, QuantityValue):
        return value.amount
    if type(value) is int:
        return quantity.Quantity.parse(value)
    raise no_overload(name)


def quantity_add(a: Any, b: Any) -> QuantityValue:
    return QuantityValue(_amount(a, "add") + _amount(b, "add"))


def quantity_sub(a: Any, b: Any) -> QuantityValue:
    return QuantityValue(_amount(a, "sub") - _amount(b, "sub"))


def _as_integer(value: Any) -> int:
    nanos = _amount(value, "asInteger").nanos
    if nanos % 10**9:
        raise CelError("cannot convert value to integer")
    return checked(nanos // 10**9)


def _sign(value: Any) -> int:
    nanos = _amount(value, "sign").nanos
    return (nanos > 0) - (nanos < 0)


def base64_decode(text: Any) -> bytes:
    try:
        return base64.b64decode(strings.text_argument(text, "base64.decode") + "==", validate=False)
    except (binascii.Error, ValueError):
        raise CelError("illegal base64 data") from None


class NamedFormat:
    """A named format of texts, as `format.named("dns1123Label")` gives one."""

    cel_type = "kubernetes.NamedFormat"
    __slots__ = ("check",)

    def __init__(self, check: Callable[[str], list[str]]) -> None:
        self.check = check


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(names.mask_trailing_dash(text))


def _uuid(text: str) -> list[str]:
    found = re.fullmatch("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", text)
    return [] if found else ["does not match the UUID format"]


def _parsed(parse: Callable[[str], object], complaint: str) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        try:
            parse(text)
        except (CelError, ValueError):
            return [complaint]
        return []

    return check


_FORMATS: Final[dict[str, Callable[[str], list[str]]]] = {
    "dns1123Label": names.check_label,
    "dns1123Subdomain": names.check_subdomain,
    "dns1035Label": names.check_label_1035,
    "dns1123LabelPrefix": _prefix(names.check_label),
    "dns1123SubdomainPrefix": _prefix(names.check_subdomain),
    "dns1035LabelPrefix": _prefix(names.check_label_1035),
    "qualifiedName": names.check_qualified_name,
    "labelValue": names.check_label_value,
    "uri": _parsed(network.parse_url, "invalid URI"),
    "uuid": _uuid,
    "byte": _parsed(lambda text: base64.b64decode(text, validate=True), "invalid base64"),
    "date": _parsed(lambda text: datetime.strptime(text, "%Y-%m-%d"), "invalid date"),
    "datetime": _parsed(parse_timestamp, "invalid datetime"),
}


def named_format(name: Any) -> Optional:
    found = _FORMATS.get(name) if type(name) is str else None
    return some(NamedFormat(found)) if found else NONE


def validate_format(value: Any, text: Any) -> Optional:
    if not isinstance(value, NamedFormat):
        raise no_overload("validate")
    complaints = value.check(strings.text_argument(text, "validate"))
    return some(complaints) if complaints else NONE


def of_non_zero(value: Any) -> Optional:
    zero = value is None or value in (0, "", b"", False) or (type(value) in (list, dict) and not value)
    return NONE if zero else some(value)


def _optional(value: Any, name: str) -> Optional:
    if type(value) is not Optional:
        raise no_overload(name)
    return value


def optional_value(value: Any) -> Any:
    if not _optional(value, "value").present:
        raise CelError("optional.none() dereference")
    return value.value


FUNCTIONS: Final[dict[str, Function]] = {
    "size": size,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": text_of,
    "bytes": to_bytes,
    "bool": to_bool,
    "timestamp": to_timestamp,
    "duration": to_duration,
    "dyn": lambda value: value,
    "type": type_of,
    "matches": strings.matches,
    "optional.of": some,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": of_non_zero,
    "optional.unwrap": lambda items: [
        item.value for item in _list(items, "unwrap") if _optional(item, "unwrap").present
    ],
    "sets.contains": _sets("sets.contains", _contains_all),
    "sets.equivalent": _sets("sets.equivalent", lambda a, b: _contains_all(a, b) and _contains_all(b, a)),
    "sets.intersects": _sets("sets.intersects", lambda a, b: any(contains(item, a) for item in b)),
    "lists.range": list_range,
    "strings.quote": strings.quote,
    "base64.encode": lambda value: base64.b64encode(to_bytes(value)).decode(),
    "base64.decode": base64_decode,
    "quantity": to_quantity,
    "isQuantity": is_quantity,
    "semver": to_semver,
    "isSemver": is_semver,
    "format.named": named_format,
    **{f"format.{name}": partial(NamedFormat, check) for name, check in _FORMATS.items()},
    **network.FUNCTIONS,
}

METHODS: Final[dict[str, Function]] = {
    "size": size,
    **strings.METHODS,
    "indexOf": index_of,
    "lastIndexOf": last_index_of,
    "isSorted": is_sorted,
    "sum": sum_of,
    "min": _extreme("min", less),
    "max": _extreme("max", lambda a, b: less(b, a)),
    "slice": slice_of,
    "flatten": flatten,
    "sort": sort,
    "distinct": distinct,
    "reverse": reverse,
    "first": lambda items: some(items[0]) if _list(items, "first") else NONE,
    "last": lambda items: some(items[-1]) if _list(items, "last") else NONE,
    "getFullYear": _part(lambda t: t.year),
    "getMonth": _part(lambda t: t.month - 1),
    "getDate": _part(lambda t: t.day),
    "getDayOfMonth": _part(lambda t: t.day - 1),
    "getDayOfWeek": _part(lambda t: (t.weekday() + 1) % 7),
    "getDayOfYear": _part(lambda t: t.timetuple().tm_yday - 1),
    "getHours": _part(lambda t: t.hour, _whole(timedelta(hours=1))),
    "getMinutes": _part(lambda t: t.minute, _whole(timedelta(minutes=1))),
    "getSeconds": _part(lambda t: t.second, _whole(timedelta(seconds=1))),
    "getMilliseconds": _part(lambda t: t.microsecond // 1000, lambda span: span.microseconds // 1000),
    "hasValue": lambda value: _optional(value, "hasValue").present,
    "value": optional_value,
    "sign": _sign,
    "isInteger": lambda value: _amount(value, "isInteger").nanos % 10**9 == 0,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _amount(value, "asApproximateFloat").number,
    "add": quantity_add,
    "sub": quantity_sub,
    "compareTo": compare_to,
    "isLessThan": is_less_than,
    "isGreaterThan": is_greater_than,
    "major": lambda value: value.numbers[0] if isinstance(value, Semver) else _reject("major"),
    "minor": lambda value: value.numbers[1] if isinstance(value, Semver) else _reject("minor"),
    "patch": lambda value: value.numbers[2] if isinstance(value, Semver) else _reject("patch"),
    "validate": validate_format,
    **network.METHODS,
}


def _reject(name: str) -> Any:
    raise no_overload(name)
