"""The end of a Workload: retention, and Workloads whose job is gone."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, finalizers_of, labels_of, owner_references_of
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload.steps.step_api import Delete, Finish, LetGo, Move, Surroundings, Wait


def retire(workload: Obj, around: Surroundings) -> Move | None:
    """A finished Workload loses its finalizer when nobody owns it, and goes after its retention time."""
    if not owner_references_of(workload) and names.RESOURCE_IN_USE in finalizers_of(workload):
        return LetGo()
    keep = around.config.retention.after_finished_s
    if keep is None:
        return None
    finished = conditions.find(workload, names.FINISHED) or {}
    left = parse_time(finished["lastTransitionTime"]) + keep - around.now
    return Wait(left) if left > 0 else Delete("Deleted finished workload due to elapsed retention")


def let_orphan_go(workload: Obj, around: Surroundings) -> Move | None:
    """A Workload that is being deleted and has no owners is held by nobody but us."""
    return None if owner_references_of(workload) else LetGo()


def finish_orphan(workload: Obj, around: Surroundings) -> Move | None:
    """A Workload whose job is gone ends."""
    if owner_references_of(workload) or names.JOB_UID not in labels_of(workload):
        return None
    if not around.gates["FinishOrphanedWorkloads"]:
        return None
    return Finish("OwnerNotFound", "The workload's owner no longer exists")
