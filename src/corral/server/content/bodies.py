"""Request bodies: JSON, YAML and protobuf in, plain objects out, with the complaints of a real server.

JSON is decoded by msgspec; the slow look for duplicate fields only happens when a cheap count says there are some.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import Any

import msgspec
import yaml

from corral.core import yaml_documents
from corral.core.errors import BadRequest, TooLarge, UnsupportedMediaType
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.server.content.go_json_errors import read_float, syntax_error, type_name
from corral.server.content.negotiation import JSON, PROTOBUF, YAML

_decode = msgspec.json.Decoder().decode
_decode_custom = msgspec.json.Decoder(float_hook=read_float).decode
_encode = msgspec.json.Encoder().encode

_VERSION_KIND = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
MAX_DUPLICATES = 100
_SHOWN_NAME = 256
_PIECE = 256 * 1024
MAX_VALUES = yaml_documents.MAX_NODES


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_json(body: bytes, decode: Callable[[bytes], Any] = _decode) -> Any:
    """The value of a JSON text; ValueError with Go's words when it is none."""
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = syntax_error(body)
        if said:
            raise ValueError(said) from error
        if isinstance(error, RecursionError):
            raise ValueError("exceeded max depth") from error
        return _decode_leniently(body, error)


def _decode_leniently(body: bytes, error: Exception) -> Any:
    """Go replaces bytes that are not UTF-8 and lone surrogates; so do we."""
    try:
        return _decode(_replaced(body).encode())
    except (msgspec.DecodeError, RecursionError) as cause:
        if b"\\u" not in body:  # an escaped surrogate is all that is left to forgive
            raise ValueError(str(error)) from cause
    try:
        value = json.loads(_replaced(body))
        text = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return _decode(text.encode())
    except (ValueError, RecursionError, msgspec.DecodeError) as cause:
        raise ValueError(str(error)) from cause


def _replaced(body: bytes) -> str:
    """The text of a body with replacements for what is not UTF-8, in pieces: a single call would hold the interpreter."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = [decoder.decode(body[start : start + _PIECE]) for start in range(0, len(body), _PIECE)]
    return "".join([*pieces, decoder.decode(b"", final=True)])


def decode_yaml(body: bytes) -> Any:
    """The value of a YAML text; ValueError with Go's words when it is none. JSON is YAML, and most bodies are JSON."""
    if body[:1] == b"{":
        try:
            return _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # YAML's own flow style, or nonsense: the parser will say
    try:
        return yaml_documents.load(body)
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"yaml: {_line_of(error)}{error.problem or error}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"yaml: {str(error).partition(chr(10))[0]}") from error


def _line_of(error: yaml.MarkedYAMLError) -> str:
    """Where the parser gave up, counted as Go's does."""
    line = error.problem_mark.line if error.problem_mark is not None else 0
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    if not line and error.context_mark is not None:
        line = error.context_mark.line
    return f"line {line}: " if line else ""


def summary(body: bytes) -> str:
    """The beginning of a body, as errors quote it."""
    if not body:
        return "<empty>"
    shown = body[:30].decode("utf-8", "replace") if body[:1] == b"{" else body[:30].hex()
    return shown + (" ..." if len(body) > 30 else "")


def unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why} ({summary(body)})")


def decode_object(body: bytes, content_type: str, resource: Resource, *, typed: bool = True) -> Obj:
    """The object in a request body; says what a real server says when there is none. Unless the endpoint is `typed`, as
    those of Kubernetes' own kinds are, the object must say itself what it is."""
    media = media_type(content_type)
    if media in ("", JSON) or media.endswith("+json"):
        return _decode_json_object(body, resource, typed)
    if media == YAML:
        try:
            return _as_object(decode_yaml(body), body, resource, typed)
        except ValueError as error:
            raise unrecognized(resource.kind, str(error), body) from error
    if media == PROTOBUF:
        return _decode_protobuf(body, resource)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}, {PROTOBUF}",
    )


def _check_type(given: Obj, body: bytes, resource: Resource) -> None:
    """Refuse a custom object that does not say, or says wrongly, what it is."""
    if not given.get("kind"):
        why = f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'"
        raise unrecognized(resource.kind, why, body)
    version = given.get("apiVersion") or ""
    if version != resource.api_version:
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )


def _decode_json_object(body: bytes, resource: Resource, typed: bool) -> Obj:
    try:
        return _as_object(decode_json(body, _decode if typed else _decode_custom), body, resource, typed)
    except ValueError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise unrecognized(resource.kind, why, body) from error


def check_count(value: Any, size: int) -> None:
    """Refuse what has more values than anything that can be stored would: each of them costs work and memory later on."""
    if size < 2 * MAX_VALUES:
        return  # a value has a byte at least, and another one separates it from the next
    left, waiting = MAX_VALUES, [value]
    while waiting:
        found = waiting.pop()
        inner = found.values() if isinstance(found, dict) else found
        left -= len(inner)
        if left < 0:
            raise TooLarge(f"Request entity too large: the body has more than {MAX_VALUES} values")
        waiting += [item for item in inner if isinstance(item, dict | list)]


def _as_object(value: Any, body: bytes, resource: Resource, typed: bool) -> Obj:
    if value is None:
        value = {}  # Go decodes null into an empty object
    if not isinstance(value, dict):
        raise ValueError(f"json: cannot unmarshal {type_name(value)} into Go value of type {_VERSION_KIND}")
    for field in ("apiVersion", "kind"):
        given = value.get(field)
        if given is not None and not isinstance(given, str):
            raise ValueError(f"json: cannot unmarshal {type_name(given)} into Go struct field .{field} of type string")
    if not typed:
        _check_type(value, body, resource)
    elif not value.get("apiVersion") or not value.get("kind"):
        # A typed endpoint says what its objects are.
        value = {
            **value,
            "apiVersion": value.get("apiVersion") or resource.api_version,
            "kind": value.get("kind") or resource.kind,
        }
    checked: Obj = value
    check_count(checked, len(body))
    return checked


def _decode_protobuf(body: bytes, resource: Resource) -> Obj:
    from corral.kinds.machinery import protobuf

    try:
        found: Obj = protobuf.decode(body)
    except ValueError as error:
        raise BadRequest(f"{resource.kind} in version {resource.version!r} cannot be handled: {error}") from error
    check_count(found, len(body))
    return found


def duplicates(body: bytes, value: Obj) -> list[str]:
    """The paths of fields given more than once in a JSON body that decoded to `value`, the first hundred of them."""
    again = _encode(value)
    filled_in = any(body.count(name) != again.count(name) for name in (b'"kind"', b'"apiVersion"'))
    if not filled_in and body.count(b'"') - body.count(b'\\"') == again.count(b'"') - again.count(b'\\"'):
        return []
    found: dict[str, None] = {}
    _find_duplicates(json.loads(_replaced(body), object_pairs_hook=_Pairs), [], found)
    return list(found)


class _Pairs(list[tuple[str, Any]]):
    """The members of one JSON object in the order given."""


def _find_duplicates(value: Any, path: list[str], found: dict[str, None]) -> None:
    """Add to `found` what is repeated below `path`, whose parts are only put together for what is found."""
    if isinstance(value, _Pairs):
        seen = set()
        for name, item in value:
            if len(found) >= MAX_DUPLICATES:
                return
            path.append(f".{name[:_SHOWN_NAME]}")
            if name in seen:
                found["".join(path).removeprefix(".")] = None
            seen.add(name)
            if isinstance(item, list):
                _find_duplicates(item, path, found)
            path.pop()
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list):
                path.append(f"[{index}]")
                _find_duplicates(item, path, found)
                path.pop()
