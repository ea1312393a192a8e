"""Lists made to keep to their keys: what a typed API accepts with repetitions, a schema of keyed lists and sets does not."""

from __future__ import annotations

from typing import Any

from corral.core.schema.structural import Schema
from corral.core.validation import go_json


def without_repetitions(value: Any, schema: Schema) -> Any:
    """`value` with one element for each key of a keyed list, and one of each in a set: the last, in the place of the first.

    What has no repetitions is returned as it is, not as a copy.
    """
    if "unique" not in schema.reaches:
        return value
    if isinstance(value, dict):
        fields = ((name, item, schema.field(name)) for name, item in value.items())
        new = {name: item if field is None else without_repetitions(item, field) for name, item, field in fields}
        return value if all(new[name] is item for name, item in value.items()) else new
    if isinstance(value, list):
        kept = _last_of_each(value, schema) if schema.list_type in ("map", "set") else value
        items = schema.items
        members = [without_repetitions(item, items) for item in kept] if items is not None else kept
        same = len(members) == len(value) and all(new is old for new, old in zip(members, value, strict=True))
        return value if same else members
    return value


def _last_of_each(items: list[Any], schema: Schema) -> list[Any]:
    return list({_identity(item, schema): item for item in items}.values())


def _identity(item: Any, schema: Schema) -> str:
    if schema.list_type == "set" or not isinstance(item, dict):
        return go_json(item)
    return go_json([item.get(key, schema.key_defaults.get(key)) for key in schema.list_keys])
