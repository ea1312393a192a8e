"""Whether a Workload may be queued at all: deactivation and reactivation, back-off after an eviction, queues that start again."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, owner_references_of, spec_of, status_of, with_spec
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.steps.step_api import (
    OBJECT,
    Delete,
    LookAgain,
    Move,
    WorkloadView,
    WriteWorkload,
    eviction,
    requeued,
    without_requeue_state,
)
from corral.workload.waiting_reasons import is_stopped

RESTARTED = {
    names.BY_CLUSTER_QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    names.BY_LOCAL_QUEUE_STOPPED: ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
}


def deactivate(workload: Obj, view: WorkloadView) -> Move | None:
    """A Workload that is marked for it becomes inactive; one that is inactive is evicted."""
    target = conditions.find(workload, names.DEACTIVATION_TARGET)
    marked = target is not None and target.get("status") == "True"
    if wl.is_active(workload):
        return WriteWorkload(with_spec(workload, {**spec_of(workload), "active": False}), OBJECT) if marked else None
    if wl.is_evicted(workload):
        return _retain_deactivated(workload, view)
    cause, message = "", "The workload is deactivated"
    if marked and target is not None:
        cause, message = str(target["reason"]), f"{message} due to {target['message']}"
    new = lifecycle.without_condition(workload, names.DEACTIVATION_TARGET) if target else workload
    new = lifecycle.evict(new, names.BY_DEACTIVATION, message, view.stamp, cause=cause)
    return eviction(without_requeue_state(new), names.BY_DEACTIVATION, message, cause)


def _retain_deactivated(workload: Obj, view: WorkloadView) -> Move | None:
    """Without a job that would go first, the Workload itself goes after its retention time."""
    left = lifecycle.retention_left(workload, view.config.retention.after_deactivated_s, view.now)
    has_job = any(owner.get("kind") != "Pod" for owner in owner_references_of(workload))
    if left is None or has_job or wl.has_quota(workload):
        return None
    return LookAgain(left) if left > 0 else Delete("Deleted workload: deactivation retention period expired")


def reactivate(workload: Obj, view: WorkloadView) -> Move | None:
    """A Workload that was deactivated and is active again starts anew."""
    held = _not_requeued(workload)
    if not wl.is_active(workload) or not str(held.get("reason", "")).startswith("Deactivated"):
        return None
    return WriteWorkload(without_requeue_state(requeued(workload, view, "Reactivated", "The workload was reactivated")))


def restart(workload: Obj, view: WorkloadView) -> Move | None:
    """Workloads of a queue that was stopped wait for it to start again."""
    reason = str(_not_requeued(workload).get("reason", ""))
    text = RESTARTED.get(reason)
    if text is None or wl.is_single_pod(workload):
        return None
    queue = view.cluster_queue if reason == names.BY_CLUSTER_QUEUE_STOPPED else view.local_queue
    return None if queue is None or is_stopped(queue) else WriteWorkload(requeued(workload, view, *text))


def end_backoff(workload: Obj, view: WorkloadView) -> Move | None:
    """Evicted Workloads that may be tried again, only later."""
    if not lifecycle.is_backing_off(workload):
        return None
    state = status_of(workload).get("requeueState") or {}
    left = parse_time(state["requeueAt"]) - view.now if state.get("requeueAt") else 0.0
    if left > 0:
        return LookAgain(left)
    return WriteWorkload(lifecycle.end_backoff(workload, view.stamp))


def _not_requeued(workload: Obj) -> Obj:
    """The condition that keeps a Workload out of its queue; empty when there is none."""
    found = conditions.find(workload, names.REQUEUED)
    return found if found is not None and found.get("status") == "False" else {}
