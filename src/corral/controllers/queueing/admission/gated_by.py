"""The annotation `admission-gated-by`: names of external gates that keep a workload from being admitted."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of
from corral.core.names import check_qualified_name
from corral.core.validation import forbidden, invalid, keyed, too_long
from corral.kinds.kueue.names import ADMISSION_GATED_BY

PATH = keyed("metadata.annotations", ADMISSION_GATED_BY)
MAX_GATE_NAME = 63


def validate_gates(obj: Obj) -> list[Cause]:
    """Errors in the list of gates of a new object."""
    value = annotations_of(obj).get(ADMISSION_GATED_BY)
    return _format(value) if value else []


def validate_gates_update(new: Obj, old: Obj) -> list[Cause]:
    """Gates may be removed or reordered, never added."""
    after, before = annotations_of(new).get(ADMISSION_GATED_BY), annotations_of(old).get(ADMISSION_GATED_BY)
    if after == before or not after:
        return []
    if not before:
        return [forbidden(PATH, "cannot be added after creation")]
    known = before.split(",")
    added = [gate for gate in after.split(",") if gate not in known]
    causes = [forbidden(PATH, f'cannot add gate "{gate}" after creation') for gate in added]
    return causes or _format(after)


def _format(value: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for gate in value.split(","):
        if "/" not in gate or check_qualified_name(gate):
            causes.append(invalid(PATH, value, f'gate "{gate}" must be of the form subdomain/path'))
        elif gate in seen:
            causes.append(invalid(PATH, value, f'duplicate gate "{gate}"'))
        elif len(gate) > MAX_GATE_NAME:
            causes.append(too_long(PATH, MAX_GATE_NAME))
        seen.add(gate)
    return causes
