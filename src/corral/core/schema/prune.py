"""Pruning: dropping, or only listing, the fields a schema does not know.

Both walk the object and the schema side by side. Pruning returns the same object when there is nothing to drop.
"""

from __future__ import annotations

from typing import Any

from corral.core.schema.structural import ANYTHING, Schema


def prune(value: Any, schema: Schema) -> Any:
    """`value` without unknown fields; shares everything that stays."""
    if isinstance(value, dict):
        return _prune_object(value, schema)
    if isinstance(value, list):
        items = schema.items
        if items is None:
            # A list without declared elements is only cleaned where nothing at all is declared.
            return value
        pruned = [prune(item, items) for item in value]
        return value if all(map(_is, pruned, value)) else pruned
    return value


def _is(a: object, b: object) -> bool:
    return a is b


def _prune_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    keep_unknown = schema.preserve or schema.is_open
    properties, additional = schema.properties, schema.additional
    result = value
    for name, item in value.items():
        field = properties.get(name) or additional
        if field is not None:
            kept = prune(item, field) if isinstance(item, dict | list) else item
            if kept is item:
                continue
            if result is value:
                result = dict(value)
            result[name] = kept
        elif not keep_unknown:
            if result is value:
                result = dict(value)
            del result[name]
    return result


def unknown_fields(value: Any, schema: Schema) -> list[str]:
    """The paths of fields that `prune` would drop, as `spec.containers[0].bogus`, in document order."""
    found: list[str] = []
    _collect(value, schema, "", found)
    return found


def _collect(value: Any, schema: Schema, path: str, found: list[str]) -> None:
    if isinstance(value, dict):
        keep_unknown = schema.preserve or schema.is_open
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            field = schema.properties.get(name) or schema.additional
            if field is None:
                if not keep_unknown:
                    found.append(here)
            elif field is not ANYTHING and isinstance(item, dict | list):
                _collect(item, field, here, found)
    elif isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(value):
            if isinstance(item, dict | list):
                _collect(item, schema.items, f"{path}[{position}]", found)
