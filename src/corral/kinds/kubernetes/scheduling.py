"""scheduling.k8s.io/v1: PriorityClass."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj, name_of
from corral.core.validation import check_metadata_update, forbidden, immutable, not_supported, required
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Column
from corral.kinds.machinery.tables import AGE, NAME, number, text

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def default_priority_class(priority_class: Obj) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def check_priority_class(priority_class: Obj) -> list[Cause]:
    name, value = name_of(priority_class), priority_class.get("value") or 0
    causes: list[Cause] = []
    if name.startswith(SYSTEM_PREFIX):
        why = _not_known(name, value, bool(priority_class.get("globalDefault")))
        if why:
            reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
            causes.append(forbidden("metadata.name", reserved + why))
    elif value > HIGHEST_USER_PRIORITY:
        limit = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        causes.append(forbidden("value", limit))
    policy = priority_class.get("preemptionPolicy")
    if policy == "":
        causes.append(required("preemptionPolicy"))
    elif policy not in (None, "PreemptLowerPriority", "Never"):
        causes.append(not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
    return causes


def _not_known(name: str, value: int, is_default: bool) -> str:
    known = SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def check_priority_class_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    if (new.get("value") or 0) != (old.get("value") or 0):
        causes.append(forbidden("value", "may not be changed in an update."))
    return causes + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


PRIORITY_CLASS = kind(
    "scheduling.v1.PriorityClass",
    "priorityclasses",
    group="scheduling.k8s.io",
    namespaced=False,
    short_names=("pc",),
    columns=(
        NAME,
        Column("Value", type="integer", cell=number(".value")),
        Column("Global-Default", type="boolean", cell=lambda obj, now: bool(obj.get("globalDefault"))),
        AGE,
        Column("PreemptionPolicy", cell=text(".preemptionPolicy")),
    ),
    has_generation=True,
    default=default_priority_class,
    validate=check_priority_class,
    validate_update=check_priority_class_update,
)

KINDS = (PRIORITY_CLASS,)

PRIORITY_CLASSES = PRIORITY_CLASS.resource()
