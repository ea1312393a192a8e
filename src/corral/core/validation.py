"""Causes: the sentences in which a Kubernetes API server says what is wrong with a field.

The builders here are named after upstream's error types and render bad values as Go would. A field path is plain
text such as `spec.containers[0].name`; `child`, `index` and `keyed` compose one. The checks of object metadata that
every kind shares are here too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.names import label_value_faults, qualified_name_faults
from corral.core.remembering import remembered

OMIT: Final = object()
"""As a bad value: the cause does not show the value."""

IMMUTABLE: Final = "field is immutable"
ANNOTATIONS_LIMIT: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    return f"{path}[{position}]"


def keyed(path: str, key: str) -> str:
    return f"{path}[{key}]"


def go_quote(text: str) -> str:
    """`text` in double quotes as Go's %q writes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_go_escape(char) for char in text) + '"'


_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def _go_escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_number(number: float) -> str:
    """A number as Go's %v writes it: floats get an exponent from a million on."""
    if isinstance(number, int):
        return str(int(number))
    if math.isinf(number) or math.isnan(number):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(number), "NaN")
    sign, all_digits, scale = Decimal(repr(number)).as_tuple()
    digits = "".join(map(str, all_digits)).rstrip("0") or "0"
    exponent = len(all_digits) + int(scale) - 1 if digits != "0" else 0
    if -4 <= exponent < 6 or digits == "0":
        text = (
            repr(abs(number)).removesuffix(".0") if "e" not in repr(number) else format(Decimal(repr(abs(number))), "f")
        )
        return f"{'-' if sign else ''}{text}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{'-' if sign else ''}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def go_json(value: Any) -> str:
    """`value` as Go's encoding/json writes it, keys in the order given."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def go_value(value: Any) -> str:
    """A bad value as a cause shows it."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return go_number(value)
    return go_json(value)


def _text(kind: str, value: Any, detail: str) -> str:
    shown = kind if value is OMIT else f"{kind}: {go_value(value)}"
    return f"{shown}: {detail}" if detail else shown


def required(path: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", _text("Required value", OMIT, detail), path)


def invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", _text("Invalid value", value, detail), path)


def type_invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueTypeInvalid", _text("Invalid value", value, detail), path)


def not_supported(path: str, value: Any, allowed: Iterable[str]) -> Cause:
    shown = ", ".join(go_quote(choice) for choice in allowed)
    return Cause(
        "FieldValueNotSupported", _text("Unsupported value", value, f"supported values: {shown}" if shown else ""), path
    )


def not_found(path: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", _text("Not found", value, ""), path)


def repeats(values: Iterable[Hashable]) -> list[bool]:
    """Of each value, whether it has stood further up already."""
    seen: set[Hashable] = set()
    found = []
    for value in values:
        found.append(value in seen)
        seen.add(value)
    return found


def duplicate(path: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", _text("Duplicate value", value, ""), path)


def forbidden(path: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", _text("Forbidden", OMIT, detail), path)


def too_long(path: str, limit: int) -> Cause:
    noun = "byte" if limit == 1 else "bytes"
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} {noun}", path)


def too_many(path: str, actual: int, limit: int) -> Cause:
    noun = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {noun}", path)


def at_least_zero(path: str, number: int | None) -> list[Cause]:
    """The cause for a negative `number`; None is fine."""
    if number is None or number >= 0:
        return []
    return [invalid(path, number, "must be greater than or equal to 0")]


def immutable(path: str, new: Any, old: Any) -> list[Cause]:
    """The cause for `new` being different from `old`."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def check_labels(path: str, labels: dict[str, str] | None) -> list[Cause]:
    if not labels or not any(qualified_name_faults(key) or label_value_faults(labels[key]) for key in labels):
        return []
    causes: list[Cause] = []
    for key, value in sorted(labels.items()):
        causes.extend(invalid(path, key, fault) for fault in qualified_name_faults(key))
        causes.extend(invalid(path, value, fault) for fault in label_value_faults(value))
    return causes


def check_annotations(path: str, annotations: dict[str, str] | None) -> list[Cause]:
    if not annotations:
        return []
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        size += len(key) + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
        # Upper case is allowed in the prefix of an annotation key, unlike in a label key.
        causes.extend(invalid(path, key, fault) for fault in qualified_name_faults(key.lower()))
    if size > ANNOTATIONS_LIMIT:
        causes.append(too_long(path, ANNOTATIONS_LIMIT))
    return causes


def check_owner_references(path: str, references: Sequence[Obj] | None) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    for reference in references or ():
        causes.extend(_check_owner_reference(path, reference))
        if not reference.get("controller"):
            continue
        title = f"{reference.get('kind', '')}/{reference.get('name', '')}"
        if controller:
            detail = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller} and {title}"
            )
            causes.append(invalid(path, references, detail))
        else:
            controller = title
    return causes


def _check_owner_reference(path: str, reference: Obj) -> list[Cause]:
    given = reference.get("apiVersion") or ""
    version = given.rpartition("/")[2] if given.count("/") < 2 else ""
    causes = [] if version else [invalid(child(path, "apiVersion"), given, "version must not be empty")]
    for field in ("kind", "name", "uid"):
        if not reference.get(field):
            causes.append(invalid(child(path, field), "", "must not be empty"))
    return causes


def check_finalizers(path: str, finalizers: Sequence[str] | None, *, qualified: bool = True) -> list[Cause]:
    """`qualified` asks for a domain prefix on all but the standard names, as built-in kinds do."""
    causes: list[Cause] = []
    for position, finalizer in enumerate(finalizers or ()):
        causes.extend(invalid(path, finalizer, complaint) for complaint in names.check_qualified_name(finalizer))
        if qualified and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid(index(path, position), finalizer, detail))
    if finalizers and "orphan" in finalizers and "foregroundDeletion" in finalizers:
        causes.append(invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return causes


def check_field_manager(path: str, manager: str) -> list[Cause]:
    causes = [too_long(path, 128)] if len(manager.encode("utf-8", "surrogatepass")) > 128 else []
    if manager.isprintable():
        return causes
    for position, char in enumerate(manager):
        if not char.isprintable():
            code = f"U+{ord(char):04X}"
            causes.append(invalid(path, manager, f"invalid character {code} (at position {position})"))
    return causes


def check_managed_fields(path: str, entries: Sequence[Obj] | None) -> list[Cause]:
    return [
        fault._replace(field=child(index(path, position), fault.field))
        for position, entry in enumerate(entries or ())
        for fault in _entry_faults(
            entry.get("operation", ""),
            entry.get("fieldsType", ""),
            entry.get("manager") or "",
            entry.get("subresource") or "",
        )
    ]


@remembered(4096)
def _entry_faults(operation: str, fields_type: str, manager: str, subresource: str) -> tuple[Cause, ...]:
    """What is wrong with who is said to manage fields, and how."""
    causes: list[Cause] = []
    if operation not in ("Apply", "Update"):
        causes.append(invalid("operation", operation, "must be `Apply` or `Update`"))
    if fields_type not in ("", "FieldsV1"):
        causes.append(invalid("fieldsType", fields_type, "must be `FieldsV1`"))
    causes += check_field_manager("manager", manager)
    if len(subresource) > 256:
        causes.append(too_long("subresource", 256))
    return tuple(causes)


def check_metadata(
    metadata: Obj,
    *,
    namespaced: bool,
    check_name: names.NameCheck = names.check_subdomain,
    path: str = "metadata",
    qualified_finalizers: bool = True,
) -> list[Cause]:
    """Every cause found in the metadata of an object about to be created, in upstream's order."""
    causes = _check_names(metadata, check_name, path)
    namespace = metadata.get("namespace") or ""
    if not namespaced:
        if namespace:
            causes.append(forbidden(child(path, "namespace"), "not allowed on this type"))
    elif not namespace:
        causes.append(required(child(path, "namespace")))
    else:
        where = child(path, "namespace")
        causes.extend(invalid(where, namespace, complaint) for complaint in names.check_label(namespace))
    causes += _check_shared(metadata, path)
    return causes + check_finalizers(
        child(path, "finalizers"), metadata.get("finalizers"), qualified=qualified_finalizers
    )


def _check_names(metadata: Obj, check_name: Callable[[str], list[str]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    prefix = metadata.get("generateName") or ""
    if prefix:
        where = child(path, "generateName")
        causes += [invalid(where, prefix, text) for text in check_name(names.mask_trailing_dash(prefix))]
    name = metadata.get("name") or ""
    if not name:
        causes.append(required(child(path, "name"), "name or generateName is required"))
    else:
        causes += [invalid(child(path, "name"), name, text) for text in check_name(name)]
    return causes


_SHARED_CHECKS: Final = (
    ("generation", at_least_zero),
    ("labels", check_labels),
    ("annotations", check_annotations),
    ("ownerReferences", check_owner_references),
    ("managedFields", check_managed_fields),
)


def _check_shared(metadata: Obj, path: str, old: Obj | None = None) -> list[Cause]:
    """Faults in what objects of all kinds have; what is as it was in `old` was checked then."""
    causes: list[Cause] = []
    for name, check in _SHARED_CHECKS:
        value = metadata.get(name)
        if value and (old is None or value != old.get(name)):
            causes += check(child(path, name), value)
    return causes


def check_metadata_update(new: Obj, old: Obj, *, path: str = "metadata") -> list[Cause]:
    """Every cause found in replacing metadata `old` by `new`: what may not change, and what may not be new."""
    causes: list[Cause] = []
    if old.get("deletionTimestamp") is not None:
        causes += _check_no_new_finalizers(new, old, child(path, "finalizers"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        causes.append(invalid(child(path, "generation"), new.get("generation") or 0, "must not be decremented"))
    for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(field) != old.get(field):
            causes.append(invalid(child(path, field), new.get(field), IMMUTABLE))
    return causes + _check_shared(new, path, old)


def _check_no_new_finalizers(new: Obj, old: Obj, path: str) -> list[Cause]:
    added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if not added:
        return []
    shown = ", ".join(go_quote(name) for name in added)
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [forbidden(path, detail)]


def check_label_selector(path: str, selector: Obj | None) -> list[Cause]:
    """Causes found in a LabelSelector object."""
    if not selector:
        return []
    causes = check_labels(child(path, "matchLabels"), selector.get("matchLabels"))
    for position, requirement in enumerate(selector.get("matchExpressions") or ()):
        causes += _check_requirement(index(child(path, "matchExpressions"), position), requirement)
    return causes


def _check_requirement(path: str, requirement: Obj) -> list[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(child(path, "values"), "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(child(path, "values"), detail))
    else:
        causes.append(invalid(child(path, "operator"), operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    causes += [invalid(child(path, "key"), key, text) for text in names.check_qualified_name(key)]
    for position, value in enumerate(values):
        where = index(child(path, "values"), position)
        causes += [invalid(where, value, text) for text in names.check_label_value(value)]
    return causes
