"""Server-side apply, and who owns which field after any other write.

`apply` merges what a manager declares into the live object: fields it stops declaring go away unless somebody else owns
them, and changing what somebody else owns is a conflict unless forced. `track_update` keeps metadata.managedFields true
for every other kind of write; it runs on each of them, so it walks only what changed. Both are driven by the schema (which
lists have keys, which values are atomic) and share all they do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from corral.core.errors import Conflict
from corral.core.meta import Obj, metadata_of
from corral.core.patch import fieldset
from corral.core.patch.fieldset import FieldSet, FieldSetError, Path
from corral.core.patch.json import json_equal
from corral.core.schema.structural import ANYTHING, Schema
from corral.core.validation import go_quote

MAX_UPDATE_ENTRIES: Final = 10
_ANCIENT: Final = "ancient-changes"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
STAND_IN: Final = "corral-stand-in"
"""Manager of objects that stand for an installation whose work Corral does itself: they give way to whoever applies."""
_UNOWNED: Final = frozenset({"apiVersion", "kind", "metadata"})
_UNOWNED_METADATA: Final = frozenset({
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds",
})  # fmt: skip


class TypedObjectError(ValueError):
    """The applied configuration does not have the form its schema says."""


def managed_fields_of(obj: Obj) -> list[Obj]:
    return metadata_of(obj).get("managedFields") or []


def track_update(
    old: Obj,
    new: Obj,
    schema: Schema,
    *,
    manager: str,
    now: str,
    subresource: str = "",
    creating: bool = False,
) -> Obj:
    """`new` with managedFields that say `manager` made the changes since `old`.

    When `creating`, `old` is the empty object of the kind. An object whose managedFields were cleared stays without
    them until it is applied. A client may write managedFields itself (except through a subresource); `[{}]` clears them.
    """
    entries = _entries_to_start_from(old, new, bool(subresource))
    if not entries and not creating:
        return with_managed_fields(new, [])
    changes = _compare(old, new, schema)
    if not changes:
        return with_managed_fields(new, entries)
    left = _without(entries, changes)
    if changes.touched:
        version = str(new.get("apiVersion") or "")
        left = _credit(left, _entry(manager, "Update", version, subresource, now, changes.touched))
    return with_managed_fields(new, _capped(left))


def apply(
    live: Obj | None,
    config: Obj,
    schema: Schema,
    *,
    manager: str,
    now: str,
    force: bool = False,
    subresource: str = "",
    reset: Sequence[str] = (),
) -> Obj:
    """The object after `manager` applied `config` to `live` (None: it does not exist yet).

    Returns `live` itself when nothing changes; otherwise as `merge`.
    """
    merged, entries = merge(
        live, config, schema, manager=manager, now=now, force=force, subresource=subresource, reset=reset
    )
    if live is not None and merged is live and entries == managed_fields_of(live):
        return live
    return with_managed_fields(merged, entries)


def merge(
    live: Obj | None,
    config: Obj,
    schema: Schema,
    *,
    manager: str,
    now: str,
    force: bool = False,
    subresource: str = "",
    reset: Sequence[str] = (),
) -> tuple[Obj, list[Obj]]:
    """The object after `manager` applied `config`, still with the managedFields of `live`, and those it is to have.

    `reset` names top-level fields that this endpoint ignores (`status` on the main one). The object is `live` itself when
    none of its fields change. Raises Conflict naming every field and its owner, and TypedObjectError for a malformed
    `config`.
    """
    # Invariants. Only the entry of `manager` for Apply and this subresource can gain fields; other entries can only lose
    # some. What is equal is the same object, so "nothing changed" is an identity test and a repeated apply writes nothing.
    config = _applicable(config, reset)
    declared = _declared_fields(config, schema)
    applied = _owned(declared)
    before: Obj = live or {}
    entries = managed_fields_of(before)
    if live is not None and not entries:
        # Without an owner for what is there, the first apply would silently overrule whoever wrote it.
        entries = _entries_before_first_apply(before, schema, now)
    mine = _find(entries, manager, "Apply", subresource)
    others = [entry for entry in entries if entry is not mine]
    merged = merge_config(before, config, schema)
    if mine is not None and fieldset.difference(mine["fieldsV1"], applied):
        # With what nobody owns: an object whose last label is given up is still called what it is called.
        kept = fieldset.union_all([declared, *(entry["fieldsV1"] for entry in others)])
        merged = _drop_abandoned(merged, mine["fieldsV1"], kept, schema)
    # Conflicts come from what changes, not from what is declared: declaring the value that is there means sharing it.
    changes = _compare(before, merged, schema)
    if not force:
        _refuse_conflicts([entry for entry in others if entry.get("manager") != STAND_IN], changes.touched)
    left = _without(others, changes)
    if applied:
        version = str(config.get("apiVersion") or "")
        entry = _entry(manager, "Apply", version, subresource, now, applied)
        if not changes and mine is not None and _same_but_time(mine, entry):
            entry = mine  # a new time alone would be a new revision for every repeated apply
        left = [*left, entry]
    return merged, _sorted(left)


def _compare(old: Obj, new: Obj, schema: Schema) -> fieldset.Changes:
    """Changes of the fields that can have an owner."""
    return fieldset.compare(_ownable(old, new), _ownable(new, old), schema)


def _ownable(obj: Obj, other: Obj) -> Obj:
    """The fields of `obj` that can have an owner, but for those it shares with `other`."""
    rest = {name: value for name, value in obj.items() if name not in _UNOWNED and value is not other.get(name)}
    theirs = metadata_of(other)
    rest["metadata"] = {
        name: value
        for name, value in metadata_of(obj).items()
        if name not in _UNOWNED_METADATA and value is not theirs.get(name)
    }
    return rest


def _owned(fields: FieldSet) -> FieldSet:
    """`fields` without those nobody can own."""
    rest = {step: node for step, node in fields.items() if step[2:] not in _UNOWNED}
    metadata = fields.get("f:metadata") or {}
    kept = {step: node for step, node in metadata.items() if step[2:] not in _UNOWNED_METADATA and step != "."}
    return {**rest, "f:metadata": kept} if kept else rest


def _applicable(config: Obj, reset: Sequence[str]) -> Obj:
    kept = {name: value for name, value in config.items() if name not in reset}
    trimmed: Obj = _without_nulls(kept) if _has_nulls(kept) else kept
    return trimmed


def _has_nulls(value: Obj | list[Any]) -> bool:
    for item in value.values() if isinstance(value, dict) else value:
        if item is None or (isinstance(item, (dict, list)) and _has_nulls(item)):
            return True
    return False


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _declared_fields(config: Obj, schema: Schema) -> FieldSet:
    try:
        return fieldset.fields_of(config, schema)
    except FieldSetError as error:
        metadata = metadata_of(config)
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        group_version, kind = str(config.get("apiVersion") or ""), config.get("kind", "")
        if "/" not in group_version:
            group_version = f"/{group_version}"
        raise TypedObjectError(
            f"failed to create typed patch object ({where}; {group_version}, Kind={kind}): {error}"
        ) from None


def merge_config(live: Any, config: Any, schema: Schema) -> Any:
    """`live` with everything `config` says put in; shares what stays the same."""
    how = fieldset.merge_of(config, schema)
    if how == "map" and isinstance(live, dict) and isinstance(config, dict):
        result = live
        for name, value in config.items():
            merged = merge_config(live[name], value, schema.field(name) or ANYTHING) if name in live else value
            if name not in live or merged is not live[name]:
                if result is live:
                    result = dict(live)
                result[name] = merged
        return result
    if how in ("set", "keyed") and isinstance(live, list) and isinstance(config, list):
        return _merge_list(live, config, schema)
    return live if json_equal(live, config) else config


def _merge_list(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """Elements of both; shared ones in the order of `config`, the others stay before what they preceded."""
    steps = [fieldset.element_step(element, schema) for element in live]
    wanted = [fieldset.element_step(element, schema) for element in config]
    shared = set(wanted)
    places = {step: position for position, step in reversed(list(enumerate(steps)))}
    items = schema.items or ANYTHING
    result: list[Any] = []
    reached = 0
    for step, element in zip(wanted, config, strict=True):
        position = places.get(step)
        if position is None:
            result.append(element)
            continue
        while reached <= position:
            if steps[reached] not in shared:
                result.append(live[reached])
            reached += 1
        result.append(merge_config(live[position], element, items) if schema.merge == "keyed" else live[position])
    result += [element for at, element in enumerate(live) if at >= reached and steps[at] not in shared]
    unchanged = len(result) == len(live) and all(new is old for new, old in zip(result, live, strict=True))
    return live if unchanged else result


def _drop_abandoned(value: Any, last: FieldSet, kept: FieldSet, schema: Schema) -> Any:
    """`value` without the fields in `last` that are not in `kept`: given up, and nobody else's."""
    if isinstance(value, dict):
        result = dict(value)
        for step, node in last.items():
            name = step[2:]
            if step == "." or name not in value:
                continue
            named = name in schema.properties
            if _is_given_up(node, kept.get(step), named):
                del result[name]
            elif node:
                inner = _drop_abandoned(value[name], node, kept.get(step) or {}, schema.field(name) or ANYTHING)
                _replace_or_drop(result, name, inner, value[name])
        return result if len(result) != len(value) or any(result[name] is not value[name] for name in value) else value
    if isinstance(value, list) and schema.merge in ("set", "keyed"):
        return _drop_abandoned_elements(value, last, kept, schema)
    return value


def _is_given_up(node: FieldSet, kept: FieldSet | None, named: bool) -> bool:
    owned_before = named or fieldset.is_member(node)
    return owned_before and not (kept is not None and (named or fieldset.is_member(kept)))


def _replace_or_drop(result: Obj, name: str, inner: Any, before: Any) -> None:
    if inner is before:
        return
    if inner in ({}, []):
        del result[name]
    else:
        result[name] = inner


def _drop_abandoned_elements(value: list[Any], last: FieldSet, kept: FieldSet, schema: Schema) -> list[Any]:
    result = []
    for element in value:
        step = fieldset.element_step(element, schema)
        node = last.get(step) if step else None
        if step is None or node is None:
            result.append(element)
        elif not _is_given_up(node, kept.get(step), named=False):
            result.append(_drop_abandoned(element, node, kept.get(step) or {}, schema.items or ANYTHING))
    unchanged = len(result) == len(value) and all(new is old for new, old in zip(result, value, strict=True))
    return value if unchanged else result


def _refuse_conflicts(entries: Iterable[Obj], touched: FieldSet) -> None:
    conflicts: list[tuple[Obj, Path]] = []
    for entry in entries:
        contested = fieldset.intersection(entry["fieldsV1"], touched)
        conflicts += [(entry, path) for path in fieldset.paths(contested)]
    if not conflicts:
        return
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_title(entry)}",
            "field": fieldset.path_text(path),
        }
        for entry, path in conflicts
    ]
    raise Conflict(_conflict_message(conflicts), details={"causes": causes})


def _conflict_message(conflicts: list[tuple[Obj, Path]]) -> str:
    if len(conflicts) == 1:
        entry, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_title(entry)}: {fieldset.path_text(path)}"
    by_owner: dict[str, list[str]] = {}
    for entry, path in conflicts:
        by_owner.setdefault(_title(entry), []).append(f"- {fieldset.path_text(path)}")
    lines = [line for title in sorted(by_owner) for line in (f"conflicts with {title}:", *by_owner[title])]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _title(entry: Obj) -> str:
    """A manager as a conflict names it."""
    title = go_quote(str(entry.get("manager") or ""))
    if entry.get("subresource"):
        title += f" with subresource {go_quote(entry['subresource'])}"
    if entry.get("operation") == "Update":
        title += f" using {entry.get('apiVersion', '')}"
    return title


def _entry(manager: str, operation: str, version: str, subresource: str, now: str, fields: FieldSet) -> Obj:
    entry: Obj = {
        "manager": manager or "unknown",
        "operation": operation,
        "apiVersion": version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def _identity(entry: Obj) -> tuple[str, str, str, str]:
    """What makes two entries the same one; an applier keeps its entry when it moves to another version."""
    operation = str(entry.get("operation") or "")
    version = "" if operation == "Apply" else str(entry.get("apiVersion") or "")
    return str(entry.get("manager") or ""), operation, version, str(entry.get("subresource") or "")


def _find(entries: Sequence[Obj], manager: str, operation: str, subresource: str) -> Obj | None:
    wanted = (manager or "unknown", operation, "", subresource)
    return next((entry for entry in entries if _identity(entry) == wanted), None)


def _same_but_time(a: Obj, b: Obj) -> bool:
    return (
        _identity(a) == _identity(b) and a.get("apiVersion") == b.get("apiVersion") and a["fieldsV1"] == b["fieldsV1"]
    )


def _entries_to_start_from(old: Obj, new: Obj, through_subresource: bool) -> list[Obj]:
    current = managed_fields_of(old)
    if through_subresource:
        return current
    given = metadata_of(new).get("managedFields")
    if given is None or given is current:
        return current
    if given == [{}]:
        return []
    readable = [entry for entry in given if isinstance(entry, dict) and isinstance(entry.get("fieldsV1"), dict)]
    return readable or current


def _entries_before_first_apply(live: Obj, schema: Schema, now: str) -> list[Obj]:
    """Everything in an object nobody tracked belongs to whoever wrote it before it was first applied."""
    fields = _compare({}, live, schema).touched
    fields = _owned(fields)
    if not fields:
        return []
    return [_entry(_BEFORE_FIRST_APPLY, "Update", str(live.get("apiVersion") or ""), "", now, fields)]


def _without(entries: Sequence[Obj], changes: fieldset.Changes) -> list[Obj]:
    """`entries` without the changed fields; entries left with none disappear."""
    result = []
    for entry in entries:
        fields = entry["fieldsV1"]
        rest = fieldset.difference(fieldset.difference(fields, changes.touched), changes.removed)
        if rest is fields:
            result.append(entry)
        elif rest:
            result.append({**entry, "fieldsV1": rest})
    return result


def _credit(entries: list[Obj], earned: Obj) -> list[Obj]:
    """`entries` with the fields of `earned` added to its manager's entry, which takes its time."""
    wanted = _identity(earned)
    for position, entry in enumerate(entries):
        if _identity(entry) == wanted:
            fields = fieldset.union(entry["fieldsV1"], earned["fieldsV1"])
            joined = {**earned, "fieldsV1": fields}
            return [*entries[:position], *entries[position + 1 :], joined]
    return [*entries, earned]


def _capped(entries: list[Obj]) -> list[Obj]:
    """At most ten Update entries: beyond that the oldest of a version are lumped together."""
    updates = [entry for entry in entries if entry.get("operation") == "Update"]
    excess = len(updates) - MAX_UPDATE_ENTRIES
    if excess <= 0:
        return _sorted(entries)
    kept = [entry for entry in entries if entry.get("operation") != "Update"]
    updates.sort(key=lambda entry: (entry.get("time") or "", entry.get("manager") or ""))
    lumps: dict[str, list[Obj]] = {}
    for entry in updates:
        lump = lumps.setdefault(str(entry.get("apiVersion") or ""), [])
        if not lump or excess > 0:
            excess -= bool(lump)
            lump.append(entry)
        else:
            kept.append(entry)
    return _sorted([*kept, *(_lumped(version, lump) for version, lump in lumps.items())])


def _lumped(version: str, entries: list[Obj]) -> Obj:
    if len(entries) == 1:
        return entries[0]
    fields = fieldset.union_all(entry["fieldsV1"] for entry in entries)
    return _entry(_ANCIENT, "Update", version, "", entries[-1].get("time") or "", fields)


def _sorted(entries: list[Obj]) -> list[Obj]:
    return sorted(
        entries,
        key=lambda entry: (
            entry.get("operation") or "",
            entry.get("time") or "",
            entry.get("manager") or "",
            entry.get("apiVersion") or "",
            entry.get("subresource") or "",
        ),
    )


def with_managed_fields(obj: Obj, entries: list[Obj]) -> Obj:
    """`obj` with these entries; the same object when it has them already."""
    metadata = metadata_of(obj)
    if metadata.get("managedFields") is entries:
        return obj
    if entries:
        return {**obj, "metadata": {**metadata, "managedFields": entries}}
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
