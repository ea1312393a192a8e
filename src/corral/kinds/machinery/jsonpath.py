"""JSONPath as printed columns, scale paths and selectable fields use it: a small part of kubectl's dialect.

Supported: `.a.b`, `['a.b']`, `\\.` for a dot inside a name, `[0]`, `[-1]`, `[*]`, slices such as `[-1:]`, and filters
such as `[?(@.type=="Ready")]` or `[?(@.ready)]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

PathStep = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""
    \.?\[\s*'(?P<quoted>(?:[^'\\]|\\.)*)'\s*\]
  | \.?\[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
  | \.?\[\?\((?P<filter>.*?)\)\]
  | \.?\[(?P<star>\*)\]
  | \.?\[(?P<index>-?\d+)\]
  | \.?\[(?P<slice>(?:-?\d*)(?::-?\d*){1,2})\]
  | \.?(?P<name>(?:\\.|[^.\[\]\\])+)
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"^\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<op>==|!=)\s*(?P<value>.+?))?\s*$")


def find(path: str, value: Any) -> list[Any]:
    """All values at `path`; empty when there is nothing or the path is not understood."""
    found = [value]
    for step in _compile(path):
        found = [result for item in found for result in step(item)]
    return found


def first(path: str, value: Any) -> Any:
    """The first value at `path`, or None."""
    found = find(path, value)
    return found[0] if found else None


def is_understood(path: str) -> bool:
    """Whether a path is written in the dialect of this module: of others, nothing is ever found."""
    return _nothing not in _compile(path)


def put(path: str, obj: dict[str, Any], value: Any) -> None:
    """Set a plain dotted path in a private copy, making the objects on the way."""
    *parents, last = path.lstrip(".").split(".")
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value


@lru_cache(maxsize=1024)
def _compile(path: str) -> tuple[PathStep, ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$").removeprefix("@")
    steps: list[PathStep] = []
    position = 0
    while position < len(text) and text[position:] != ".":
        token = _TOKEN.match(text, position)
        if token is None:
            return (_nothing,)
        steps.append(_step(token))
        position = token.end()
    return tuple(steps)


def _nothing(value: Any) -> Iterable[Any]:
    return ()


def _step(token: re.Match[str]) -> PathStep:
    if token["filter"] is not None:
        return _filter(token["filter"])
    if token["star"] is not None:
        return lambda value: value if isinstance(value, list) else _members(value)
    if token["index"] is not None:
        return _index(int(token["index"]))
    if token["slice"] is not None:
        cut = slice(*(int(bound) if bound else None for bound in token["slice"].split(":")))
        return lambda value: value[cut] if isinstance(value, list) else ()
    name = re.sub(r"\\(.)", r"\1", token["quoted"] or token["double"] or token["name"])
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else ()


def _index(position: int) -> PathStep:
    def step(value: Any) -> Iterable[Any]:
        inside = isinstance(value, list) and -len(value) <= position < len(value)
        return (value[position],) if inside else ()

    return step


def _filter(text: str) -> PathStep:
    match = _FILTER.match(text)
    if match is None:
        return _nothing
    path, operator, wanted = match["path"], match["op"], _literal(match["value"])

    def keep(item: Any) -> bool:
        found = find(path, item)
        if operator is None:
            return bool(found)
        return bool(found) and (found[0] == wanted) == (operator == "==")

    return lambda value: [item for item in value if keep(item)] if isinstance(value, list) else ()


def _literal(text: str | None) -> Any:
    if text is None:
        return None
    if text[:1] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
