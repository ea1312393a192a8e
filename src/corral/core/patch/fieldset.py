"""Field sets: which fields somebody owns, in the very form managedFields stores them (FieldsV1).

A set is a tree of dictionaries. A key is one step of a path: `f:name` a field, `k:{"name":"c"}` the element of a list
with these keys, `v:"x"` a member of a set, `i:0` an index. A node that is empty, or holds ".", is itself a member; other
nodes only lead to members. The empty tree is the empty set. Sets are values: operations return new trees that share
unchanged branches, and return an operand itself when that is the answer, so that unchanged sets cost nothing to keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final

from corral.core.remembering import remembered
from corral.core.schema.structural import ANYTHING, Merge, Schema

FieldSet = dict[str, Any]
Path = tuple[str, ...]

_HERE: Final = "."
_ABSENT: Final = object()


def is_member(node: FieldSet) -> bool:
    """True when the path that leads to `node` is in the set."""
    return not node or _HERE in node


def contains(fields: FieldSet, path: Path) -> bool:
    """True when `path` is in the set."""
    node = fields
    for step in path:
        if step not in node:
            return False
        node = node[step]
    return is_member(node)


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of either set."""
    if not a or not b:
        return a or b
    # The root stands for no path, so it is never a member.
    joined = _union(a, b)
    return {step: node for step, node in joined.items() if step != _HERE} if _HERE in joined else joined


def union_all(sets: Iterable[FieldSet]) -> FieldSet:
    """The members of any set. Joined two by two: adding one after the other copies what there is as often as there are sets."""
    left = list(sets)
    while len(left) > 1:
        nothing: FieldSet = {}
        left = [union(a, b) for a, b in zip_longest(left[::2], left[1::2], fillvalue=nothing)]
    return left[0] if left else {}


def _union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Both operands are nodes, so an empty one is a member and not nothing."""
    if a is b:
        return a
    member = is_member(a) or is_member(b)
    result: FieldSet | None = None
    for step, theirs in b.items():
        if step == _HERE:
            continue
        ours = a.get(step)
        joined = theirs if ours is None else _union(ours, theirs)
        if joined is not ours:
            if result is None:
                result = {step: node for step, node in a.items() if step != _HERE}
            result[step] = joined
    if result is None:
        return a if is_member(a) == member else {_HERE: {}, **a}
    return {_HERE: {}, **result} if member else result


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of `a` that are not in `b`."""
    if not a or not b:
        return a
    return _subtract_children(a, b) or {}


def _subtract(a: FieldSet, b: FieldSet) -> FieldSet | None:
    """Node `a` less node `b`; None when nothing is left."""
    stays = is_member(a) and not is_member(b)
    rest = _subtract_children(a, b)
    if stays:
        if not rest or (len(rest) == 1 and _HERE in rest):
            return a if not a or (rest is a) else {}
        return rest if _HERE in rest else {_HERE: {}, **rest}
    rest = {step: node for step, node in rest.items() if step != _HERE} if _HERE in rest else rest
    return rest or None


def _subtract_children(a: FieldSet, b: FieldSet) -> FieldSet:
    result = a
    for step in b if len(b) < len(a) else a:
        if step == _HERE or step not in a or step not in b:
            continue
        rest = _subtract(a[step], b[step])
        if rest is a[step]:
            continue
        if result is a:
            result = dict(a)
        if rest is None:
            del result[step]
        else:
            result[step] = rest
    return result


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of both sets."""
    return (_intersect(a, b) or {}) if a and b else {}


def _intersect(a: FieldSet, b: FieldSet) -> FieldSet | None:
    both = is_member(a) and is_member(b)
    result: FieldSet = {}
    for step, ours in a.items():
        if step != _HERE and step in b:
            shared = _intersect(ours, b[step])
            if shared is not None:
                result[step] = shared
    if both:
        return {_HERE: {}, **result} if result else {}
    return result or None


def paths(fields: FieldSet) -> Iterator[Path]:
    """Every member, in the order upstream lists them."""
    for step in sorted(fields, key=_step_order):
        if step == _HERE:
            continue
        node = fields[step]
        if is_member(node):
            yield (step,)
        for rest in paths(node):
            yield (step, *rest)


def _step_order(step: str) -> tuple[int, str]:
    return "fkvi".find(step[0]), step


def path_text(path: Path) -> str:
    """A path as people read it: `.spec.containers[name="c"].image`."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    kind, value = step[0], step[2:]
    if kind == "f":
        return f".{value}"
    if kind == "k":
        keys = json.loads(value)
        return "[" + ",".join(f"{key}={json.dumps(keys[key], ensure_ascii=False)}" for key in sorted(keys)) + "]"
    return f"[{value}]"


class FieldSetError(ValueError):
    """A value does not have the form its schema says; the path to it is put together on the way out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = ""

    def inside(self, step: str) -> FieldSetError:
        self.path = _step_text(step) + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@remembered(16384)
def _value_step(value: str) -> str:
    return "v:" + json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def element_step(element: Any, schema: Schema) -> str | None:
    """The step that names `element` of the set or keyed list `schema`; None when it lacks a key."""
    if schema.merge == "set":
        if isinstance(element, str):
            return _value_step(element)
        return "v:" + json.dumps(element, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    if not isinstance(element, dict):
        return None
    keys = schema.list_keys
    if len(keys) == 1:
        value = element.get(keys[0])
        if isinstance(value, str):
            return _key_step(keys[0], value)
    found = {}
    for key in sorted(keys):
        value = element.get(key, schema.key_defaults.get(key))
        if value is not None:
            found[key] = value
    if not found:
        return None
    return "k:" + json.dumps(found, ensure_ascii=False, separators=(",", ":"))


@remembered(16384)
def _key_step(key: str, value: str) -> str:
    return "k:" + json.dumps({key: value}, ensure_ascii=False, separators=(",", ":"))


def merge_of(value: Any, schema: Schema) -> Merge:
    """How `value` merges: as the schema says, or as it looks where the schema is open."""
    if schema.merge != "any":
        return schema.merge
    return "map" if isinstance(value, dict) else "atomic" if isinstance(value, list) else "scalar"


def fields_of(value: Any, schema: Schema) -> FieldSet:
    """The set of fields that `value` mentions; raises FieldSetError where it does not fit the schema."""
    try:
        return _mentioned(value, schema)
    except FieldSetError:
        return _located(value, schema)  # slower, but says where


def _mentioned(value: Any, schema: Schema) -> FieldSet:
    """`fields_of` for values that fit, which nearly all do."""
    how = schema.merge
    if how == "map" or (how == "any" and isinstance(value, dict)):
        if not isinstance(value, dict):
            return _located(value, schema)
        result: FieldSet = {}
        properties = schema.properties
        for name, item in value.items():
            field = properties.get(name) or schema.field(name)
            if field is None:
                raise FieldSetError("field not declared in schema")
            is_leaf = isinstance(item, (str, int, float)) and field.merge in ("scalar", "any")
            result["f:" + name] = _NO_FIELDS if is_leaf else _mentioned(item, field)
        return result
    if how == "keyed" and isinstance(value, list):
        items = schema.items or ANYTHING
        result = {}
        for element in value:
            step = element_step(element, schema)
            if step is None or step in result:
                raise FieldSetError("not a list with keys")
            result[step] = {_HERE: _NO_FIELDS, **_mentioned(element, items)}
        return result
    return _located(value, schema)


def _located(value: Any, schema: Schema) -> FieldSet:
    how = merge_of(value, schema)
    if value is None or how in ("scalar", "atomic"):
        return {}
    if how == "map":
        return _fields_of_map(value, schema)
    if not isinstance(value, list):
        raise FieldSetError(f"expected list, got {json.dumps(value)}")
    result: FieldSet = {}
    for position, element in enumerate(value):
        step = element_step(element, schema)
        if step is None:
            raise _missing_key(element, position, schema)
        if step in result:
            what = "duplicate entries for key" if step[0] == "k" else "duplicate entries for set element"
            raise FieldSetError(f"{what} {_step_text(step)}")
        inner = _inside(step, element, schema.items or ANYTHING) if step[0] == "k" else {}
        result[step] = {_HERE: {}, **inner} if inner else {}
    return result


def _fields_of_map(value: Any, schema: Schema) -> FieldSet:
    if not isinstance(value, dict):
        raise FieldSetError(f"expected map, got {json.dumps(value)}")
    result: FieldSet = {}
    for name, item in value.items():
        field = schema.field(name)
        step = "f:" + name
        if field is None:
            raise FieldSetError("field not declared in schema").inside(step)
        result[step] = _inside(step, item, field)
    return result


def _inside(step: str, value: Any, schema: Schema) -> FieldSet:
    try:
        return _located(value, schema)
    except FieldSetError as error:
        raise error.inside(step) from None


def _missing_key(element: Any, position: int, schema: Schema) -> FieldSetError:
    missing = next((key for key in schema.list_keys if not isinstance(element, dict) or key not in element), "")
    problem = (
        f'associative list with keys has an element that omits key field "{missing}" (and doesn\'t have default value)'
    )
    return FieldSetError(f"element {position}: {problem}")


class Changes:
    """What differs between two values: fields that were set or changed, and fields that are gone."""

    __slots__ = ("removed", "touched")

    def __init__(self, touched: FieldSet, removed: FieldSet) -> None:
        self.touched = touched
        self.removed = removed

    def __bool__(self) -> bool:
        return bool(self.touched or self.removed)


def compare(old: Any, new: Any, schema: Schema) -> Changes:
    """The changes from `old` to `new`; costs what differs, because equal parts are not walked."""
    if old == new:
        return Changes({}, {})
    touched, removed = _compare(old, new, schema)
    return Changes(touched or {}, removed or {})


_Pair = tuple[FieldSet | None, FieldSet | None]


def _compare(old: Any, new: Any, schema: Schema) -> _Pair:
    """What was set and what is gone, of two values that differ."""
    if old is _ABSENT:
        return _added(new, schema), None
    gone = new is _ABSENT
    how = merge_of(old if gone or new is None else new, schema)
    if how == "map" and _is_map_like(old) and _is_map_like(new) and (old or new):
        touched, removed = _compare_members(_as_map(old), _as_map(new), schema, "f:")
    elif how in ("set", "keyed") and _is_list_like(old) and _is_list_like(new) and (old or new):
        touched, removed = _compare_members(_by_step(old, schema), _by_step(new, schema), schema, "")
    else:
        return (None, {}) if gone else ({}, None)
    if gone:
        return None, {_HERE: {}, **removed} if removed else {}
    return touched or None, removed or None


def _compare_members(
    before: dict[str, Any], after: dict[str, Any], schema: Schema, prefix: str
) -> tuple[FieldSet, FieldSet]:
    """The same for the fields of a map, or the elements of a list by their steps."""
    touched: FieldSet = {}
    removed: FieldSet = {}
    for name, value in after.items():
        earlier = before.get(name, _ABSENT)
        if earlier is _ABSENT:
            is_leaf = not isinstance(value, (dict, list))
            touched[prefix + name] = _NO_FIELDS if is_leaf else _added(value, _member(name, schema))
            continue
        if earlier is value or earlier == value:
            continue
        added, gone = _compare(earlier, value, _member(name, schema))
        if added is not None:
            touched[prefix + name] = added
        if gone is not None:
            removed[prefix + name] = gone
    for name, value in before.items():
        if name not in after:
            removed[prefix + name] = _compare(value, _ABSENT, _member(name, schema))[1]
    return touched, removed


def _member(name: str, schema: Schema) -> Schema:
    """The schema of a field or an element."""
    if schema.merge == "keyed":
        return schema.items or ANYTHING
    return _LEAF if schema.merge == "set" else schema.field(name) or ANYTHING


def _added(value: Any, schema: Schema) -> FieldSet:
    """What a value sets where there was none: every field of it. Most of a create goes through here."""
    how = schema.merge
    if how == "map" or (how == "any" and isinstance(value, dict)):
        if not value or not isinstance(value, dict):
            return _NO_FIELDS
        node: FieldSet = {_HERE: _NO_FIELDS}
        properties = schema.properties
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                node["f:" + name] = _added(item, properties.get(name) or schema.field(name) or ANYTHING)
            else:
                node["f:" + name] = _NO_FIELDS
        return node
    if how in ("set", "keyed") and value and isinstance(value, list):
        node = {_HERE: _NO_FIELDS}
        keyed = how == "keyed"
        for step, element in _by_step(value, schema).items():
            node[step] = _added(element, schema.items or ANYTHING) if keyed else _NO_FIELDS
        return node
    return _NO_FIELDS


_NO_FIELDS: Final[FieldSet] = {}


def _is_map_like(value: Any) -> bool:
    return value is _ABSENT or value is None or isinstance(value, dict)


def _is_list_like(value: Any) -> bool:
    return value is _ABSENT or value is None or isinstance(value, list)


def _as_map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_LEAF: Final = Schema({"type": "string"})
_LEAF.merge = "scalar"


def _by_step(value: Any, schema: Schema) -> dict[str, Any]:
    if not isinstance(value, list):
        return {}
    steps: dict[str, Any] = {}
    for position, element in enumerate(value):
        step = element_step(element, schema) or f"i:{position}"
        # Stored lists may repeat a key; the first element speaks for it.
        steps.setdefault(step, element)
    return steps
