"""Resource quantities: exact values with the suffixes and the canonical form of Kubernetes.

A quantity is a number with a decimal (n u m k M G T P E), binary (Ki Mi Gi Ti Pi Ei) or exponent (e3) suffix.
The value is held as an integer count of nano-units, so arithmetic never rounds; finer input is rounded away
from zero to the next nano-unit. The suffix family is remembered because it decides how the value is printed.
Schedulers and validators use the cached helpers `milli`, `value` and `canonical`, which cost one dictionary lookup
for a text seen before.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache, total_ordering
from typing import Final, Literal

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]
QuantityLike = str | int | float

_SPLIT: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: name for name, exponent in _DECIMAL.items()}
_BINARY_NAMES: Final = {0: "", **{exponent: name for name, exponent in _BINARY.items()}}
_NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _NANO
# Beyond this many digits or powers of ten a text is an attack, not a quantity.
_MAX_DIGITS: Final = 512

FORMAT_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_ERROR: Final = "unable to parse numeric part of quantity"
SUFFIX_ERROR: Final = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a quantity; the message is the one Kubernetes gives."""


@total_ordering
class Quantity:
    """An exact amount. Equality, order and hash are those of the number; the format only matters for printing."""

    __slots__ = ("_text", "format", "nanos")

    def __init__(self, nanos: int, format: Format = "DecimalSI", text: str = "") -> None:
        self.nanos = nanos
        self.format: Format = format
        self._text = text

    @classmethod
    def parse(cls, text: QuantityLike) -> Quantity:
        """Parse a quantity as JSON or YAML carry it; raises QuantityError."""
        return _parse(text if isinstance(text, str) else _number_text(text))

    @property
    def milli(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nanos // 1_000_000)

    @property
    def value(self) -> int:
        """Whole units, rounded up."""
        return -(-self.nanos // _NANO)

    @property
    def number(self) -> float:
        """The amount as a float; what none can hold is the largest there is."""
        return as_float(self.nanos) / _NANO

    def __str__(self) -> str:
        return self._text or _render(self.nanos, self.format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self._joint_format(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self._joint_format(other))

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nanos * factor, self.format)

    def __rmul__(self, factor: int) -> Quantity:
        return self * factor

    def _joint_format(self, other: Quantity) -> Format:
        # A zero has no opinion on how the sum is printed.
        return self.format if self.nanos or not other.nanos else other.format


def as_float(amount: int) -> float:
    """An amount as a float; what none can hold is the largest there is, so that reckoning with it never fails."""
    try:
        return float(amount)
    except OverflowError:
        return sys.float_info.max if amount > 0 else -sys.float_info.max


@lru_cache(maxsize=65536, typed=True)
def milli(text: QuantityLike) -> int:
    """`text` in thousandths, rounded up: milli("1.5") == 1500."""
    return Quantity.parse(text).milli


@lru_cache(maxsize=65536, typed=True)
def value(text: QuantityLike) -> int:
    """`text` in whole units, rounded up: value("1Gi") == 1073741824."""
    return Quantity.parse(text).value


def canonical(text: QuantityLike) -> str:
    """`text` as the API server stores it: canonical("0.5") == "500m"."""
    return str(Quantity.parse(text))


def is_quantity(text: object) -> bool:
    """True when `text` can be parsed as a quantity."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return False
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _number_text(number: float) -> str:
    if isinstance(number, bool):
        raise QuantityError(FORMAT_ERROR)
    return repr(number)


@lru_cache(maxsize=65536)
def _parse(text: str) -> Quantity:
    match = _SPLIT.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_ERROR)
    sign, whole, fraction, suffix = match.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise QuantityError(NUMERIC_ERROR if text.startswith((".", "+.", "-.")) else FORMAT_ERROR)
    base, exponent, format = _suffix(suffix)
    digits = int((whole + fraction)[:_MAX_DIGITS])
    if len(whole) + len(fraction) > _MAX_DIGITS or abs(exponent) > _MAX_DIGITS:
        raise QuantityError(NUMERIC_ERROR)
    amount = _scale_up(digits, base, exponent, len(fraction))
    if format == "BinarySI":
        amount = min(amount, _MAX_BINARY)
        if 0 < amount < _NANO:
            format = "DecimalSI"
    verbatim = _is_kept_verbatim(text, whole.lstrip("0") or "0", fraction, exponent, format)
    return Quantity(-amount if sign == "-" else amount, format, text if verbatim else "")


def _suffix(suffix: str) -> tuple[int, int, Format]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return 2, _BINARY[suffix], "BinarySI"
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1]) > 10:
        raise QuantityError(SUFFIX_ERROR)
    return 10, int(match[1]), "DecimalExponent"


def _scale_up(digits: int, base: int, exponent: int, places: int) -> int:
    """`digits` / 10^places * base^exponent in nano-units, rounded away from zero."""
    if base == 2:
        return -(-(digits << exponent) * _NANO // 10**places) if places else (digits << exponent) * _NANO
    shift = exponent + 9 - places
    power: int = 10 ** abs(shift)
    return digits * power if shift >= 0 else -(-digits // power)


def _is_kept_verbatim(text: str, whole: str, fraction: str, exponent: int, format: Format) -> bool:
    """True for the texts Kubernetes takes as already canonical and prints back unchanged."""
    digits = whole + fraction
    if format == "BinarySI":
        return not fraction and int(digits) & 7 != 0 and len(digits) + exponent * 3 // 10 <= 14
    scale = exponent - len(fraction)
    return len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")


@lru_cache(maxsize=65536)
def _render(nanos: int, format: Format) -> str:
    if nanos == 0:
        return "0"
    if format == "BinarySI" and abs(nanos) >= 1024 * _NANO and nanos % _NANO == 0:
        return _render_binary(nanos // _NANO)
    return _render_decimal(nanos, "DecimalExponent" if format == "DecimalExponent" else "DecimalSI")


def _render_binary(amount: int) -> str:
    exponent = 0
    while amount % 1024 == 0 and exponent < 60:
        amount //= 1024
        exponent += 10
    return f"{amount}{_BINARY_NAMES[exponent]}"


def _render_decimal(nanos: int, format: Format) -> str:
    mantissa, exponent = nanos, -9
    limit = 18 if format == "DecimalSI" else 10**6
    while mantissa % 1000 == 0 and exponent < limit:
        mantissa //= 1000
        exponent += 3
    if format == "DecimalSI":
        return f"{mantissa}{_DECIMAL_NAMES[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)
