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
from corral.workload.steps.step_api import WHOLE_STATUS, Move, WorkloadView, WriteWorkload, evicted


def sync_checks(workload: Obj, view: WorkloadView) -> Move | None:
    """The checks its queue asks for now are in its status."""
    queue = view.cluster_queue
    if queue is None or is_deleting(queue) or view.is_parent:
        return None
    new = checks.sync_check_states(workload, view.required_checks, view.stamp)
    return None if new is workload else WriteWorkload(new, WHOLE_STATUS)


def act_on_checks(workload: Obj, view: WorkloadView) -> Move | None:
    """A check that rejects deactivates; one that wants another try evicts."""
    rejected = checks.in_state(workload, names.REJECTED)
    if rejected and wl.is_active(workload) and not conditions.is_true(workload, names.DEACTIVATION_TARGET):
        message = f"{_which(rejected)} in Rejected state: {checks.described(rejected)}"
        new = lifecycle.deactivation_target(workload, names.BY_ADMISSION_CHECK, message, view.stamp)
        return WriteWorkload(new, event=("Warning", "AdmissionCheckRejected", f"Deactivated due to {message}"))
    retry = checks.in_state(workload, names.RETRY)
    if not retry or wl.is_evicted(workload):
        return None
    message = f"Evicted due to {_which(retry)} in Retry state: {checks.described(retry)}"
    return evicted(workload, view, names.BY_ADMISSION_CHECK, message, requeue_at=checks.retry_time(workload))


def _which(states: Sequence[Obj]) -> str:
    return "AdmissionCheck" if len(states) == 1 else "AdmissionChecks"


def sync_admitted(workload: Obj, view: WorkloadView) -> Move | None:
    """Admitted is what quota and checks together say."""
    if wl.has_quota(workload):
        gated = not wl.is_admitted(workload) and unadmitted.admission_gates(workload, view.gates)
        if gated or wl.is_evicted(workload):
            return None
    new = lifecycle.sync_admitted(
        workload,
        view.required_checks,
        view.stamp,
        granular=unadmitted.is_granular(view.gates),
        explicit=unadmitted.is_explicit(view.gates),
    )
    if new is workload:
        return None
    if not wl.is_admitted(new):
        return WriteWorkload(new)
    return WriteWorkload(new, event=("Normal", "Admitted", _admitted_message(new, view.now)), admits=True)


def _admitted_message(workload: Obj, now: float) -> str:
    reserved = conditions.find(workload, names.QUOTA_RESERVED) or {}
    waited = max(0, round(now - parse_time(reserved["lastTransitionTime"])))
    return f"Admitted by ClusterQueue {wl.cluster_queue_of(workload)}, wait time since reservation was {waited}s"
