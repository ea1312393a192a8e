"""The end of a Workload: retention, and Workloads whose job is gone."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, finalizers_of, labels_of, owner_references_of
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload import lifecycle
from corral.workload.steps.step_api import Delete, FinishWorkload, LookAgain, Move, RemoveFinalizer, WorkloadView


def retire(workload: Obj, view: WorkloadView) -> Move | None:
    """A finished Workload loses its finalizer when nobody owns it, and goes after its retention time."""
    if not owner_references_of(workload) and names.RESOURCE_IN_USE in finalizers_of(workload):
        return RemoveFinalizer()
    keep = view.config.retention.after_finished_s
    if keep is None:
        return None
    finished = conditions.find(workload, names.FINISHED) or {}
    left = parse_time(finished["lastTransitionTime"]) + keep - view.now
    return LookAgain(left) if left > 0 else Delete("Deleted finished workload due to elapsed retention")


def release_orphan(workload: Obj, view: WorkloadView) -> Move | None:
    """A Workload that is being deleted and has no owners is held by nobody but us."""
    return None if owner_references_of(workload) else RemoveFinalizer()


def finish_orphan(workload: Obj, view: WorkloadView) -> Move | None:
    """A Workload whose job is gone ends."""
    if owner_references_of(workload) or names.JOB_UID not in labels_of(workload):
        return None
    if not view.gates["FinishOrphanedWorkloads"]:
        return None
    return FinishWorkload(*lifecycle.OWNER_NOT_FOUND)
