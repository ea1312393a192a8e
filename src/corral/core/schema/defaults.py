"""Defaulting: filling in what a schema declares, and dropping nulls where null is not a value.

A default is put where its field is absent or is a null that the schema does not allow; parents that are absent stay
absent. The input is not mutated; without anything to fill in, the same object comes back.
"""

from __future__ import annotations

from typing import Any

from corral.core.schema.structural import NO_DEFAULT, Schema


def apply_defaults(value: Any, schema: Schema) -> Any:
    """`value` with the defaults of `schema` filled in, and without stray nulls."""
    if isinstance(value, dict):
        return _default_object(value, schema)
    if isinstance(value, list) and schema.items is not None:
        items = schema.items
        filled = [
            apply_defaults(_fresh(items.default) if _is_stray_null(item, items) else item, items) for item in value
        ]
        return value if all(map(_is, filled, value)) else filled
    return value


def fill(value: Any, schema: Schema) -> Any:
    """`value` with defaults only: visits nothing but the parts that have some. For values known to hold no stray null."""
    if "default" not in schema.reaches:
        return value
    if isinstance(value, dict):
        return _fill_object(value, schema)
    if isinstance(value, list) and schema.items is not None:
        filled = [fill(item, schema.items) for item in value]
        return value if all(map(_is, filled, value)) else filled
    return value


def _fill_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    result = value
    additional = schema.additional
    for name, field in schema.properties.items():
        if "default" not in field.reaches:
            continue
        item = value.get(name)
        if item is None and field.default is not NO_DEFAULT and not (field.nullable and name in value):
            item = _fresh(field.default)
        filled = fill(item, field)
        if filled is not value.get(name):
            if result is value:
                result = dict(value)
            result[name] = filled
    if additional is not None and "default" in additional.reaches:
        for name, item in value.items():
            filled = fill(item, additional) if name not in schema.properties else item
            if filled is not item:
                if result is value:
                    result = dict(value)
                result[name] = filled
    return result


def _is(a: object, b: object) -> bool:
    return a is b


def _is_stray_null(value: Any, schema: Schema) -> bool:
    return value is None and not schema.nullable and schema.default is not NO_DEFAULT


def _default_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    result = value
    if "default" in schema.reaches:
        for name, field in schema.properties.items():
            if field.default is NO_DEFAULT:
                continue
            if name not in value or (value[name] is None and not field.nullable):
                if result is value:
                    result = dict(value)
                result[name] = _fresh(field.default)
    for name, item in list(result.items()):
        inner = schema.properties.get(name) or schema.additional
        if inner is None or not (item is None or isinstance(item, dict | list)):
            continue
        filled = _fresh(inner.default) if _is_stray_null(item, inner) else item
        if filled is None and not inner.nullable and not inner.is_open:
            filled = _DROP
        elif filled is not None:
            filled = apply_defaults(filled, inner)
        if filled is not item:
            if result is value:
                result = dict(value)
            if filled is _DROP:
                del result[name]
            else:
                result[name] = filled
    return result


_DROP = object()


def _fresh(default: Any) -> Any:
    """A copy of a default: callers may own what they are given."""
    if isinstance(default, dict):
        return {name: _fresh(item) for name, item in default.items()}
    if isinstance(default, list):
        return [_fresh(item) for item in default]
    return default
