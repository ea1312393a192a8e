"""OpenAPI version 2 documents as protobuf, the only form in which Go's discovery client reads them.

Field numbers are those of the published message definitions; only what our documents contain is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from corral.core.meta import Obj

_SCHEMA_STRINGS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16, "readOnly": 27}
_SCHEMA_COUNTS = {
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "maxProperties": 17,
    "minProperties": 18,
}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _string(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _flag(field: int, value: bool) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _count(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _any(value: Any) -> bytes:
    """A free value is carried as YAML text; JSON is YAML."""
    return _string(2, msgspec.json.encode(value).decode() + "\n")


def _named(field: int, name: str, value: bytes) -> bytes:
    return _bytes(field, _string(1, name) + _bytes(2, value))


def _extensions(field: int, source: Obj) -> list[bytes]:
    return [_named(field, key, _any(value)) for key, value in source.items() if key.startswith("x-")]


class _Schemas:
    """Encodes schemas; one that occurs many times is encoded once."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}

    def encode(self, schema: Obj) -> bytes:
        data = self._known.get(id(schema))
        if data is None:
            data = self._known[id(schema)] = _schema(schema, self.encode)
        return data


def _schema(schema: Obj, inner: Callable[[Obj], bytes]) -> bytes:
    out: list[bytes] = []
    for names, write in (
        (_SCHEMA_STRINGS, _string),
        (_SCHEMA_NUMBERS, _double),
        (_SCHEMA_FLAGS, _flag),
        (_SCHEMA_COUNTS, _count),
    ):
        out += _scalars(schema, names, write)
    if "default" in schema:
        out.append(_bytes(5, _any(schema["default"])))
    out += [_string(19, name) for name in schema.get("required") or ()]
    out += [_bytes(20, _any(value)) for value in schema.get("enum") or ()]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        out.append(_bytes(21, _bytes(1, inner(additional))))
    elif additional is not None:
        out.append(_bytes(21, _flag(2, bool(additional))))
    if isinstance(schema.get("type"), str):
        out.append(_bytes(22, _string(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        out.append(_bytes(23, _bytes(1, inner(schema["items"]))))
    out += [_bytes(24, inner(part)) for part in schema.get("allOf") or ()]
    properties = schema.get("properties")
    if properties:
        out.append(_bytes(25, b"".join(_named(1, name, inner(value)) for name, value in properties.items())))
    return b"".join([*out, *_extensions(31, schema)])


def _scalars(source: Obj, names: Mapping[str, int], write: Any) -> list[bytes]:
    return [write(field, source[name]) for name, field in names.items() if source.get(name) is not None]


def _reference(schema: Obj) -> bytes:
    return _string(1, schema["$ref"])


def _parameter(parameter: Obj) -> bytes:
    """A ParametersItem holding a Parameter."""
    if parameter["in"] == "body":
        body = (
            _string(2, parameter["name"])
            + _string(3, "body")
            + _flag(4, True)
            + _bytes(5, _reference(parameter["schema"]))
        )
        return _bytes(1, _bytes(1, body))
    fields = [_string(2, parameter["in"]), _string(4, parameter["name"])]
    if parameter.get("required"):
        fields.append(_flag(1, True))
    if parameter["in"] == "path":
        return _bytes(1, _bytes(2, _bytes(4, b"".join([*fields, _string(5, parameter["type"]), _flag(19, True)]))))
    return _bytes(1, _bytes(2, _bytes(3, b"".join([*fields, _string(6, parameter["type"]), _flag(20, True)]))))


def _operation(operation: Obj) -> bytes:
    out = [_string(1, tag) for tag in operation.get("tags") or ()]
    out.append(_string(5, operation["operationId"]))
    out += [_string(6, media) for media in operation.get("produces") or ()]
    out += [_string(7, media) for media in operation.get("consumes") or ()]
    out += [_bytes(8, _parameter(parameter)) for parameter in operation["parameters"]]
    out.append(_bytes(9, b"".join(_response(code, answer) for code, answer in operation["responses"].items())))
    return b"".join([*out, *_extensions(13, operation)])


def _response(code: str, answer: Obj) -> bytes:
    body = _string(1, answer["description"]) + _bytes(2, _bytes(1, _reference(answer["schema"])))
    return _named(1, code, _bytes(1, body))


def _path(item: Obj) -> bytes:
    out = [_bytes(number, _operation(item[method])) for method, number in _METHODS.items() if method in item]
    return b"".join([*out, *[_bytes(9, _parameter(parameter)) for parameter in item.get("parameters") or ()]])


def encode_document(document: Obj) -> bytes:
    """The whole document."""
    info = _string(1, document["info"]["title"]) + _string(2, document["info"]["version"])
    paths = b"".join(_named(2, path, _path(item)) for path, item in document["paths"].items())
    schemas = _Schemas()
    definitions = b"".join(_named(1, name, schemas.encode(schema)) for name, schema in document["definitions"].items())
    return b"".join([_string(1, document["swagger"]), _bytes(2, info), _bytes(8, paths), _bytes(9, definitions)])
