"""Predicates: which changes of a Workload wake which controller.

What somebody only reports in a status, readiness above all, wakes no one who waits for decisions; whoever wrote it knows it.
"""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import (
    Obj,
    annotations_of,
    finalizers_of,
    generation_of,
    is_deleting,
    labels_of,
    owner_references_of,
    status_of,
)
from corral.kinds.kueue import names
from corral.runtime.changes import changed

REPORTS = frozenset(("conditions", "nominatedClusterNames", "reclaimablePods", "resourceRequests", "schedulingStats"))
"""Parts of a status from which nothing follows, and the conditions, which are looked at one by one."""


def _decisions(workload: Obj) -> Obj:
    """The status without reports."""
    return {name: value for name, value in status_of(workload).items() if name not in REPORTS}


def _verdicts(workload: Obj) -> list[Obj]:
    """The conditions but readiness, which is the job's own word."""
    return [entry for entry in conditions.conditions_of(workload) if entry["type"] != names.PODS_READY]


def _lost_a_pod(workload: Obj) -> Obj | None:
    """The one state of readiness that sets a deadline of its own."""
    found = conditions.find(workload, names.PODS_READY)
    return found if found is not None and found.get("reason") == "WaitForRecovery" else None


concerns_owner = changed(
    _verdicts, _decisions, generation_of, is_deleting, owner_references_of, labels_of, annotations_of
)
"""Whether the job, pods or set behind a Workload have to look again."""

_concerns_life = changed(
    _verdicts,
    _decisions,
    generation_of,
    is_deleting,
    finalizers_of,
    owner_references_of,
    labels_of,
    annotations_of,
    _lost_a_pod,
)


def life_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether the next step of a Workload's own life may have changed; one that is gone has none."""
    return new is not None and _concerns_life(old, new)
