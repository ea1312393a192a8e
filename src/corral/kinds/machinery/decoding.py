"""Typed decoding: what Kubernetes does to an object when it reads JSON into a Go struct and writes it back.

Fields the type does not have are dropped and reported, values of the wrong type are refused in the words of Go's JSON
decoder, empty optional fields disappear, required ones appear with their zero value, quantities and times become
canonical, and fields come out in the order of the struct. Decoders are compiled per type and kept.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from corral.core import quantity
from corral.core.timestamps import format_duration, format_micro, format_time, parse_duration, parse_time
from corral.kinds.machinery.gotypes import Field, display, fields_of, is_struct, underlying

Decoder = Callable[[Any, list[bool]], Any]
"""Turns a JSON value into its canonical form; appends to the list when it met an unknown field."""

QUANTITY_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class DecodeError(Exception):
    """A value does not fit its type; the message is Go's."""

    def __init__(self, value: str, go_type: str, message: str = "") -> None:
        super().__init__(message)
        self.value = value
        self.go_type = go_type
        self.message = message
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        if self.message:
            return self.message
        kind = display(self.go_type)
        if not self.struct:
            return f"json: cannot unmarshal {self.value} into Go value of type {kind}"
        field = ".".join(reversed(self.path))
        return f"json: cannot unmarshal {self.value} into Go struct field {self.struct}.{field} of type {kind}"


def decode(go_type: str, value: Any) -> tuple[Any, list[str]]:
    """The canonical form of `value` as a `go_type`, and the paths of fields that type does not have."""
    met: list[bool] = []
    result = decoder_of(go_type)(value, met)
    return result, (unknown_fields(go_type, value) if met else [])


def unknown_fields(go_type: str, value: Any, path: str = "") -> list[str]:
    """Paths of all fields in `value` that its type does not have."""
    go_type = go_type.lstrip("*")
    actual = underlying(go_type)
    found: list[str] = []
    if go_type in _SPECIAL:
        return found
    if isinstance(value, list) and actual.startswith("[]"):
        for index, item in enumerate(value):
            found += unknown_fields(actual[2:], item, f"{path}[{index}]")
    elif isinstance(value, dict) and actual.startswith("map["):
        for key, item in value.items():
            found += unknown_fields(actual.partition("]")[2], item, f"{path}.{key}" if path else key)
    elif isinstance(value, dict) and is_struct(actual):
        known = {field.json_name: field for field in fields_of(actual)}
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            found += unknown_fields(known[key].type, item, here) if key in known else [here]
    return found


def json_type(value: Any) -> str:
    """How Go's decoder names the JSON value it met."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


@cache
def decoder_of(go_type: str) -> Decoder:
    """The compiled decoder of a type. Null means the zero value, as in Go."""
    if go_type in _SPECIAL:
        return _SPECIAL[go_type]
    if go_type.startswith("*"):
        return _pointer(go_type[1:])
    actual = underlying(go_type)
    if actual in _SPECIAL:
        return _SPECIAL[actual]
    if actual.startswith("[]"):
        return _bytes if actual == "[]byte" else _slice(go_type, actual[2:])
    if actual.startswith("map["):
        return _map(go_type, actual.partition("]")[2])
    if is_struct(actual):
        return _struct(actual)
    return _scalar(go_type, actual)


def _pointer(target: str) -> Decoder:
    inner = decoder_of(target)

    def decode_pointer(value: Any, met: list[bool]) -> Any:
        return None if value is None else inner(value, met)

    return decode_pointer


def _scalar(go_type: str, actual: str) -> Decoder:
    if actual == "string":

        def decode_string(value: Any, met: list[bool]) -> Any:
            if type(value) is str:
                return value
            if value is None:
                return ""
            raise DecodeError(json_type(value), go_type)

        return decode_string
    if actual == "bool":

        def decode_bool(value: Any, met: list[bool]) -> Any:
            if type(value) is bool:
                return value
            if value is None:
                return False
            raise DecodeError(json_type(value), go_type)

        return decode_bool
    if actual == "float64":
        return _float(go_type)
    return _integer(go_type, 31 if actual in ("int32", "uint32") else 63)


def _float(go_type: str) -> Decoder:
    def decode_float(value: Any, met: list[bool]) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if value is None:
            return 0
        raise DecodeError(json_type(value), go_type)

    return decode_float


def _integer(go_type: str, bits: int) -> Decoder:
    low, high = -(1 << bits), (1 << bits) - 1

    def decode_integer(value: Any, met: list[bool]) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        if value is None:
            return 0
        if type(value) in (int, float):
            raise DecodeError(f"number {json.dumps(value)}", go_type)
        raise DecodeError(json_type(value), go_type)

    return decode_integer


def _slice(go_type: str, element: str) -> Decoder:
    inner = decoder_of(element)

    def decode_slice(value: Any, met: list[bool]) -> Any:
        if type(value) is list:
            return [inner(item, met) for item in value]
        if value is None:
            return None
        raise DecodeError(json_type(value), go_type)

    return decode_slice


def _map(go_type: str, element: str) -> Decoder:
    inner = decoder_of(element)

    def decode_map(value: Any, met: list[bool]) -> Any:
        if type(value) is dict:
            return {key: inner(item, met) for key, item in value.items()}
        if value is None:
            return None
        raise DecodeError(json_type(value), go_type)

    return decode_map if underlying(element) != "[]byte" else _map_of_bytes(decode_map)


def _map_of_bytes(decode_map: Decoder) -> Decoder:
    """Null bytes in a map are empty bytes."""

    def decode_bytes(value: Any, met: list[bool]) -> Any:
        found = decode_map(value, met)
        return found and {key: item or "" for key, item in found.items()}

    return decode_bytes


def _struct(name: str) -> Decoder:
    short = name.rpartition(".")[2]
    decoders: dict[str, tuple[Decoder, bool, int]] = {}
    zeros: dict[str, Any] = {}

    def compile_fields() -> None:
        # Not before the first value comes: types may contain themselves.
        for position, field in enumerate(fields_of(name)):
            decoders[field.json_name] = (decoder_of(field.type), _can_drop(field), position)
            zero = _zero_of(field)
            if zero is not _ABSENT:
                zeros[field.json_name] = zero

    def decode_struct(value: Any, met: list[bool]) -> Any:
        if not decoders:
            compile_fields()
        if type(value) is not dict:
            if value is None:
                value = {}
            else:
                raise DecodeError(json_type(value), name)
        found = {}
        key, last, in_order = "", -1, True
        try:
            for key, item in value.items():
                entry = decoders.get(key)
                if entry is None:
                    met.append(True)
                    continue
                decoder, can_drop, position = entry
                result = decoder(item, met)
                if result is None or (can_drop and not result):
                    continue
                found[key] = result
                in_order = in_order and position > last
                last = position
        except DecodeError as error:
            error.struct = error.struct or short
            error.path.append(key)
            raise
        for key, zero in zeros.items():
            if key not in found:
                found[key] = zero() if callable(zero) else zero
                in_order = False
        return found if in_order else {key: found[key] for key in decoders if key in found}

    return decode_struct


_ABSENT = object()


def _can_drop(field: Field) -> bool:
    """Whether an empty value of this field is left out. Structs and pointers never are (a null pointer always is).

    Lists and maps always are: storage does not tell an empty one from none, so a required one comes back as null.
    """
    actual = underlying(field.type) if not field.type.startswith("*") else field.type
    if actual.startswith(("*",)) or is_struct(actual):
        return False
    return "e" in field.omit or actual.startswith(("[]", "map["))


def _zero_of(field: Field) -> Any:
    """What stands in the output when the input has nothing; a function where it must be made anew."""
    kind = field.type
    if kind.startswith("*"):
        return _ABSENT if "e" in field.omit else None
    if kind in _SPECIAL_ZERO:
        return _ABSENT if "z" in field.omit else _SPECIAL_ZERO[kind]
    actual = underlying(kind)
    if is_struct(actual):
        if "z" in field.omit:
            return _ABSENT
        return None if kind in _SPECIAL else (lambda: decoder_of(actual)(None, []))
    if "e" in field.omit:
        return _ABSENT
    if actual.startswith(("[]", "map[")):
        return None
    return {"string": "", "bool": False}.get(actual, 0)


# Types with their own JSON form


def _quantity(value: Any, met: list[bool]) -> Any:
    if value is None:
        return "0"
    if isinstance(value, bool | list | dict):
        raise DecodeError("", "", QUANTITY_ERROR)
    try:
        return quantity.canonical(value if isinstance(value, str) else json.dumps(value))
    except ValueError as error:
        raise DecodeError("", "", str(error) or QUANTITY_ERROR) from None


def _time(value: Any, met: list[bool]) -> Any:
    return None if value is None else format_time(_parse_time(value, "2006-01-02T15:04:05Z07:00"))


def _micro_time(value: Any, met: list[bool]) -> Any:
    return None if value is None else format_micro(_parse_time(value, "2006-01-02T15:04:05.000000Z07:00"))


def _parse_time(value: Any, layout: str) -> float:
    if not isinstance(value, str):
        raise DecodeError(json_type(value), "string")
    try:
        return parse_time(value)
    except ValueError:
        text = json.dumps(value)
        raise DecodeError("", "", f'parsing time {text} as "{layout}": cannot parse {text} as "2006"') from None


def _duration(value: Any, met: list[bool]) -> Any:
    if value is None:
        return "0s"
    if not isinstance(value, str):
        raise DecodeError(json_type(value), "string")
    try:
        return format_duration(parse_duration(value))
    except ValueError:
        raise DecodeError("", "", f"time: invalid duration {json.dumps(value)}") from None


def _int_or_string(value: Any, met: list[bool]) -> Any:
    return value if isinstance(value, str) else _INT32(value, met)


_INT32 = _integer("int32", 31)


def _bytes(value: Any, met: list[bool]) -> Any:
    if value is None:
        return None
    if not isinstance(value, str):
        raise DecodeError(json_type(value), "[]uint8")
    packed = value.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(base64.b64decode(packed, validate=True)).decode()
    except ValueError:  # also what is not ASCII
        raise DecodeError("", "", f"illegal base64 data at input byte {_first_bad_byte(packed)}") from None


def _first_bad_byte(text: str) -> int:
    alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    for index, char in enumerate(text):
        if char not in alphabet:
            return index
    return len(text) - len(text) % 4 if len(text) % 4 else len(text)


def _as_is(value: Any, met: list[bool]) -> Any:
    return value


_JSON_SCHEMA = "apiextensions/v1.JSONSchemaProps"


def _schema_or_bool(value: Any, met: list[bool]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise DecodeError("", "", "boolean or JSON schema expected")
    return decoder_of(_JSON_SCHEMA)(value, met)


def _schema_or_list(value: Any, met: list[bool]) -> Any:
    decoder = decoder_of(_JSON_SCHEMA)
    return [decoder(item, met) for item in value] if isinstance(value, list) else _schema_or_bool(value, met)


def _schema_or_strings(value: Any, met: list[bool]) -> Any:
    return value if isinstance(value, list) else _schema_or_bool(value, met)


_SPECIAL: dict[str, Decoder] = {
    "resource.Quantity": _quantity,
    "meta/v1.Time": _time,
    "meta/v1.MicroTime": _micro_time,
    "meta/v1.Duration": _duration,
    "intstr.IntOrString": _int_or_string,
    "runtime.RawExtension": _as_is,
    "meta/v1.FieldsV1": _as_is,
    "apiextensions/v1.JSON": _as_is,
    "apiextensions/v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions/v1.JSONSchemaPropsOrArray": _schema_or_list,
    "apiextensions/v1.JSONSchemaPropsOrStringArray": _schema_or_strings,
    "interface{}": _as_is,
}
_SPECIAL_ZERO: dict[str, Any] = {"resource.Quantity": "0", "meta/v1.Duration": "0s", "intstr.IntOrString": 0}
