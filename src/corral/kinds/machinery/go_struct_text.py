"""How a real API server shows a value inside an error message when that value is one of its internal Go structs.

Validation upstream runs on internal types, which have no JSON names, so a refused pod template is printed with Go field
names and every field present. This module renders the same text from the object clients sent.
"""

from __future__ import annotations

import json
from typing import Any

from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.validation import go_json
from corral.kinds.machinery.gotypes import Field, fields_of, is_struct, underlying

MAX_COMPARED = 300
"""Lines from the first difference on. The shortest diff of many takes their product in time, and nobody reads it."""
_OBJECT_META = frozenset(field.json_name for field in fields_of("meta/v1.ObjectMeta"))
_VALUES = {"resource.Quantity": "0", "intstr.IntOrString": 0}
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


def render(internal: str, versioned: str, value: Any) -> str:
    """The text of `value`, a `versioned` object, printed as the `internal` type."""
    return go_json(convert(internal, versioned, value))


def invalid(path: str, internal: str, versioned: str, value: Any, detail: str) -> Cause:
    """An Invalid cause whose value is shown as an internal struct."""
    return Cause("FieldValueInvalid", f"Invalid value: {render(internal, versioned, value)}: {detail}", path)


def diff(internal: str, versioned: str, new: Any, old: Any) -> str:
    """A unified diff of two objects printed as internal types, as pod update errors show it."""
    import difflib  # only for words of refusal

    texts = (json.dumps(convert(internal, versioned, value), indent=1, ensure_ascii=False) for value in (old, new))
    before, after = ([line + "\n" for line in text.split("\n")] for text in texts)
    compared = _common(before, after) + MAX_COMPARED
    left_out = max(len(before), len(after)) - compared
    if left_out <= _common(before[::-1], after[::-1]):
        return "".join(list(difflib.unified_diff(before, after))[2:])
    lines = list(difflib.unified_diff(before[:compared], after[:compared]))[2:]
    return "".join([*lines, f"... {left_out} more lines are not compared\n"])


def _common(before: list[str], after: list[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = zip(before, after, strict=False)
    return next((n for n, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))


def convert(internal: str, versioned: str, value: Any) -> Any:
    """`value` with Go field names, zero values included."""
    if internal.startswith("*"):
        return None if value is None else convert(internal[1:], versioned.lstrip("*"), value)
    if internal in _VALUES:
        return _VALUES[internal] if value is None else value
    actual = underlying(internal)
    if "/" in actual.partition("[")[0]:
        missing: Obj | None = None if not is_struct(actual) or actual.startswith("meta/v1.Time") else {}
        return missing if value is None else _in_order(value)
    if actual.startswith("[]"):
        element = underlying(versioned)[2:]
        return [convert(actual[2:], element, item) for item in value] if value else None
    if actual.startswith("map["):
        inner, outer = actual.partition("]")[2], underlying(versioned).partition("]")[2]
        return {key: convert(inner, outer, value[key]) for key in sorted(value)} if value else None
    if is_struct(actual):
        return _struct(actual, versioned, value or {})
    return {"string": "", "bool": False}.get(actual, 0) if value is None else value


def _struct(internal: str, versioned: str, value: Obj) -> Obj:
    if internal == "core.PodSpec":
        value = _with_host_fields(value)
    known = {field.go_name: field for field in fields_of(versioned)} if is_struct(versioned) else {}
    result: Obj = {}
    for field in fields_of(internal):
        if field.json_name in _OBJECT_META and field.json_name != field.go_name:
            found = (value.get("metadata") or {}).get(field.json_name)
            if found:
                result[field.json_name] = _in_order(found)
            continue
        result[field.json_name] = _field(field, known.get(field.go_name), value)
    return result


def _in_order(value: Any) -> Any:
    """A value that keeps its JSON names, with labels and the like sorted as Go sorts maps."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(item, str) for item in value.values()):
        return dict(sorted(value.items()))
    return {key: _in_order(item) for key, item in value.items()}


def _field(field: Field, known: Field | None, value: Obj) -> Any:
    name = known.json_name if known is not None else _host_name(field.go_name)
    return convert(field.type, known.type if known is not None else field.type, value.get(name))


def _host_name(go_name: str) -> str:
    return go_name[0].lower() + go_name[1:]


def _with_host_fields(spec: Obj) -> Obj:
    """Internally, the host namespaces are part of the security context."""
    extra = {name: spec[name] for name in _HOST_FIELDS if name in spec}
    context = spec.get("securityContext")
    return spec if context is None and not extra else {**spec, "securityContext": {**(context or {}), **extra}}
