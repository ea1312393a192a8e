"""What kinds and their fields are for, as `kubectl explain` shows it.

The words are in tables beside the schemas; a kind says where, and they are only read when somebody asks for a definition
or an OpenAPI document: validation does not need them. A kind has one entry, its own sentence and those of its fields by
path; "*" holds fields that mean the same in every kind of the table. Paths lead through lists and maps without naming
their elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name

from corral.kinds.machinery.definition import KindDef, Schema, VersionDef

Table = Mapping[str, tuple[str, Mapping[str, str]]]


def described(kind: KindDef, version: VersionDef) -> Schema:
    """The schema of a kind Corral declares, with descriptions where its tables have any."""
    table = table_of(kind.descriptions)
    own, fields = table.get(kind.kind, ("", {}))
    schema = version.schema
    if own and "description" not in schema:
        schema = {**schema, "description": own}
    shared = table.get("*", ("", {}))[1]
    for path, text in {**shared, **fields}.items():
        schema = _with(schema, path.split("."), text) or schema
    return schema


@cache
def table_of(reference: str) -> Table:
    """The table that a kind's `descriptions` names; an empty one where it names none."""
    table: Table = resolve_name(reference) if reference else {}
    return table


def _with(schema: Schema, path: list[str], text: str) -> Schema | None:
    """A copy of `schema` with `text` at `path`; None where there is no such field, or where it is described already."""
    if not path:
        return None if "description" in schema else {**schema, "description": text}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            changed = _with(schema[inner], path, text)
            return None if changed is None else {**schema, inner: changed}
    properties = schema.get("properties") or {}
    if path[0] not in properties:
        return None
    changed = _with(properties[path[0]], path[1:], text)
    return None if changed is None else {**schema, "properties": {**properties, path[0]: changed}}
