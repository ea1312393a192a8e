"""YAML in, plain values out, at a price that is known before it is paid: for every text that somebody else wrote, be it a request, a
file, or a field of an object that holds YAML. (PyYAML's loaders descend on the stack, and its fast one ends the process there.)

Values are built straight from the parser's events, in one pass. Every value counts, those that an alias or a merge key
repeats as often as they are repeated, so a text can neither grow nor make work beyond the budget. What a scalar means is
what Kubernetes takes it for: dates and numbers in base 60 are strings, keys are strings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import yaml

MAX_NODES: Final = 100_000
MAX_FILE_NODES: Final = 20_000_000
"""For files of whoever runs the command: they cost nobody else anything."""
MAX_DEPTH: Final = 500
MAX_DIRECTIVES: Final = 32
_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)", re.ASCII)
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_BOOLEANS: Final = {
    **{word: True for name in ("yes", "true", "on") for word in (name, name.title(), name.upper())},
    **{word: False for name in ("no", "false", "off") for word in (name, name.title(), name.upper())},
}
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_DIRECTIVE: Final = re.compile(rb"^%", re.MULTILINE)
_MERGE: Final = object()
_NO_KEY: Final = object()
_NO_DOCUMENT: Final = object()


def load(body: bytes | str, most: int = MAX_NODES) -> Any:
    """The one value `body` holds. Raises yaml.YAMLError or ValueError, with Go's words where Go has some."""
    values = load_all(body, most)
    first = next(values, None)
    if next(values, _NO_DOCUMENT) is not _NO_DOCUMENT:
        raise ValueError("yaml: expected a single document in the stream")
    return first


def load_all(body: bytes | str, most: int = MAX_NODES) -> Iterator[Any]:
    """The values of all documents, empty ones included; together they hold `most` values."""
    text = body.encode() if isinstance(body, str) else body
    if len(_DIRECTIVE.findall(text)) > MAX_DIRECTIVES:
        raise ValueError("yaml: too many directives")
    return _Builder(text, most).documents()


class _Sized(NamedTuple):
    """A value with the number of values it holds, aliases written out."""

    value: Any
    size: int


class _Sequence:
    """A list while its items arrive."""

    def __init__(self, anchor: str | None) -> None:
        self.anchor = anchor
        self._items: list[Any] = []
        self._size = 1

    def add(self, node: _Sized) -> None:
        self._items.append(_plain(node.value))
        self._size += node.size

    def done(self) -> _Sized:
        return _Sized(self._items, self._size)


class _Mapping:
    """A mapping while keys and values arrive in turn; what is merged in stands behind what is its own."""

    def __init__(self, anchor: str | None) -> None:
        self.anchor = anchor
        self._own: dict[str, Any] = {}
        self._merged: dict[str, Any] = {}
        self._key: Any = _NO_KEY
        self._size = 1

    def add(self, node: _Sized) -> None:
        self._size += node.size
        if self._key is _NO_KEY:
            self._key = node.value
            return
        key, self._key = self._key, _NO_KEY
        if key is _MERGE:
            _merge(self._merged, node.value)
        else:
            self._own[_name(key)] = _plain(node.value)

    def done(self) -> _Sized:
        return _Sized({**self._merged, **self._own} if self._merged else self._own, self._size)


class _Builder:
    """Documents on their way from events to values. Depth is a list here: a hostile text must not use up the stack."""

    def __init__(self, body: bytes, most: int) -> None:
        self._events = yaml.parse(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._anchors: dict[str, _Sized] = {}
        self._most = self._left = most

    def documents(self) -> Iterator[Any]:
        next(self._events)  # the stream starts
        while not isinstance(next(self._events), yaml.StreamEndEvent):
            self._anchors = {}
            value = _plain(self._root())
            next(self._events)  # the document ends
            # What an alias repeats is one object in many places until it is written out.
            yield msgspec.json.decode(msgspec.json.encode(value)) if self._anchors else value

    def _root(self) -> Any:
        nested: list[_Sequence | _Mapping] = []
        while True:
            event = next(self._events)
            if isinstance(event, yaml.CollectionStartEvent):
                self._spend(1)
                if len(nested) >= MAX_DEPTH:
                    raise ValueError("yaml: exceeded max depth")
                nested.append(_opened(event))
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                ended = nested.pop()
                node = self._known(ended.anchor, ended.done())
            elif isinstance(event, yaml.AliasEvent):
                node = self._alias(event.anchor)
            else:
                self._spend(1)
                node = self._known(event.anchor, _Sized(_scalar(event), 1))
            if not nested:
                return node.value
            nested[-1].add(node)

    def _spend(self, nodes: int) -> None:
        self._left -= nodes
        if self._left < 0:
            raise ValueError(f"yaml: document contains excessive aliasing or more than {self._most} values; use JSON")

    def _known(self, anchor: str | None, node: _Sized) -> _Sized:
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _alias(self, anchor: str | None) -> _Sized:
        node = self._anchors.get(anchor or "")
        if node is None:
            raise ValueError(f"yaml: unknown anchor '{anchor}' referenced")
        self._spend(node.size)
        return node


def _opened(event: Any) -> _Sequence | _Mapping:
    kind, made = ("seq", _Sequence) if isinstance(event, yaml.SequenceStartEvent) else ("map", _Mapping)
    if event.tag not in (None, "!", _TAG + kind):
        raise ValueError(f"yaml: could not determine a constructor for the tag '{event.tag}'")
    return made(event.anchor)


def _plain(value: Any) -> Any:
    """A merge key is one only where a key stands."""
    return "<<" if value is _MERGE else value


def _merge(into: dict[str, Any], value: Any) -> None:
    """The mapping, or the mappings, that a merge key names; what was there first stays."""
    for mapping in value if isinstance(value, list) else [value]:
        if not isinstance(mapping, dict):
            raise ValueError("yaml: map merge requires map or sequence of maps as the value")
        for name, item in mapping.items():
            into.setdefault(name, item)


def _name(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, dict | list):
        raise ValueError("yaml: invalid map key: a key must be a scalar")
    return str(key)


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag != "!":
        return _tagged(event.tag, text)
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text == "<<":
        return _MERGE
    if text[0] in "+-.0123456789":
        if _INTEGER.fullmatch(text):
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return _float(text)
    return text


def _tagged(tag: str, text: str) -> Any:
    match tag.removeprefix(_TAG):
        case "str":
            return text
        case "binary":
            return "".join(text.split())
        case "null" if text in _NULLS:
            return None
        case "bool" if text in _BOOLEANS:
            return _BOOLEANS[text]
        case "int" if _INTEGER.fullmatch(text):
            return _integer(text)
        case "float" if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text):
            return _float(text)
        case "null" | "bool" | "int" | "float" as kind:
            raise ValueError(f"yaml: cannot decode !!str `{text[:40]}` as a !!{kind}")
    raise ValueError(f"yaml: could not determine a constructor for the tag '{tag}'")


def _integer(text: str) -> int | float:
    """A whole number; one beyond 64 bits is a float, as it is in Go."""
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").replace("_", "")
    base = {"0b": 2, "0x": 16}.get(digits[:2].lower(), 8 if digits[0] == "0" and len(digits) > 1 else 10)
    if base in (2, 16):
        digits = digits[2:]
    if not digits:
        raise ValueError(f"yaml: '{text[:40]}' is not a number")
    if len(digits) <= 64:
        number = sign * int(digits, base)
        if -(1 << 63) <= number < 1 << 64:
            return number
        return float(number)
    if base == 10:
        return _float(text)
    raise ValueError(f"yaml: the number '{text[:40]}...' is too large")


def _float(text: str) -> float:
    word = text.lower().replace("_", "")
    number = float(word.replace(".inf", "inf").replace(".nan", "nan"))
    if math.isinf(number) or math.isnan(number):
        raise ValueError(f"json: unsupported value: {'NaN' if math.isnan(number) else f'{number:+}'.title()}")
    return number
