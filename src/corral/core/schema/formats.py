"""String formats that a custom resource schema may ask for, as the API server understands them.

Formats not listed here are documentation and are never checked.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from corral.core import names, regex
from corral.core.remembering import remembered

Check = Callable[[str], bool]


def _matches(pattern: str) -> Check:
    return lambda text: regex.fullmatch(pattern, text)


def _parses(parse: Callable[[str], object]) -> Check:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


_DATE_TIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[tT](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?", re.ASCII
)

_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)


@remembered(1024)  # everything written within a second carries the same few
def is_date_time(text: str) -> bool:
    """RFC 3339 with the few liberties the API server takes: fractions, and a time zone that may be missing."""
    if not text:
        return True
    match = _DATE_TIME.fullmatch(text)
    if match is None or match[2] is None:
        return False
    return is_date(match[1]) and int(match[2]) < 24 and int(match[3]) < 60 and int(match[4]) <= 60


def is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def is_bytes(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_uri(text: str) -> bool:
    """An absolute URL or an absolute path."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


_NUMBER: Final = r"[0-9]*\.?[0-9]+|[0-9]+\."
is_go_duration: Final = _matches(rf"[-+]?(?:0|(?:(?:{_NUMBER})(?:ns|us|µs|μs|ms|s|m|h))+)")
_is_worded_duration: Final = _matches(
    r"(?:[0-9]+\s*(?:ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?"
    r"|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)\s*)+"
)


def is_duration(text: str) -> bool:
    return is_go_duration(text) or _is_worded_duration(text)


_HEX: Final = "[0-9a-f]"
_HOSTNAME: Final = _matches(r"[a-zA-Z0-9](?:[-a-zA-Z0-9]{0,62})?(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]{0,62})?)*\.?")

FORMATS: Final[dict[str, Check]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "uri": is_uri,
    "email": _matches(r"[^@\s]+@[^@\s]+"),
    "hostname": lambda text: len(text) <= 255 and _HOSTNAME(text),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": lambda text: "/" in text and _parses(lambda part: ipaddress.ip_network(part, strict=False))(text),
    "mac": _matches(
        rf"(?i)(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}|(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}|(?:{_HEX}{{4}}\.){{2}}{_HEX}{{4}}"
    ),
    "uuid": _matches(rf"(?i){_HEX}{{8}}-?(?:{_HEX}{{4}}-?){{3}}{_HEX}{{12}}"),
    "uuid3": _matches(rf"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(rf"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(rf"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": lambda text: _is_isbn10(text),
    "isbn13": lambda text: _is_isbn13(text),
    "creditcard": lambda text: 12 <= len(re.sub("[^0-9]", "", text)) <= 19,
    "ssn": _matches("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matches("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(r"rgb\(\s*(?:[0-9]{1,3}\s*,\s*){2}[0-9]{1,3}\s*\)"),
    "byte": is_bytes,
    "password": lambda text: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: not names.check_label(text),
    "k8slongname": lambda text: not names.check_subdomain(text),
}


def find_check(name: str) -> Check | None:
    """The check for the format `name`, None when the format is not one the server checks."""
    return FORMATS.get(name.replace("-", ""))


def _without_marks(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


def _is_isbn10(text: str) -> bool:
    """Ten digits, the last of which checks the others and may be X for ten."""
    found = _without_marks(text)
    if not re.fullmatch("[0-9]{9}[0-9X]", found):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(found, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    """Thirteen digits, the last of which checks the others."""
    found = _without_marks(text)
    if not re.fullmatch("[0-9]{13}", found):
        return False
    return sum((1, 3)[place % 2] * int(digit) for place, digit in enumerate(found)) % 10 == 0
