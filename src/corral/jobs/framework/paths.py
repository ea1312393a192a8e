"""Reading and rebuilding nested parts of an object along a path; nothing is mutated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.core.meta import Obj

Path = tuple[str | int, ...]


def get_in(obj: Any, path: Sequence[str | int], default: Any = None) -> Any:
    """The value at `path`, or `default` when any step is missing."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(obj, list) or step >= len(obj):
                return default
            obj = obj[step]
        else:
            if not isinstance(obj, dict) or obj.get(step) is None:
                return default
            obj = obj[step]
    return obj


def set_in(obj: Obj, path: Sequence[str | int], value: Any) -> Obj:
    """A copy of `obj` with `value` at `path`; maps on the way are made, lists must exist. None removes the field."""
    result: Obj = _set(obj, list(path), value)
    return result


def _set(obj: Any, path: list[str | int], value: Any) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        new = _set(obj[step], rest, value) if rest else value
        return [*obj[:step], new, *obj[step + 1 :]]
    held = obj or {}
    if rest:
        return {**held, step: _set(held.get(step), rest, value)}
    if value is None:
        return {name: item for name, item in held.items() if name != step}
    return {**held, step: value}
