"""scheduling.k8s.io/v1: PriorityClass."""

from __future__ import annotations

from corral.kinds.builtin import kind
from corral.kinds.definition import Column
from corral.kinds.tables import AGE, NAME, number, text

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
)

KINDS = (PRIORITY_CLASS,)

PRIORITY_CLASSES = PRIORITY_CLASS.resource()
