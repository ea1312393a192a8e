"""Strategic merge patch: the patch format of Kubernetes' own kinds.

Objects merge by field; a list merges when its schema names a merge key (or holds scalars to be joined), and is replaced
otherwise. A patch can also carry directives: `$patch` (replace, delete, merge), `$setElementOrder/x`,
`$deleteFromPrimitiveList/x` and `$retainKeys`. Neither document nor patch is mutated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import compress
from typing import Any, Final

from corral.core.patch.json import identity, json_equal
from corral.core.schema.structural import ANYTHING, Schema
from corral.core.validation import go_number

Json = Any
JsonObject = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder"
_DELETE: Final = "$deleteFromPrimitiveList"
_RETAIN: Final = "$retainKeys"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"
_BAD_RETAIN: Final = "invalid patch format of retainKeys"
_BAD_PRIMITIVES: Final = "invalid patch format of primitive list"


class StrategicPatchError(ValueError):
    """The patch makes no sense; the message is the one Kubernetes gives."""


def strategic_merge(document: JsonObject, patch: JsonObject, schema: Schema) -> JsonObject:
    """`document` with `patch` merged in as `schema` says; raises StrategicPatchError."""
    return _merge_object(document, patch, schema)


def _merge_object(original: JsonObject, patch: JsonObject, schema: Schema) -> JsonObject:
    if _DIRECTIVE in patch:
        return _replace_or_delete(patch)
    result = _retained(original, patch)
    ordered = _merge_ordered_lists(result, patch, schema)
    for key, value in patch.items():
        if key in ordered or key == _RETAIN or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE):
            _delete_primitives(result, key, value)
        elif value is None:
            result.pop(key, None)
        else:
            _merge_field(result, key, value, schema.field(key) or ANYTHING)
    return result


def _replace_or_delete(patch: JsonObject) -> JsonObject:
    match patch[_DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case unknown:
            raise StrategicPatchError(f"unknown patch type: {go_format(unknown)} in map: {go_format(patch)}")


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    """A copy of `original`, without the keys that a `$retainKeys` directive leaves out."""
    keys = patch.get(_RETAIN)
    if _RETAIN not in patch:
        return dict(original)
    if not isinstance(keys, list):
        raise StrategicPatchError(_BAD_RETAIN)
    names = {key for key in keys if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and key not in names and not key.startswith((_DELETE, _ORDER)) and key != _RETAIN:
            raise StrategicPatchError(_BAD_RETAIN)
    return {key: value for key, value in original.items() if key in names}


def _merge_field(result: JsonObject, key: str, value: Json, schema: Schema) -> None:
    old = result.get(key)
    if isinstance(value, dict) and isinstance(old, dict):
        result[key] = value if "replace" in schema.patch_strategies else _merge_object(old, value, schema)
        return
    if isinstance(value, list) and isinstance(old, list):
        merges = "merge" in schema.patch_strategies
        result[key] = _merge_list(old, value, schema) if merges else value
        return
    cleaned, keep = _without_directives(value)
    if keep:
        result[key] = cleaned
    else:
        result.pop(key, None)


def _without_directives(value: Json) -> tuple[Json, bool]:
    """`value` as it is when there is nothing to merge with: no nulls, no directives; False to leave it out."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        cleaned = {}
        for key, item in value.items():
            item, keep = _without_directives(item)
            if keep and item is not None:
                cleaned[key] = item
        return cleaned, True
    if isinstance(value, list):
        pairs = [_without_directives(item) for item in value]
        return [item for item, keep in pairs if keep], True
    return value, True


def _delete_primitives(result: JsonObject, key: str, doomed: Json) -> None:
    prefix, slash, name = key.partition("/")
    if not slash or prefix != _DELETE:
        raise StrategicPatchError(_BAD_PRIMITIVES)
    old = result.get(name)
    if isinstance(old, list) and isinstance(doomed, list):
        result[name] = _split(old, doomed)[1]


def _merge_list(original: list[Json], patch: list[Json], schema: Schema) -> list[Json]:
    if not original and not patch:
        return original
    if not _holds_objects(original, patch):
        merged = _unique([*original, *patch])
        in_patch, server_only = _split(merged, patch)
        return _interleave(server_only, in_patch, patch, original, _itself)
    key = schema.patch_merge_key
    if not key:
        raise StrategicPatchError("cannot merge lists without merge key for " + (schema.name or "list"))
    original, patch = _obey_directives(original, patch, key)
    merged = _merge_by_key(original, patch, key, schema.items or ANYTHING)
    return _order_by(merged, patch, original, key)


def _holds_objects(*lists: list[Json]) -> bool:
    kinds = {
        dict if isinstance(item, dict) else list if isinstance(item, list) else None for part in lists for item in part
    }
    if list in kinds:
        raise StrategicPatchError("lists of lists are not supported")
    if len(kinds) > 1:
        raise StrategicPatchError("list element types are not identical")
    return dict in kinds


def _obey_directives(original: list[Json], patch: list[Json], key: str) -> tuple[list[Json], list[Json]]:
    """The two lists left to merge once elements with `$patch` have had their way."""
    plain: list[Json] = []
    doomed: set[Hashable] = set()
    replace = False
    for element in patch:
        match element.get(_DIRECTIVE):
            case None:
                plain.append(element)
            case "delete":
                doomed.add(identity(_key_value(element, key)))
            case "replace":
                replace = True
            case "merge":
                raise StrategicPatchError("merging lists cannot yet be specified in the patch")
            case unknown:
                raise StrategicPatchError(f"unknown patch type: {go_format(unknown)} in map: {go_format(element)}")
    if replace:
        return plain, []
    return [item for item in original if identity(item.get(key)) not in doomed] if doomed else original, plain


def _merge_by_key(original: list[Json], patch: list[Json], key: str, items: Schema) -> list[Json]:
    merged = list(original)
    places = _places([item.get(key) for item in original])
    for element in patch:
        place = places.setdefault(identity(_key_value(element, key)), len(merged))
        if place < len(merged):
            merged[place] = _merge_object(merged[place], element, items)
        else:
            merged.append(_without_directives(element)[0])
    return merged


def _order_by(merged: list[Json], order: list[Json], original: list[Json], key: str) -> list[Json]:
    def read(item: Json) -> Json:
        return _key_value(item, key)

    in_patch, server_only = _split(merged, [read(item) for item in order], read)
    return _interleave(server_only, in_patch, order, original, read)


def _interleave(
    server_only: list[Json], in_patch: list[Json], order: list[Json], original: list[Json], read: Callable[[Json], Json]
) -> list[Json]:
    """Elements the patch names in its order; the server's own stay before whatever they preceded."""
    wanted = _places([read(item) for item in order])
    before = _places([read(item) for item in original])
    unknown = len(original) + len(order)

    def sorted_by(places: dict[Hashable, int], items: list[Json]) -> list[Json]:
        return sorted(items, key=lambda item: places.get(identity(read(item)), unknown))

    left, right = deque(sorted_by(before, server_only)), deque(sorted_by(wanted, in_patch))
    result: list[Json] = []
    while left and right:
        here, there = (before.get(identity(read(items[0])), unknown) for items in (left, right))
        result.append(left.popleft() if here < there < unknown else right.popleft())
    return [*result, *left, *right]


def _merge_ordered_lists(result: JsonObject, patch: JsonObject, schema: Schema) -> set[str]:
    """Merge the lists whose order the patch fixes; the names of those that are done."""
    done = set()
    for directive, order in patch.items():
        if not directive.startswith(_ORDER):
            continue
        prefix, slash, name = directive.partition("/")
        if not slash or prefix != _ORDER or not isinstance(order, list):
            raise StrategicPatchError(_BAD_ORDER)
        field = schema.field(name) or ANYTHING
        if _merge_ordered_list(result, name, patch.get(name), order, field):
            done.add(name)
    return done


def _merge_ordered_list(result: JsonObject, name: str, patch: Json, order: list[Json], field: Schema) -> bool:
    original = result.get(name)
    if any(value is not None and not isinstance(value, list) for value in (original, patch)):
        raise StrategicPatchError(_BAD_ORDER)
    _check_order(patch or [], order, field.patch_merge_key)
    if original is None and patch is None:
        return True
    merged: list[Json]
    if patch is None:
        merged = original or []
    elif original is None:
        merged = _without_directives(patch)[0]
    else:
        merged = _merge_list(original, patch, field) if "merge" in field.patch_strategies else patch
    if field.patch_merge_key:
        result[name] = _order_by(merged, order, original or [], field.patch_merge_key)
    else:
        in_patch, server_only = _split(merged, order)
        result[name] = _interleave(server_only, in_patch, order, original or [], _itself)
    return True


def _check_order(patch: list[Json], order: list[Json], key: str) -> None:
    """The elements of the patch must come in the order it announces."""
    if not patch or not order:
        return
    remaining = iter(order)
    for element in patch:
        if key and isinstance(element, dict) and _DIRECTIVE in element:
            continue
        wanted = _key_value(element, key) if key else element
        if not any(json_equal(_key_value(item, key) if key else item, wanted) for item in remaining):
            raise StrategicPatchError(
                f"The order in patch list:\n{go_format(patch)}\n doesn't match {_ORDER} list:\n{go_format(order)}\n"
            )


def _key_value(element: Json, key: str) -> Json:
    if not isinstance(element, dict) or key not in element:
        raise StrategicPatchError(f"map: {go_format(element)} does not contain declared merge key: {key}")
    return element[key]


def _itself(item: Json) -> Json:
    return item


def _split(
    items: list[Json], wanted: Iterable[Json], read: Callable[[Json], Json] = _itself
) -> tuple[list[Json], list[Json]]:
    """Those of the items that are among the wanted values, and the others."""
    known = set(map(identity, wanted))
    within = [identity(read(item)) in known for item in items]
    return list(compress(items, within)), [item for item, inside in zip(items, within, strict=True) if not inside]


def _places(values: Iterable[Json]) -> dict[Hashable, int]:
    """Where each value first stands."""
    places: dict[Hashable, int] = {}
    for position, value in enumerate(values):
        places.setdefault(identity(value), position)
    return places


def _unique(items: list[Json]) -> list[Json]:
    return [items[position] for position in _places(items).values()]


def go_format(value: Json) -> str:
    """A JSON value as Go's %v prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_format(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_format, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_number(value) if isinstance(value, int | float) else str(value)


def strategic_diff(old: JsonObject, new: JsonObject, schema: Schema) -> JsonObject:
    """The strategic merge patch that turns `old` into `new`; {} when nothing differs."""
    patch: JsonObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if key not in old:
            patch[key] = value
        elif not json_equal(before, value):
            _diff_field(patch, key, before, value, schema.field(key) or ANYTHING)
    if patch and "retainKeys" in schema.patch_strategies and any(key not in old for key in new):
        patch[_RETAIN] = sorted(new)
    return patch


def _diff_field(patch: JsonObject, key: str, old: Json, new: Json, schema: Schema) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        patch[key] = new if "replace" in schema.patch_strategies else strategic_diff(old, new, schema)
    elif isinstance(old, list) and isinstance(new, list) and "merge" in schema.patch_strategies:
        _diff_list(patch, key, old, new, schema)
    else:
        patch[key] = new


def _diff_list(patch: JsonObject, key: str, old: list[Json], new: list[Json], schema: Schema) -> None:
    merge_key = schema.patch_merge_key
    if not merge_key:
        added, removed = _split(new, old)[1], _split(old, new)[1]
        if added:
            patch[key] = added
        if removed:
            patch[f"{_DELETE}/{key}"] = removed
        patch[f"{_ORDER}/{key}"] = new
        return
    changes: list[Json] = []
    before = {_hashable(item[merge_key]): item for item in old}
    for item in new:
        known = before.get(_hashable(item[merge_key]))
        if known is None:
            changes.append(item)
        elif not json_equal(known, item):
            difference = strategic_diff(known, item, schema.items or ANYTHING)
            if _RETAIN not in difference and "retainKeys" in schema.patch_strategies:
                difference[_RETAIN] = sorted(item)
            changes.append({**difference, merge_key: item[merge_key]})
    after = {_hashable(item[merge_key]) for item in new}
    for item in old:
        if _hashable(item[merge_key]) not in after:
            changes.append({_DIRECTIVE: "delete", merge_key: item[merge_key]})
    if changes:
        patch[key] = changes
    patch[f"{_ORDER}/{key}"] = [{merge_key: item[merge_key]} for item in new]


def _hashable(value: Json) -> str:
    return f"{type(value).__name__}:{value}"
