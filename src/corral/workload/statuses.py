"""Who declares what in a Workload's status.

Several controllers write there at once. As in Kueue each applies what it declares under a name of its own, so nobody
overwrites the others and `managedFields` shows who said what. An apply cannot take away what somebody else owns; where that
has to be done (a nomination by an external dispatcher, once the cluster is chosen) the status is replaced as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from corral.core.meta import Obj, metadata_of, status_of
from corral.kinds.kueue import names

ADMISSION: Final = "kueue-admission"
PODS_READY: Final = "kueue-job-controller-PodsReady"
RECLAIMABLE: Final = "kueue-reclaimable-pods"

_ORDER: Final = {
    kind: place
    for place, kind in enumerate(
        (
            names.QUOTA_RESERVED,
            names.EVICTED,
            names.ADMITTED,
            names.PREEMPTED,
            names.REQUEUED,
            names.DEACTIVATION_TARGET,
            names.FINISHED,
        )
    )
}
_READINESS: Final = f'k:{{"type":"{names.PODS_READY}"}}'


def admission_part(workload: Obj, *, narrow: bool = False) -> Obj:
    """What the one who admits declares, conditions in its own order."""
    status = {name: value for name, value in status_of(workload).items() if name != "reclaimablePods"}
    conditions = sorted(status.get("conditions") or [], key=lambda entry: _ORDER.get(entry["type"], len(_ORDER)))
    if narrow and _READINESS not in _declared_conditions(workload):
        conditions = [entry for entry in conditions if entry["type"] != names.PODS_READY]
    if "conditions" in status:
        status["conditions"] = conditions
    return status


def condition_part(workload: Obj, kind: str) -> Obj:
    """One condition, for the controller that is about nothing else."""
    return {"conditions": [entry for entry in status_of(workload).get("conditions") or [] if entry["type"] == kind]}


def check_part(workload: Obj, check: str) -> Obj:
    """The state of one admission check, for the controller behind it."""
    return {
        "admissionChecks": [
            entry for entry in status_of(workload).get("admissionChecks") or [] if entry["name"] == check
        ]
    }


def _entries(workload: Obj) -> list[Obj]:
    return [entry for entry in metadata_of(workload).get("managedFields") or [] if entry.get("subresource") == "status"]


def _declared_conditions(workload: Obj) -> list[str]:
    """The conditions that the one who admits has declared before, as steps of a field set."""
    for entry in _entries(workload):
        if entry.get("manager") == ADMISSION and entry.get("operation") == "Apply":
            return list(_fields(entry).get("f:conditions") or ())
    return []


def takes_away(new: Obj) -> bool:
    """Whether `new` lacks something in its status that somebody else owns."""
    status = status_of(new)
    others = (
        entry for entry in _entries(new) if (entry.get("manager"), entry.get("operation")) != (ADMISSION, "Apply")
    )
    return not all(_holds(status, _fields(entry)) for entry in others)


def _fields(entry: Obj) -> Mapping[str, Any]:
    """What an entry of managedFields owns inside the status."""
    return (entry.get("fieldsV1") or {}).get("f:status") or {}


def _holds(value: Any, owned: Mapping[str, Any]) -> bool:
    """Whether everything `owned` names is there."""
    for step, inner in owned.items():
        if step == ".":
            continue
        part = _part(value, step)
        if part is None or (inner and not _holds(part, inner)):
            return False
    return True


def _part(value: Any, step: str) -> Any:
    """The field or list element that a step of a field set leads to; None when there is none."""
    kind, _, name = step.partition(":")
    if kind == "f":
        return value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    wanted = _decoded(name)
    if kind == "k":
        return next((entry for entry in value if wanted.items() <= entry.items()), None)
    return next((entry for entry in value if entry == wanted), None)


@lru_cache(maxsize=1024)
def _decoded(text: str) -> Any:
    """The key or value in a step; the same few come again and again."""
    return json.loads(text)
