"""Protobuf request bodies: `application/vnd.kubernetes.protobuf`, which kubectl and Go clients send for built-in kinds.

A body is the magic `k8s\\0` and a runtime.Unknown message with apiVersion, kind and the raw object. `decode` turns it
into the JSON-shaped object the same client would have sent as JSON; `encode` is its inverse. Field numbers come from the
generated facts about Go types.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from corral.core.meta import Obj
from corral.core.timestamps import format_duration, format_micro, format_time, parse_duration, parse_time
from corral.kinds.machinery.gotypes import Field, is_struct, own_fields_of, underlying

MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GROUPS = {
    "": "core", "apiextensions.k8s.io": "apiextensions", "apiregistration.k8s.io": "apiregistration",
}  # fmt: skip
_META_KINDS = frozenset(
    {"DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions", "ListOptions", "GetOptions", "Status"}
)
_WRAPPED_LISTS = frozenset(
    {"authentication/v1.ExtraValue", "authorization/v1.ExtraValue", "certificates/v1.ExtraValue"}
)


class ProtobufError(ValueError):
    """The bytes are no protobuf message of the type they claim to be."""


def go_type_for(api_version: str, kind: str) -> str:
    """The Go type of an object by its apiVersion and kind, whether or not it exists."""
    group, _, version = api_version.rpartition("/")
    if kind in _META_KINDS or api_version == "meta.k8s.io/v1":
        return f"meta/v1.{kind}"
    return f"{_GROUPS.get(group, group.partition('.')[0])}/{version}.{kind}"


def decode(body: bytes) -> Obj:
    """The object in a request body. Raises ProtobufError when it cannot be read."""
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    api_version = kind = ""
    raw = b""
    for number, value in _parts(body[len(MAGIC) :]):
        if number == 1:
            for inner, text in _parts(_as_bytes(value)):
                if inner == 1:
                    api_version = _as_bytes(text).decode()
                elif inner == 2:
                    kind = _as_bytes(text).decode()
        elif number == 2:
            raw = _as_bytes(value)
    go_type = go_type_for(api_version, kind)
    try:
        known = is_struct(go_type)
    except FileNotFoundError:
        known = False
    if not known:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"kind": kind, "apiVersion": api_version, **_read(go_type, raw)}


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and raw values of one message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            number_value, position = _varint(data, position)
            yield number, number_value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if position + size > len(data):
            raise ProtobufError("unexpected EOF")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtobufError("unexpected EOF" if position >= len(data) else "proto: integer overflow")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType")
    return value


@cache
def _by_number(go_type: str) -> dict[int, Field]:
    return {field.number: field for field in own_fields_of(go_type) if field.number}


def _read(go_type: str, data: bytes) -> Obj:
    fields = _by_number(go_type)
    result: Obj = {}
    for number, value in _parts(data):
        field = fields.get(number)
        if field is not None and field.inline:
            result.update(_read(field.type.lstrip("*"), _as_bytes(value)))
        elif field is not None:
            _add(result, field, value)
    return result


def _add(result: Obj, field: Field, value: int | bytes) -> None:
    """Put one occurrence of a field into the object; repeated ones accumulate."""
    name, kind = field.json_name, field.type.lstrip("*")
    actual = underlying(kind)
    if actual.startswith("map["):
        entry = dict(_parts(_as_bytes(value)))
        element = actual.partition("]")[2]
        key = _as_bytes(entry.get(1, b"")).decode()
        found = entry.get(2)
        result.setdefault(name, {})[key] = _value(element, found) if found is not None else _empty(element)
    elif actual.startswith("[]") and actual != "[]byte":
        items = result.setdefault(name, [])
        element = underlying(actual[2:])
        if element in ("int32", "int64") and isinstance(value, bytes):
            position = 0
            while position < len(value):
                number, position = _varint(value, position)
                items.append(_signed(number))
        else:
            items.append(_value(actual[2:], value))
    else:
        result[name] = _value(kind, value)


def _empty(go_type: str) -> Any:
    actual = underlying(go_type)
    if go_type in _READERS:
        return _READERS[go_type](b"")
    if actual == "[]byte":
        return ""
    return {"string": "", "bool": False}.get(actual, {} if is_struct(actual) else 0)


def _value(go_type: str, value: int | bytes) -> Any:
    if go_type in _READERS:
        return _READERS[go_type](_as_bytes(value))
    if go_type in _WRAPPED_LISTS:
        return [_as_bytes(item).decode() for number, item in _parts(_as_bytes(value)) if number == 1]
    go_type = go_type.lstrip("*")
    actual = underlying(go_type)
    if actual == "string":
        return _text(value)
    if actual == "bool":
        return bool(value)
    if actual == "[]byte":
        return base64.b64encode(_as_bytes(value)).decode()
    if actual == "float64":
        return _plain(struct.unpack("<d", _as_bytes(value))[0])
    if is_struct(actual):
        return _read(actual, _as_bytes(value))
    if isinstance(value, bytes):
        raise ProtobufError("proto: wrong wireType")
    return _signed(value)


def _text(value: int | bytes) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("proto: string field contains invalid UTF-8") from None


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) and abs(number) < 2**53 else number


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


# Types with their own message


def _seconds(data: bytes) -> tuple[int, int]:
    parts = dict(_parts(data))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    assert isinstance(seconds, int)
    assert isinstance(nanos, int)
    return _signed(seconds), _signed(nanos)


def _read_time(data: bytes) -> Any:
    return format_time(_seconds(data)[0]) if data else None


def _read_micro_time(data: bytes) -> Any:
    if not data:
        return None
    seconds, nanos = _seconds(data)
    return format_micro(seconds + nanos // 1000 / 1e6)


def _read_duration(data: bytes) -> Any:
    return format_duration(_seconds(data)[0] / 1e9)


def _read_quantity(data: bytes) -> Any:
    return next((_text(value) for number, value in _parts(data) if number == 1), "0")


def _read_int_or_string(data: bytes) -> Any:
    parts = dict(_parts(data))
    if parts.get(1, 0) == 1:
        return _text(parts.get(3, b""))
    number = parts.get(2, 0)
    assert isinstance(number, int)
    return _signed(number)


def _read_json(data: bytes) -> Any:
    raw = next((value for number, value in _parts(data) if number == 1), b"")
    try:
        return json.loads(raw) if raw and not isinstance(raw, int) else None
    except ValueError as error:
        raise ProtobufError(str(error)) from None


_SCHEMA = "apiextensions/v1.JSONSchemaProps"


def _read_schema_or(data: bytes) -> Any:
    """JSONSchemaPropsOrBool, OrArray and OrStringArray: field 1 and 2 mean different things, told apart by wire type."""
    parts = list(_parts(data))
    schemas = [value for number, value in parts if isinstance(value, bytes)]
    if not schemas:
        return bool(next((value for number, value in parts if number == 1), 0))
    return _read(_SCHEMA, schemas[0])


def _read_schema_or_list(data: bytes) -> Any:
    parts = list(_parts(data))
    single = [value for number, value in parts if number == 1]
    if single:
        return _read(_SCHEMA, _as_bytes(single[0]))
    return [_read(_SCHEMA, _as_bytes(value)) for number, value in parts if number == 2]


def _read_schema_or_strings(data: bytes) -> Any:
    parts = list(_parts(data))
    strings = [_text(value) for number, value in parts if number == 2]
    return strings or _read(_SCHEMA, _as_bytes(parts[0][1]) if parts else b"")


_READERS = {
    "meta/v1.Time": _read_time,
    "meta/v1.MicroTime": _read_micro_time,
    "meta/v1.Duration": _read_duration,
    "resource.Quantity": _read_quantity,
    "intstr.IntOrString": _read_int_or_string,
    "runtime.RawExtension": _read_json,
    "meta/v1.FieldsV1": _read_json,
    "apiextensions/v1.JSON": _read_json,
    "apiextensions/v1.JSONSchemaPropsOrBool": _read_schema_or,
    "apiextensions/v1.JSONSchemaPropsOrArray": _read_schema_or_list,
    "apiextensions/v1.JSONSchemaPropsOrStringArray": _read_schema_or_strings,
}


# Encoding


def encode(obj: Obj) -> bytes:
    """An object as a protobuf body; KeyError or LookupError when its kind has no protobuf form."""
    type_meta = _field(1, obj["apiVersion"].encode()) + _field(2, obj["kind"].encode())
    raw = _write(go_type_for(obj["apiVersion"], obj["kind"]), obj)
    return MAGIC + _field(1, type_meta) + _field(2, raw) + _field(3, b"") + _field(4, b"")


def _write(go_type: str, obj: Obj) -> bytes:
    out = b""
    for number, field in sorted(_by_number(go_type).items()):
        if field.inline:
            out += _field(number, _write(field.type.lstrip("*"), obj))
        elif obj.get(field.json_name) is not None:
            out += _write_field(number, field.type.lstrip("*"), obj[field.json_name])
    return out


def _write_field(number: int, go_type: str, value: Any) -> bytes:
    actual = underlying(go_type)
    if actual.startswith("map["):
        element = actual.partition("]")[2]
        entries = ((key.encode(), _write_field(2, element, value[key])) for key in sorted(value))
        return b"".join(_field(number, _field(1, key) + item) for key, item in entries)
    if go_type in _WRAPPED_LISTS:
        return _field(number, b"".join(_field(1, item.encode()) for item in value))
    if actual.startswith("[]") and actual != "[]byte":
        return b"".join(_write_field(number, actual[2:], item) for item in value)
    if go_type in _WRITERS:
        return _field(number, _WRITERS[go_type](value))
    if actual == "string":
        return _field(number, value.encode())
    if actual == "[]byte":
        return _field(number, base64.b64decode(value))
    if actual == "float64":
        return _number(number << 3 | _FIXED64) + struct.pack("<d", value)
    if is_struct(actual):
        return _field(number, _write(actual, value))
    return _number(number << 3) + _number(int(value))


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(data)) + data


def _integer_field(number: int, value: int) -> bytes:
    return _number(number << 3) + _number(value)


def _write_time(value: str) -> bytes:
    micros = round(parse_time(value) * 1_000_000)
    return _integer_field(1, micros // 1_000_000) + _integer_field(2, micros % 1_000_000 * 1000)


def _write_int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return _integer_field(1, 1) + _integer_field(2, 0) + _field(3, value.encode())
    return _integer_field(1, 0) + _integer_field(2, value) + _field(3, b"")


def _write_json(value: Any) -> bytes:
    return _field(1, json.dumps(value, separators=(",", ":")).encode())


def _write_schema_or(value: Any) -> bytes:
    if isinstance(value, bool):
        return _integer_field(1, value)
    return _integer_field(1, 1) + _field(2, _write(_SCHEMA, value))


def _write_schema_or_list(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_field(2, _write(_SCHEMA, item)) for item in value)
    return _field(1, _write(_SCHEMA, value))


def _write_schema_or_strings(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_field(2, item.encode()) for item in value)
    return _field(1, _write(_SCHEMA, value))


_WRITERS = {
    "meta/v1.Time": _write_time,
    "meta/v1.MicroTime": _write_time,
    "meta/v1.Duration": lambda value: _integer_field(1, round(parse_duration(value) * 1e9)),
    "resource.Quantity": lambda value: _field(1, str(value).encode()),
    "intstr.IntOrString": _write_int_or_string,
    "runtime.RawExtension": _write_json,
    "meta/v1.FieldsV1": _write_json,
    "apiextensions/v1.JSON": _write_json,
    "apiextensions/v1.JSONSchemaPropsOrBool": _write_schema_or,
    "apiextensions/v1.JSONSchemaPropsOrArray": _write_schema_or_list,
    "apiextensions/v1.JSONSchemaPropsOrStringArray": _write_schema_or_strings,
}
