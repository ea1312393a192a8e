"""Times and durations on the wire: RFC 3339 in UTC, Go duration strings."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from corral.core.remembering import remembered


@lru_cache(maxsize=4096)
def _format_second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC).isoformat()[:19]}Z"  # strftime writes early years with fewer digits


def format_time(epoch: float) -> str:
    """Whole seconds, as metav1.Time prints them; fractions are cut."""
    return _format_second(int(epoch))


def format_micro(epoch: float) -> str:
    """Six fractional digits, as metav1.MicroTime prints them."""
    micros = round(epoch * 1_000_000)
    return f"{_format_second(micros // 1_000_000)[:-1]}.{micros % 1_000_000:06d}Z"


_FIRST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_END = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() + 1
_LONGEST = 2**63 / 1e9


@remembered(4096)
def parse_time(text: str) -> float:
    """Epoch seconds of an RFC 3339 time with any offset and precision; ValueError when it is none."""
    parsed = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    if parsed.tzinfo is None:
        raise ValueError(f"time {text!r} has no offset")
    moment = parsed.timestamp()
    if not _FIRST <= moment < _END:
        raise ValueError(f"time {text!r} is not between the years 1 and 9999 in UTC")
    return moment


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as `1h2m3.5s`; ValueError when it is none."""
    sign, body = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if body == "0":
        return 0.0
    position, total = 0, 0.0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None:
            raise ValueError(f"invalid duration {text!r}")
        total += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if position == 0:
        raise ValueError(f"invalid duration {text!r}")
    if total >= _LONGEST:
        raise ValueError(f"invalid duration {text!r}")
    return sign * total


def format_duration(seconds: float) -> str:
    """The Go form of a duration: `5m0s`, `1h0m0s`, `1.5s`, `250ms`, `0s`."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    nanos = round(seconds * 1e9)
    if nanos == 0:
        return "0s"
    if nanos < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{_decimal(nanos, size)}{unit}"
    whole, rest = divmod(nanos, 60_000_000_000)
    hours, minutes = divmod(whole, 60)
    tail = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    if rest == 0:
        return str(whole)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
