"""Admission checks: the list of them, what they say, and the Admitted condition that follows."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core import conditions
from corral.core.meta import Obj, is_deleting
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload import checks, lifecycle
from corral.workload import waiting_reasons as unadmitted
from corral.workload import workload as wl
from corral.workload.steps.step_api import WHOLE_STATUS, Move, Surroundings, Write, evicted


def sync_checks(workload: Obj, around: Surroundings) -> Move | None:
    """The checks its queue asks for now are in its status."""
    queue = around.cluster_queue
    if queue is None or is_deleting(queue) or around.is_parent:
        return None
    new = checks.sync_check_states(workload, around.required_checks, around.stamp)
    return None if new is workload else Write(new, WHOLE_STATUS)


def act_on_checks(workload: Obj, around: Surroundings) -> Move | None:
    """A check that rejects deactivates; one that wants another try evicts."""
    rejected = checks.in_state(workload, names.REJECTED)
    if rejected and wl.is_active(workload) and not conditions.is_true(workload, names.DEACTIVATION_TARGET):
        message = f"{_which(rejected)} in Rejected state: {checks.described(rejected)}"
        new = lifecycle.deactivation_target(workload, names.BY_ADMISSION_CHECK, message, around.stamp)
        return Write(new, event=("Warning", "AdmissionCheckRejected", f"Deactivated due to {message}"))
    retry = checks.in_state(workload, names.RETRY)
    if not retry or wl.is_evicted(workload):
        return None
    message = f"Evicted due to {_which(retry)} in Retry state: {checks.described(retry)}"
    return evicted(workload, around, names.BY_ADMISSION_CHECK, message, requeue_at=checks.retry_time(workload))


def _which(states: Sequence[Obj]) -> str:
    return "AdmissionCheck" if len(states) == 1 else "AdmissionChecks"


def sync_admitted(workload: Obj, around: Surroundings) -> Move | None:
    """Admitted is what quota and checks together say."""
    if wl.has_quota(workload):
        gated = not wl.is_admitted(workload) and unadmitted.admission_gates(workload, around.gates)
        if gated or wl.is_evicted(workload):
            return None
    new = lifecycle.sync_admitted(
        workload,
        around.required_checks,
        around.stamp,
        granular=unadmitted.is_granular(around.gates),
        explicit=unadmitted.is_explicit(around.gates),
    )
    if new is workload:
        return None
    if not wl.is_admitted(new):
        return Write(new)
    return Write(new, event=("Normal", "Admitted", _told_admitted(new, around.now)), admits=True)


def _told_admitted(workload: Obj, now: float) -> str:
    reserved = conditions.find(workload, names.QUOTA_RESERVED) or {}
    waited = max(0, round(now - parse_time(reserved["lastTransitionTime"])))
    return f"Admitted by ClusterQueue {wl.cluster_queue_of(workload)}, wait time since reservation was {waited}s"
