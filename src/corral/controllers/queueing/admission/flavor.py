"""Rules of ResourceFlavors beyond their schema."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.names import check_label_value, check_qualified_name
from corral.core.validation import check_labels, child, duplicate, index, invalid

IMMUTABLE = "field is immutable"


def validate_flavor(flavor: Obj) -> list[Cause]:
    spec = spec_of(flavor)
    return [
        *check_labels("spec.nodeLabels", spec.get("nodeLabels")),
        *_taints(spec.get("nodeTaints") or []),
        *validate_tolerations("spec.tolerations", spec.get("tolerations") or []),
    ]


def validate_flavor_update(new: Obj, old: Obj) -> list[Cause]:
    causes = validate_flavor(new)
    if not spec_of(old).get("topologyName"):
        return causes
    for name in ("nodeLabels", "tolerations"):
        if spec_of(new).get(name) != spec_of(old).get(name):
            causes.append(invalid(f"spec.{name}", spec_of(new).get(name), IMMUTABLE))
    return causes


def _taints(taints: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        path = index("spec.nodeTaints", position)
        causes += [invalid(child(path, "key"), taint["key"], text) for text in check_qualified_name(taint["key"])]
        value = taint.get("value", "")
        errors = check_label_value(value)
        if errors:
            causes.append(invalid(child(path, "value"), value, ";".join(errors)))
        pair = (taint["key"], taint["effect"])
        if pair in seen:
            repeated = duplicate(path, taint)
            detail = f"{repeated.message}: taints must be unique by key and effect pair"
            causes.append(repeated._replace(message=detail))
        seen.add(pair)
    return causes


def validate_tolerations(path: str, tolerations: list[Obj]) -> list[Cause]:
    """Rules a toleration's schema cannot say."""
    causes: list[Cause] = []
    for position, toleration in enumerate(tolerations):
        where = index(path, position)
        key = toleration.get("key", "")
        if key:
            causes += [invalid(child(where, "key"), key, text) for text in check_qualified_name(key)]
        value = toleration.get("value", "")
        if toleration.get("operator", "Equal") == "Equal":
            errors = check_label_value(value)
            if errors:
                causes.append(invalid(child(where, "operator"), value, ";".join(errors)))
    return causes
