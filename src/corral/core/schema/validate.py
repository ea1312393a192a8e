"""Schema validation in the words of a Kubernetes API server.

`validate` walks a value and says everything that is wrong with it, field by field. Given the old value too, it ratchets:
a fault in a part that did not change is forgiven. Uniqueness of sets and keyed lists and the metadata of embedded
objects are checked here as well; CEL rules are checked in `rules`.

Upstream walks members in random order; we walk them by name, so that answers are reproducible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from corral.core import names, validation
from corral.core.errors import Cause
from corral.core.patch.json import json_equal
from corral.core.regex import search
from corral.core.schema.formats import find_check
from corral.core.schema.gate import INTEGER_RANGES, LARGEST_FLOAT
from corral.core.schema.structural import Schema

ABSENT: Final = object()
"""As an old value: there is none to compare with."""

_SIMPLE_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    dict: "object",
    list: "array",
    type(None): "null",
}


def validate(value: Any, schema: Schema, old: Any = ABSENT, path: str = "") -> list[Cause]:
    """Everything wrong with `value`, in parts that differ from `old`.

    `path` is where the value stands in its object (`status` when only the status is validated); messages name fields
    relative to the value, as upstream does.
    """
    causes: list[Cause] = []
    _Walker(path, causes).check(value, schema, "", old)
    causes += check_embedded(value, schema, path)
    causes += check_uniqueness(value, schema, path, old)
    return causes


def json_type(value: Any) -> str:
    """The JSON type of `value`; whole numbers are integers however they are written, up to what Go's have room for."""
    if isinstance(value, float):
        return "integer" if value.is_integer() and abs(value) < 2.0**63 else "number"
    found = _SIMPLE_TYPES[type(value)]
    return "number" if found == "integer" and not -(2**63) <= value < 2**63 else found


class _Walker:
    """One walk over one value; collects causes."""

    def __init__(self, prefix: str, causes: list[Cause]) -> None:
        self.prefix = prefix
        self.causes = causes

    def check(self, value: Any, schema: Schema, path: str, old: Any) -> None:
        before = len(self.causes)
        self._check_here(value, schema, path, old)
        if len(self.causes) > before and old is not ABSENT and json_equal(value, old):
            del self.causes[before:]

    def _check_here(self, value: Any, schema: Schema, path: str, old: Any) -> None:
        self._check_type(value, schema, path)
        if value is None:
            if not schema.nullable:
                self._check_enum(value, schema, path)
            return
        if schema.has_combinators:
            self._check_combinators(value, schema, path)
        if isinstance(value, str):
            self._check_string(value, schema, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(value, schema, path)
        elif isinstance(value, list):
            self._check_list(value, schema, path, old)
        self._check_enum(value, schema, path)
        if isinstance(value, dict):
            self._check_object(value, schema, path, old)

    def field(self, path: str) -> str:
        if not path:
            return self.prefix or "<nil>"
        return f"{self.prefix}.{path}" if self.prefix else path

    def invalid(self, path: str, value: Any, text: str) -> None:
        self.causes.append(validation.invalid(self.field(path), value, f"{path} in body {text}"))

    def _check_type(self, value: Any, schema: Schema, path: str) -> None:
        wanted = ("integer", "string") if schema.int_or_string else (schema.type,) if schema.type else ()
        if not wanted or (value is None and schema.nullable):
            return
        found = json_type(value)
        if found in wanted or (found == "integer" and "number" in wanted):
            return
        shown: str = ",".join(wanted)
        format_name = str(schema.raw.get("format") or "")
        if wanted == ("integer",) and found == "number" and format_name in INTEGER_RANGES:
            shown, found = format_name, "float64"
        if format_name and found not in ("string", "array", "null") and find_check(format_name):
            shown, found = format_name, ""
        if format_name and wanted == ("string",) and found == "array" and find_check(format_name):
            return
        text = f"{path} in body must be of type {shown}: {validation.go_quote(found)}"
        self.causes.append(validation.type_invalid(self.field(path), found, text))

    def _check_enum(self, value: Any, schema: Schema, path: str) -> None:
        choices = schema.raw.get("enum")
        if not choices or any(json_equal(value, choice) for choice in choices):
            return
        shown = [choice if isinstance(choice, str) else validation.go_json(choice) for choice in choices]
        self.causes.append(validation.not_supported(self.field(path), value, shown))

    def _check_string(self, value: str, schema: Schema, path: str) -> None:
        raw = schema.raw
        longest, shortest, pattern = raw.get("maxLength"), raw.get("minLength"), raw.get("pattern")
        if longest is not None and len(value) > longest:
            self.causes.append(validation.too_long(self.field(path), longest))
        elif shortest is not None and len(value) < shortest:
            self.invalid(path, value, f"should be at least {shortest} chars long")
        elif pattern and not search(pattern, value):
            self.invalid(path, value, f"should match '{pattern}'")
        format_name = raw.get("format")
        check = find_check(format_name) if format_name else None
        if check is not None and not check(value):
            text = f"{path} in body must be of type {format_name}: {validation.go_quote(value)}"
            self.causes.append(validation.type_invalid(self.field(path), value, text))

    def _check_number(self, value: float, schema: Schema, path: str) -> None:
        raw = schema.raw
        self._check_range(value, schema, path)
        factor = raw.get("multipleOf")
        if factor and not _is_multiple(value, factor):
            self.invalid(path, value, f"should be a multiple of {validation.go_number(float(factor))}")
        limit = raw.get("maximum")
        if limit is not None:
            exclusive = bool(raw.get("exclusiveMaximum"))
            if value > limit or (exclusive and value == limit):
                words = "less than" if exclusive else "less than or equal to"
                self.invalid(path, value, f"should be {words} {validation.go_number(float(limit))}")
        limit = raw.get("minimum")
        if limit is not None:
            exclusive = bool(raw.get("exclusiveMinimum"))
            if value < limit or (exclusive and value == limit):
                words = "greater than" if exclusive else "greater than or equal to"
                self.invalid(path, value, f"should be {words} {validation.go_number(float(limit))}")

    def _check_range(self, value: float, schema: Schema, path: str) -> None:
        """Whether the number fits the Go type that the schema's type and format stand for."""
        format_name = str(schema.raw.get("format") or "")
        if schema.type == "integer":
            low, high = INTEGER_RANGES.get(format_name, INTEGER_RANGES["int64"])
            fits = low <= value <= high and value == int(value)
            known = format_name in INTEGER_RANGES
        elif schema.type == "number" and format_name == "float":
            fits, known = abs(value) <= LARGEST_FLOAT, True
        else:
            return
        if not fits:
            words = f"with format {format_name}" if known else "(default format)"
            text = f"Checked value must be of type {schema.type} {words} in {path}"
            self.causes.append(validation.invalid("<nil>", "", text))

    def _check_list(self, value: list[Any], schema: Schema, path: str, old: Any) -> None:
        raw = schema.raw
        limit = raw.get("maxItems")
        if schema.items is not None:
            before = _correlate(schema, old)
            for position, item in enumerate(value):
                self.check(item, schema.items, f"{path}[{position}]", before(item))
        if raw.get("minItems") is not None and len(value) < raw["minItems"]:
            self.invalid(path, len(value), f"should have at least {raw['minItems']} items")
        if limit is not None and len(value) > limit:
            self.causes.append(validation.too_many(self.field(path), len(value), limit))
        if raw.get("uniqueItems") and _repeated(value):
            self.invalid(path, "", "shouldn't contain duplicates")

    def _check_object(self, value: dict[str, Any], schema: Schema, path: str, old: Any) -> None:
        fewest, most = schema.raw.get("minProperties"), schema.raw.get("maxProperties")
        if fewest is not None and len(value) < fewest:
            self.invalid(path, len(value), f"should have at least {fewest} properties")
            return
        if most is not None and len(value) > most:
            self.causes.append(validation.too_many(self.field(path), len(value), most))
            return
        before = old if isinstance(old, dict) else {}
        for name, item in sorted(value.items()):
            field = schema.properties.get(name) or schema.additional
            if field is None:
                continue
            here = f"{path}.{name}" if path else name
            ratchets = path or name not in ("kind", "apiVersion")
            self.check(item, field, here, before.get(name, ABSENT) if ratchets else ABSENT)
        for name in schema.required:
            if name not in value:
                self.causes.append(validation.required(self.field(f"{path}.{name}" if path else name)))

    def _check_combinators(self, value: Any, schema: Schema, path: str) -> None:
        for word, branches in schema.combinators.items():
            verdicts = [self._try(value, branch, path) for branch in branches]
            passed = sum(1 for verdict in verdicts if not verdict)
            text = _COMBINATOR_FAULTS[word](passed, len(branches))
            if not text:
                continue
            self.causes.append(validation.invalid(self.prefix or "<nil>", "", f"{validation.go_quote(path)} {text}"))
            if word in ("anyOf", "oneOf") and not passed:
                self.causes += sorted(verdicts, key=len)[0]
            elif word == "allOf":
                self.causes += [cause for verdict in verdicts for cause in verdict]

    def _try(self, value: Any, branch: Schema, path: str) -> list[Cause]:
        causes: list[Cause] = []
        _Walker(self.prefix, causes).check(value, branch, path, ABSENT)
        return causes


def _any_of(passed: int, total: int) -> str:
    return "" if passed else "must validate at least one schema (anyOf)"


def _one_of(passed: int, total: int) -> str:
    if passed == 1:
        return ""
    found = "none valid" if not passed else f"{passed} valid alternatives"
    return f"must validate one and only one schema (oneOf). Found {found}"


def _all_of(passed: int, total: int) -> str:
    if passed == total:
        return ""
    return "must validate all the schemas (allOf)" + ("" if passed else ". None validated")


def _not(passed: int, total: int) -> str:
    return "must not validate the schema (not)" if passed else ""


_COMBINATOR_FAULTS: Final[dict[str, Callable[[int, int], str]]] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
}


def _correlate(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """A function from an element to the old element it stands for: by key in keyed lists, else none."""
    if schema.merge != "keyed" or not isinstance(old, list):
        return lambda item: ABSENT
    known = {_key(item, schema): item for item in old if isinstance(item, dict)}
    return lambda item: known.get(_key(item, schema), ABSENT) if isinstance(item, dict) else ABSENT


def _key(item: dict[str, Any], schema: Schema) -> tuple[str, ...]:
    return tuple(validation.go_json(item.get(key)) for key in schema.list_keys)


def _is_multiple(value: float, factor: float) -> bool:
    quotient = value / factor
    return abs(quotient - round(quotient)) < 1e-9


def check_uniqueness(value: Any, schema: Schema, path: str = "", old: Any = ABSENT) -> list[Cause]:
    """Causes for repeated members of sets and repeated keys of keyed lists; none while `old` has some already."""
    causes: list[Cause] = []
    if "unique" in schema.reaches:
        _walk_unique(value, schema, path, causes)
        if causes and old is not ABSENT and check_uniqueness(old, schema):
            return []
    return causes


def _walk_unique(value: Any, schema: Schema, path: str, causes: list[Cause]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            field = schema.properties.get(name)
            if field is not None:
                if "unique" in field.reaches:
                    _walk_unique(item, field, f"{path}.{name}" if path else name, causes)
            elif schema.additional is not None and "unique" in schema.additional.reaches:
                _walk_unique(item, schema.additional, f"{path}[{name}]", causes)
    elif isinstance(value, list):
        if schema.list_type == "set" and len(value) > 1:
            causes += [validation.duplicate(f"{path}[{at}]", value[at]) for at in _repeated(value)]
        elif schema.list_type == "map":
            causes += _check_keys(value, schema, path)
        if schema.items is not None and "unique" in schema.items.reaches:
            for position, item in enumerate(value):
                _walk_unique(item, schema.items, f"{path}[{position}]", causes)


def _check_keys(value: list[Any], schema: Schema, path: str) -> list[Cause]:
    if _are_distinct(value, schema.list_keys):
        return []
    for position, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            detail = "must be an object for an array of list-type map"
            return [validation.invalid(f"{path}[{position}]", item, detail)]
    keys = [{key: item[key] for key in schema.list_keys if key in item} if item else {} for item in value]
    return [validation.duplicate(f"{path}[{at}]", keys[at]) for at in _repeated(keys)]


def _are_distinct(items: list[Any], keys: tuple[str, ...]) -> bool:
    """True when all elements are objects and no two share their keys; False means: look closer."""
    try:
        if len(keys) == 1:
            (key,) = keys
            return len({item.get(key) for item in items}) == len(items)
        return len({tuple([item.get(key) for key in keys]) for item in items}) == len(items)
    except (AttributeError, TypeError):  # a null element, or a key that is no scalar
        return False


def _repeated(values: list[Any]) -> list[int]:
    """The positions at which a value is seen for the second time."""
    seen: dict[tuple[str, Any], int] = {}
    repeated = []
    for position, value in enumerate(values):
        compound = isinstance(value, dict | list)
        key = (type(value).__name__, validation.go_json(value) if compound else value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            repeated.append(position)
    return repeated


def check_embedded(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Causes found in apiVersion, kind and metadata of objects embedded in `value`."""
    if "embedded" not in schema.reaches:
        return []
    causes: list[Cause] = []
    if isinstance(value, dict):
        if schema.embedded:
            causes += _check_embedded_object(value, path)
        for name, item in value.items():
            field = schema.properties.get(name)
            if field is not None:
                causes += check_embedded(item, field, f"{path}.{name}" if path else name)
            elif schema.additional is not None:
                causes += check_embedded(item, schema.additional, f"{path}[{name}]")
    elif isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(value):
            causes += check_embedded(item, schema.items, f"{path}[{position}]")
    return causes


def _check_embedded_object(value: dict[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("apiVersion", "kind"):
        where = validation.child(path, name)
        if name not in value:
            causes.append(validation.required(where))
        elif not isinstance(value[name], str):
            causes.append(validation.invalid(where, value[name], "must be a string"))
        elif not value[name]:
            causes.append(validation.invalid(where, "", "must not be empty"))
        elif name == "kind" and (complaints := names.check_label_1035(value[name].lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            causes.append(validation.invalid(where, value[name], detail))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        causes += validation.check_metadata(
            {"name": "fakename", **metadata},
            namespaced=bool(metadata.get("namespace")),
            check_name=names.check_path_segment,
            path=validation.child(path, "metadata"),
            qualified_finalizers=False,
        )
    return causes
