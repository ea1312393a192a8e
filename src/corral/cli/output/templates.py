"""Templates users write for what they want to see of objects: kubectl's `jsonpath=` and `custom-columns=`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from corral.kinds.machinery import jsonpath

NONE = "<none>"


class TemplateError(ValueError):
    """The template cannot be understood; the message says which part of it."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Path:
    path: str


@dataclass(frozen=True, slots=True)
class Range:
    """What is printed for each value of a path."""

    path: str
    body: list[Node] = field(default_factory=list)


Node = Text | Path | Range


def parse_template(template: str) -> list[Node]:
    """The parts of a template; one without braces is a path as a whole."""
    if "{" not in template:
        template = f"{{{template}}}"
    root: list[Node] = []
    inside: list[list[Node]] = [root]
    for is_expression, text in _pieces(template):
        if not is_expression:
            inside[-1].append(Text(text))
        elif text[:1] in ("'", '"'):
            inside[-1].append(Text(_unquoted(text)))
        elif text.startswith("range "):
            loop = Range(checked_path(text.removeprefix("range ")))
            inside[-1].append(loop)
            inside.append(loop.body)
        elif text == "end":
            if len(inside) == 1:
                raise TemplateError("{end} without a {range}")
            inside.pop()
        else:
            inside[-1].append(Path(checked_path(text)))
    if len(inside) > 1:
        raise TemplateError("a {range} without its {end}")
    return root


def render(template: list[Node], value: Any) -> str:
    """The text of a template for a value."""
    parts = []
    for node in template:
        if isinstance(node, Text):
            parts.append(node.text)
        elif isinstance(node, Path):
            parts.append(" ".join(plain(found) for found in jsonpath.find(node.path, value)))
        else:
            parts += [render(node.body, found) for found in jsonpath.find(node.path, value)]
    return "".join(parts)


def parse_columns(text: str) -> list[tuple[str, str]]:
    """Headers and paths of `NAME:.metadata.name,AGE:.metadata.creationTimestamp`."""
    columns = []
    for part in _split(text):
        header, colon, path = part.partition(":")
        if not colon or not header or not path:
            raise TemplateError(f"{part!r} is not of the form HEADER:.path")
        columns.append((header, checked_path(path)))
    return columns


def cell(path: str, value: Any) -> str:
    """What a column shows of an object."""
    return ",".join(plain(found) for found in jsonpath.find(path, value)) or NONE


def checked_path(text: str) -> str:
    """A path that is understood; its leading dot may be left away, as kubectl allows it."""
    path = text.strip().removeprefix("{").removesuffix("}")
    if not jsonpath.is_understood(path):
        raise TemplateError(f"{text.strip()!r} is not a path such as .metadata.name or .items[*].status.phase")
    return path


def plain(value: Any) -> str:
    """A value as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _pieces(template: str) -> Iterator[tuple[bool, str]]:
    """Text outside and inside of braces; a brace in quotes is text."""
    start, depth, quote = 0, False, ""
    for position, char in enumerate(template):
        if not depth and char == "{":
            if position > start:
                yield False, template[start:position]
            start, depth = position + 1, True
        elif depth and quote:
            quote = "" if char == quote else quote
        elif depth and char in "'\"":
            quote = char
        elif depth and char == "}":
            yield True, template[start:position].strip()
            start, depth = position + 1, False
    if depth:
        raise TemplateError("a { without its }")
    if start < len(template):
        yield False, template[start:]


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise TemplateError(f"{text} has no closing quote")
    return text[1:-1].replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")


def _split(text: str) -> Iterator[str]:
    """Parts between commas that are not inside brackets."""
    depth, start = 0, 0
    for position, char in enumerate(text):
        depth += (char in "[(") - (char in "])")
        if char == "," and not depth:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()
