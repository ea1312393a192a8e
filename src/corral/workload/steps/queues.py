"""A Workload and its queues: gates before them, queues that stop or go, and why it waits."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, key_of, name_of, spec_of, status_of, with_status
from corral.kinds.kueue import names
from corral.workload import lifecycle, variants
from corral.workload import waiting_reasons as unadmitted
from corral.workload import workload as wl
from corral.workload.steps.step_api import OBJECT, LookAgain, Move, WorkloadView, WriteWorkload, evicted, released
from corral.workload.waiting_reasons import Problem, is_stopped, stop_policy

ITS_TURN = "The workload is waiting for its turn"
LOOK_AGAIN_S = 0.1


def become_parent(workload: Obj, view: WorkloadView) -> Move | None:
    """In a queue that admits concurrently, variants are queued in a workload's place."""
    if not view.concurrent or variants.is_parent(workload) or variants.parent_of(workload) is not None:
        return None
    if variants.policy_of(view.cluster_queue) is None:
        return None
    return WriteWorkload(variants.marked_as_parent(workload), OBJECT)


def sync_gates(workload: Obj, view: WorkloadView) -> Move | None:
    """Preemption gates of the spec appear closed in the status."""
    wanted = [gate["name"] for gate in spec_of(workload).get("preemptionGates") or []]
    held = {gate["name"]: gate for gate in status_of(workload).get("preemptionGates") or []}
    if list(held) == wanted:
        return None
    closed = {"position": "Closed", "lastTransitionTime": view.stamp}
    gates = [held.get(name) or {"name": name, **closed} for name in wanted]
    return WriteWorkload(with_status(workload, {**status_of(workload), "preemptionGates": gates}))


def hold_at_gate(workload: Obj, view: WorkloadView) -> Move | None:
    """A gated workload has no quota and says so, until the last gate is gone."""
    if wl.is_admitted(workload):
        return None
    wanted = unadmitted.admission_gates(workload, view.gates)
    held = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("reason") == unadmitted.GATED
    if bool(wanted) == held:
        return None
    if not wanted:
        reason = "PendingEvaluation" if unadmitted.is_granular(view.gates) else "Pending"
        new = lifecycle.pending(workload, reason, unadmitted.GATE_CLEARED, view.stamp)
        event = "AdmissionGateCleared", "Admission gate cleared, workload is now admissible"
        return WriteWorkload(new, event=("Normal", *event))
    reason, message = unadmitted.gated(wanted)
    if wl.has_quota(workload):
        new = released(workload, view, reason, message)
    else:
        new = lifecycle.pending(workload, reason, message, view.stamp)
    return WriteWorkload(new, event=("Normal", "AdmissionGated", f"Workload admission is gated by: {wanted}"))


def drain(workload: Obj, view: WorkloadView) -> Move | None:
    """A stopped or deleted queue takes quota back: from running workloads only when it is drained."""
    if not wl.has_quota(workload) or wl.is_evicted(workload):
        return None
    local, queue = view.local_queue, view.cluster_queue
    if queue is not None and stop_policy(queue) == "HoldAndDrain":
        return evicted(workload, view, names.BY_CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped")
    if local is not None and stop_policy(local) == "HoldAndDrain":
        return evicted(workload, view, names.BY_LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
    if wl.is_admitted(workload):
        return None
    problem = _lost_queue(workload, local, queue)
    return None if problem is None else WriteWorkload(released(workload, view, *problem.under(view.gates)))


def _lost_queue(workload: Obj, local: Obj | None, queue: Obj | None) -> Problem | None:
    """Why a reservation can no longer stand."""
    if local is None or is_deleting(local):
        return Problem("Misconfigured", f"LocalQueue {wl.queue_of(workload)} is terminating or missing")
    if is_stopped(local):
        return Problem("Suspended", f"LocalQueue {name_of(local)} is stopped")
    if queue is None or is_deleting(queue):
        return Problem("Misconfigured", f"ClusterQueue {wl.cluster_queue_of(workload)} is terminating or missing")
    return Problem("Suspended", f"ClusterQueue {name_of(queue)} is stopped") if is_stopped(queue) else None


def explain_waiting(workload: Obj, view: WorkloadView) -> Move | None:
    """A waiting workload whose queue cannot take it says so."""
    gates, granular = view.gates, unadmitted.is_granular(view.gates)
    if wl.has_quota(workload):
        return None
    inactive = wl.is_evicted(workload) and not wl.is_active(workload)
    if not granular and (inactive or unadmitted.admission_gates(workload, gates)):
        return None
    found = unadmitted.why_waiting(workload, _queue_problem(workload, view), gates, view.state)
    if found is None:
        if granular or not _names_a_problem(workload):
            return None
        if _lost_queue(workload, view.local_queue, view.cluster_queue) is not None:
            return None  # it was told so with its reservation, and it is still so
        if view.state is not None and not view.state.is_at_rest(key_of(workload), view.now):
            return LookAgain(LOOK_AGAIN_S)
        # Its queue takes it again, and the scheduler had nothing to say about it.
        found = (view.state and view.state.last_message(key_of(workload))) or ("Pending", ITS_TURN)
    new = lifecycle.pending(workload, *found, view.stamp)
    return None if new is workload else WriteWorkload(new)


def _names_a_problem(workload: Obj) -> bool:
    """Whether it still says that a queue cannot take it."""
    return (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("reason") == unadmitted.INADMISSIBLE


def _queue_problem(workload: Obj, view: WorkloadView) -> Problem | None:
    uncounted = view.state.uncounted(key_of(workload)) if view.state is not None else ""
    return unadmitted.problem_of_queues(workload, view.local_queue, view.cluster_queue, uncounted=uncounted)
