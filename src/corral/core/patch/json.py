"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on JSON-shaped values.

Nothing is mutated: a patched document is a new one that shares every untouched part with the old, so a patch costs
what it touches. Where a merge changes nothing, the very same object comes back, which lets callers see a no-op by
identity.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

Json = Any

MAX_OPERATIONS: Final = 10_000
_MAX_COPIED_NODES: Final = 500_000
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)
_MISSING: Final = object()


class PatchError(ValueError):
    """The patch cannot be applied to this document."""


class PatchTestFailed(PatchError):
    """A `test` operation did not hold."""


def json_equal(a: Json, b: Json) -> bool:
    """Equality of JSON values: true is not 1, but 1 is 1.0."""
    if a is b:
        return True
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    if isinstance(a, dict):
        return isinstance(b, dict) and len(a) == len(b) and all(k in b and json_equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(json_equal, a, b))
    return bool(a == b)


def identity(value: Json) -> Hashable:
    """The same for values that are equal, and for no others: lists of any length are compared by looking up, not each with each."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(identity, value)))
    return value  # type: ignore[no-any-return]  # text, number or nothing


def json_patch(document: Json, operations: Sequence[Mapping[str, Json]]) -> Json:
    """`document` after `operations`; raises PatchError, and then nothing has happened."""
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(f"the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    patching = _Patching()
    for operation in operations:
        document = patching.apply(document, operation)
    return document


class _Patching:
    """One patch being applied. A container is copied when it is first changed and worked on in place from then on, so that
    many operations on a large one cost no more than each of them; `_own` holds those copies, which nobody else sees."""

    def __init__(self) -> None:
        self._own: dict[int, Json] = {}
        self._may_copy = _MAX_COPIED_NODES

    def apply(self, document: Json, operation: Mapping[str, Json]) -> Json:
        if not isinstance(operation, Mapping):
            raise PatchError("an operation must be an object")
        path = _pointer(operation, "path")
        match operation.get("op"):
            case "add" | "replace" as how:
                return self._edit(document, path, how, _value(operation))
            case "remove":
                return self._edit(document, path, "remove", None)
            case "test":
                _test(document, path, operation)
                return document
            case "move":
                source = _pointer(operation, "from")
                if path[: len(source)] == source and path != source:
                    raise PatchError("a value cannot be moved into itself")
                value = _read(document, source)
                if path == source:
                    return document
                return self._edit(self._edit(document, source, "remove", None), path, "add", value)
            case "copy":
                value = self._copied(_read(document, _pointer(operation, "from")))
                return self._edit(document, path, "add", value)
            case op:
                raise PatchError(f"unexpected kind: {op}")

    def _edit(self, document: Json, path: list[str], how: str, value: Json) -> Json:
        """The document with one place changed, copying those containers on the way that are not ours yet."""
        if not path:
            if how == "remove":
                raise PatchError("the whole document cannot be removed")
            return value
        *way, last = path
        containers = [document]
        for token in way:
            containers.append(_step(containers[-1], token))
        changed = self._change(containers.pop(), last, how, value)
        for container, token in zip(reversed(containers), reversed(way), strict=True):
            if _step(container, token) is changed:
                return document  # the rest of the way is ours already
            changed = self._change(container, token, "replace", changed)
        return changed

    def _change(self, container: Json, token: str, how: str, value: Json) -> Json:
        if isinstance(container, dict):
            # Replacing what is not there adds it, as the library behind the Kubernetes API server does.
            if how == "remove" and token not in container:
                raise PatchError(f"the path has no member {token!r}")
            result = self._mine(container)
            if how == "remove":
                del result[token]
            else:
                result[token] = value
            return result
        if isinstance(container, list):
            position = _position(token, len(container), end=how == "add")
            result = self._mine(container)
            if how == "add":
                result.insert(position, value)
            elif how == "remove":
                del result[position]
            else:
                result[position] = value
            return result
        raise PatchError(f"the path leads through a scalar at {token!r}")

    def _mine(self, container: Json) -> Json:
        if id(container) in self._own:
            return container
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy

    def _copied(self, value: Json) -> Json:
        """A deep copy: a value in two places must not change in both."""
        self._may_copy -= 1
        if self._may_copy < 0:
            raise PatchError("the copy operations of the patch make the document too large")
        if isinstance(value, dict):
            return {name: self._copied(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._copied(item) for item in value]
        return value


def _value(operation: Mapping[str, Json]) -> Json:
    if "value" not in operation:
        raise PatchError("the operation has no value")
    return operation["value"]


def _test(document: Json, path: list[str], operation: Mapping[str, Json]) -> None:
    wanted = operation.get("value")
    try:
        found = _read(document, path)
    except PatchError:
        # A missing value is taken as null, as the library behind the Kubernetes API server does.
        if wanted is None:
            return
        raise
    if not json_equal(found, wanted):
        raise PatchTestFailed(f"testing value {operation.get('path')} failed: test failed")


def _pointer(operation: Mapping[str, Json], name: str) -> list[str]:
    pointer = operation.get(name)
    if not isinstance(pointer, str):
        raise PatchError(f"the operation has no {name}")
    if pointer and not pointer.startswith("/"):
        raise PatchError(f"{pointer!r} is not a JSON pointer")
    parts = pointer.split("/")[1:]
    if "~" not in pointer:
        return parts
    if re.search("~(?![01])", pointer):
        raise PatchError(f"{pointer!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _position(token: str, length: int, *, end: bool) -> int:
    """The list index `token` names; `end` allows one past the last."""
    if end and token == "-":
        return length
    if not _INDEX.fullmatch(token):
        raise PatchError(f"{token!r} is not an array index")
    position = int(token)
    if position > length or (position == length and not end):
        raise PatchError(f"index {position} is out of bounds")
    return position


def _read(document: Json, path: list[str]) -> Json:
    for token in path:
        document = _step(document, token)
    return document


def _step(container: Json, token: str) -> Json:
    if isinstance(container, dict):
        value = container.get(token, _MISSING)
        if value is _MISSING:
            raise PatchError(f"the path has no member {token!r}")
        return value
    if isinstance(container, list):
        return container[_position(token, len(container), end=False)]
    raise PatchError(f"the path leads through a scalar at {token!r}")


def merge_patch(document: Json, patch: Json) -> Json:
    """`document` with `patch` merged in: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    known = isinstance(document, dict)
    result: dict[str, Json] = document if known else {}
    owned = not known
    for name, value in patch.items():
        old = result.get(name, _MISSING)
        if value is None:
            if old is _MISSING:
                continue
        else:
            value = merge_patch(old, value)
            if value is old or (old is not _MISSING and json_equal(value, old)):
                continue
        if not owned:
            result, owned = dict(result), True
        if value is None:
            del result[name]
        else:
            result[name] = value
    return result


def merge_diff(old: Json, new: Json) -> Json:
    """The merge patch that turns `old` into `new`; {} when nothing differs.

    A merge patch cannot say "set to null": a null inside `new` reads as absent.
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    patch: dict[str, Json] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name, _MISSING)
        if before is _MISSING:
            patch[name] = value
        elif before is not value and not json_equal(before, value):
            patch[name] = merge_diff(before, value)
    return patch
