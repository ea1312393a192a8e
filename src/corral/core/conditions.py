"""Conditions: reading them and setting them the way Kubernetes does."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.meta import Obj, status_of


def condition(
    kind: str, status: str | bool, reason: str, message: str = "", observed_generation: int | None = None
) -> Obj:
    """A condition without its transition time, which `set_condition` adds."""
    value = status if isinstance(status, str) else ("True" if status else "False")
    result: Obj = {"type": kind, "status": value, "reason": reason, "message": message}
    if observed_generation is not None:
        result["observedGeneration"] = observed_generation
    return result


def conditions_of(subject: Obj | Sequence[Obj]) -> Sequence[Obj]:
    return (status_of(subject).get("conditions") or []) if isinstance(subject, dict) else subject


def find(subject: Obj | Sequence[Obj], kind: str) -> Obj | None:
    """The condition of type `kind` of an object or of a list of conditions."""
    # Asked hundreds of times for a job, so without a call in between.
    entries = (subject.get("status") or {}).get("conditions") or () if isinstance(subject, dict) else subject
    for entry in entries:
        if entry.get("type") == kind:
            return entry
    return None


def is_true(subject: Obj | Sequence[Obj], kind: str) -> bool:
    entry = find(subject, kind)
    return entry is not None and entry.get("status") == "True"


def is_false(subject: Obj | Sequence[Obj], kind: str) -> bool:
    entry = find(subject, kind)
    return entry is not None and entry.get("status") == "False"


def set_condition(conditions: Sequence[Obj], new: Obj, now: str) -> list[Obj]:
    """The conditions with `new` in place of its type's old entry, order kept.

    `lastTransitionTime` changes only when the status does, as in Kubernetes.
    """
    old = find(conditions, new["type"])
    if old is None:
        return [*conditions, {**new, "lastTransitionTime": new.get("lastTransitionTime", now)}]
    since = (
        old.get("lastTransitionTime", now) if old.get("status") == new["status"] else new.get("lastTransitionTime", now)
    )
    entry = {**new, "lastTransitionTime": since}
    return [entry if item.get("type") == new["type"] else item for item in conditions]


def without(conditions: Sequence[Obj], kind: str) -> list[Obj]:
    return [entry for entry in conditions if entry.get("type") != kind]
