"""flowcontrol.apiserver.k8s.io/v1: stored for clients that list them; Corral limits requests by its own settings."""

from __future__ import annotations

from typing import Any

from corral.core import conditions
from corral.core.meta import Obj
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Column
from corral.kinds.machinery.tables import AGE, NAME, text

_OPTIONS: dict[str, Any] = {
    "group": "flowcontrol.apiserver.k8s.io",
    "namespaced": False,
    "status": True,
    "has_generation": True,
}

_QUEUING = ".spec.limited.limitResponse.queuing"


def _missing_level(obj: Obj, now: float) -> str:
    """Whether the priority level a schema names is known to be missing."""
    found = conditions.find(obj, "Dangling")
    return str(found.get("status")) if found is not None else "?"


FLOW_SCHEMA = kind(
    "flowcontrol.v1.FlowSchema",
    "flowschemas",
    columns=(
        NAME,
        Column("PriorityLevel", cell=text(".spec.priorityLevelConfiguration.name")),
        Column("MatchingPrecedence", cell=text(".spec.matchingPrecedence", "0")),
        Column("DistinguisherMethod", cell=text(".spec.distinguisherMethod.type", "<none>")),
        AGE,
        Column("MissingPL", cell=_missing_level),
    ),
    **_OPTIONS,
)
PRIORITY_LEVEL_CONFIGURATION = kind(
    "flowcontrol.v1.PriorityLevelConfiguration",
    "prioritylevelconfigurations",
    columns=(
        NAME,
        Column("Type", cell=text(".spec.type")),
        Column("NominalConcurrencyShares", cell=text(".spec.limited.nominalConcurrencyShares", "<none>")),
        Column("Queues", cell=text(f"{_QUEUING}.queues", "<none>")),
        Column("HandSize", cell=text(f"{_QUEUING}.handSize", "<none>")),
        Column("QueueLengthLimit", cell=text(f"{_QUEUING}.queueLengthLimit", "<none>")),
        AGE,
    ),
    **_OPTIONS,
)

KINDS = (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)
