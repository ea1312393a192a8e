"""The life of a Workload as pure steps: each function takes a Workload and returns it one step further.

Reservation, admission, eviction, release and finish each touch several fields that belong together; writing one of these
results is one status write. Messages and reasons are the ones users know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from corral.core import conditions
from corral.core.conditions import condition, set_condition
from corral.core.meta import Obj, generation_of, status_of, uid_of, with_status
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload import workload as wl
from corral.workload.podsets import DEFAULT_NAME

SLICE_REPLACED: Final = "WorkloadSliceReplaced"


def with_condition(workload: Obj, kind: str, status: bool, reason: str, message: str, now: str) -> Obj:
    """`workload` with one condition set."""
    entry = condition(kind, status, reason, wl.truncated(message), generation_of(workload))
    held = conditions.conditions_of(workload)
    return with_status(workload, {**status_of(workload), "conditions": set_condition(held, entry, now)})


def without_condition(workload: Obj, kind: str) -> Obj:
    held = conditions.conditions_of(workload)
    return with_status(workload, {**status_of(workload), "conditions": conditions.without(held, kind)})


def _without_fields(workload: Obj, *fields: str) -> Obj:
    status = {name: value for name, value in status_of(workload).items() if name not in fields}
    return with_status(workload, status)


# Forward


def reserve(workload: Obj, admission: Obj, now: str) -> Obj:
    """Quota is reserved as `admission` says; marks of earlier evictions become history."""
    result = with_status(workload, {**status_of(workload), "admission": admission})
    message = f"Quota reserved in ClusterQueue {admission['clusterQueue']}"
    result = with_condition(result, names.QUOTA_RESERVED, True, "QuotaReserved", message, now)
    for kind in (names.EVICTED, names.PREEMPTED, names.BLOCKED_ON_PREEMPTION_GATES):
        entry = conditions.find(result, kind)
        if entry is not None and entry.get("status") == "True":
            result = with_condition(
                result, kind, False, "QuotaReserved", f"Previously: {entry.get('message', '')}", now
            )
    result = end_backoff(result, now) if is_backing_off(result) else result
    return _without_fields(without_condition(result, names.PREEMPTING), "resourceRequests")


def all_checks_ready(workload: Obj, required: Sequence[str]) -> bool:
    """Whether the checks it has are exactly the ones it needs, and all of them said yes."""
    states = wl.check_states_of(workload)
    return {state["name"] for state in states} == set(required) and all(
        state.get("state") == names.READY for state in states
    )


def has_pending_topology(workload: Obj) -> bool:
    assignments = wl.admission_of(workload).get("podSetAssignments") or []
    return any(entry.get("delayedTopologyRequest") == "Pending" for entry in assignments)


def places_decided(workload: Obj) -> Obj:
    """The same Workload after somebody else has found places for its pods, as the worker that admitted it has."""
    if not has_pending_topology(workload):
        return workload
    admission = wl.admission_of(workload)
    assignments = [
        {**entry, "delayedTopologyRequest": "Ready"} if entry.get("delayedTopologyRequest") == "Pending" else entry
        for entry in admission["podSetAssignments"]
    ]
    decided = {**admission, "podSetAssignments": assignments}
    return with_status(workload, {**status_of(workload), "admission": decided})


def sync_admitted(
    workload: Obj, required: Sequence[str], now: str, *, granular: bool = False, explicit: bool = False
) -> Obj:
    """The Admitted condition brought in line with reservation and checks; the Workload itself when it is.

    A Workload that was never admitted says so only when reasons are granular, and then only once something is known of
    its quota, unless that is asked for explicitly.
    """
    reserved, ready = wl.has_quota(workload), all_checks_ready(workload, required)
    admitted = reserved and ready and not has_pending_topology(workload)
    held = conditions.find(workload, names.ADMITTED)
    was_admitted = held is not None and held.get("status") == "True"
    if admitted == was_admitted and (admitted or not granular):
        return workload
    if admitted:
        return with_condition(workload, names.ADMITTED, True, "Admitted", "The workload is admitted", now)
    if held is None and not explicit and conditions.find(workload, names.QUOTA_RESERVED) is None:
        return workload
    reason, message = _not_admitted(reserved, ready, granular)
    if held is not None and not was_admitted and (held.get("reason"), held.get("message")) == (reason, message):
        return workload
    result = with_condition(workload, names.ADMITTED, False, reason, message, now)
    if held is None or not was_admitted:
        return result
    status = status_of(result)
    ran = max(0, int(parse_time(now) - parse_time(held["lastTransitionTime"])))
    past = int(status.get("accumulatedPastExecutionTimeSeconds") or 0) + ran
    return with_status(result, {**status, "accumulatedPastExecutionTimeSeconds": past})


def _not_admitted(reserved: bool, ready: bool, granular: bool) -> tuple[str, str]:
    if not reserved and not ready and not granular:
        return "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
    if not reserved:
        return "NoReservation", "The workload has no reservation"
    if not ready:
        reason = "UnsatisfiedAdmissionChecks" if granular else "UnsatisfiedChecks"
        return reason, "The workload has not all checks ready"
    return "PendingDelayedTopologyRequests", "There are pending delayed topology requests"


# Backward


def evict(workload: Obj, reason: str, message: str, now: str, *, cause: str = "") -> Obj:
    """Evicted, checks and nominations reset. The reservation stays until the job has stopped."""
    condition_reason = f"{reason}DueTo{cause}" if cause and reason == names.BY_DEACTIVATION else reason
    result = with_condition(workload, names.EVICTED, True, condition_reason, message, now)
    blocked = conditions.find(result, names.BLOCKED_ON_PREEMPTION_GATES)
    if blocked is not None and blocked.get("status") == "True":
        result = with_condition(result, names.BLOCKED_ON_PREEMPTION_GATES, False, condition_reason, message, now)
    result = _without_fields(result, "clusterName", "nominatedClusterNames", "unhealthyNodes")
    status = dict(status_of(result))
    if status.get("admissionChecks"):
        status["admissionChecks"] = [_reset_check(state, now) for state in status["admissionChecks"]]
    if status.get("preemptionGates"):
        status["preemptionGates"] = [
            {**gate, "position": "Closed", "lastTransitionTime": now} for gate in status["preemptionGates"]
        ]
    status["schedulingStats"] = _counted(status.get("schedulingStats") or {}, reason, cause)
    return with_status(result, status)


def _reset_check(state: Obj, now: str) -> Obj:
    previous = state.get("state")
    if previous == names.PENDING:
        return state
    reset = {name: value for name, value in state.items() if name != "podSetUpdates"}
    reset.update(
        state=names.PENDING,
        lastTransitionTime=now,
        message=f"Reset to Pending after eviction. Previously: {previous}",
    )
    if previous == names.RETRY:
        reset["retryCount"] = int(state.get("retryCount") or 0) + 1
    return reset


def _counted(stats: Obj, reason: str, cause: str) -> Obj:
    evictions = list(stats.get("evictions") or [])
    for index, entry in enumerate(evictions):
        if entry["reason"] == reason and entry.get("underlyingCause", "") == cause:
            evictions[index] = {**entry, "count": int(entry["count"]) + 1}
            return {**stats, "evictions": evictions}
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})
    return {**stats, "evictions": evictions}


def preempt(workload: Obj, reason: str, message: str, now: str) -> Obj:
    """Evicted to make room; `reason` says why it was chosen."""
    result = evict(workload, names.BY_PREEMPTION, message, now)
    entry = condition(names.PREEMPTED, True, reason, wl.truncated(message))
    held = conditions.conditions_of(result)
    return with_status(result, {**status_of(result), "conditions": set_condition(held, entry, now)})


class Requeue(Enum):
    """When an evicted Workload may be queued again."""

    AT_ONCE = "at once"
    AFTER_BACKOFF = "after its back-off"
    WHEN_RESTARTED = "when its queue is started again"
    WHEN_REACTIVATED = "when somebody activates it"


REQUEUE: Final[Mapping[str, Requeue]] = {
    # It did nothing wrong, and whoever needed the room has it.
    names.BY_PREEMPTION: Requeue.AT_ONCE,
    names.BY_NODE_FAILURES: Requeue.AT_ONCE,
    # What it waits for takes time: trying again at once would end in the same way.
    names.BY_PODS_READY_TIMEOUT: Requeue.AFTER_BACKOFF,
    names.BY_ADMISSION_CHECK: Requeue.AFTER_BACKOFF,
    # Somebody wanted it to stand still.
    names.BY_CLUSTER_QUEUE_STOPPED: Requeue.WHEN_RESTARTED,
    names.BY_LOCAL_QUEUE_STOPPED: Requeue.WHEN_RESTARTED,
    names.BY_DEACTIVATION: Requeue.WHEN_REACTIVATED,
}
"""By the reason of the eviction. One that is not listed is requeued by whoever evicted it for that reason."""


def release(workload: Obj, required: Sequence[str], now: str, *, message: str, reason: str = "Pending") -> Obj:
    """The reservation given back; Admitted follows."""
    result = with_condition(workload, names.QUOTA_RESERVED, False, reason, message, now)
    result = _without_fields(result, "admission")
    return sync_admitted(result, required, now)


def release_evicted(workload: Obj, required: Sequence[str], now: str) -> Obj:
    """What follows once the job of an evicted Workload has stopped: quota back, and whether it may be queued again."""
    evicted = conditions.find(workload, names.EVICTED) or {}
    message = str(evicted.get("message", ""))
    result = release(workload, required, now, message=message)
    requeued = REQUEUE.get(str(evicted.get("reason"))) is Requeue.AT_ONCE and not wl.is_single_pod(workload)
    return with_condition(result, names.REQUEUED, requeued, str(evicted.get("reason", "")), message, now)


def is_backing_off(workload: Obj) -> bool:
    """Whether it was evicted to be tried again after a while, and nobody has said yet that the while is over."""
    requeued = conditions.find(workload, names.REQUEUED) or {}
    later = REQUEUE.get(str(requeued.get("reason"))) is Requeue.AFTER_BACKOFF
    return requeued.get("status") == "False" and later and not wl.is_single_pod(workload)


def end_backoff(workload: Obj, now: str) -> Obj:
    """It may be tried again, and need not wait for any time."""
    result = with_condition(workload, names.REQUEUED, True, "BackoffFinished", "The workload backoff was finished", now)
    state = status_of(result).get("requeueState")
    if not state:
        return result
    kept = {name: value for name, value in state.items() if name != "requeueAt"}
    return with_status(result, {**status_of(result), "requeueState": kept})


def pending(
    workload: Obj, reason: str, message: str, now: str, requests: Sequence[Obj] = (), *, preempting: bool = False
) -> Obj:
    """Not admitted now, and why; `requests` are the effective requests per pod set, `preempting` says that it only waits for
    those it preempts to leave. The same object when nothing changes.
    """
    held = conditions.find(workload, names.QUOTA_RESERVED)
    message = wl.truncated(message)
    unchanged = (
        held is not None
        and held.get("status") == "False"
        and held.get("reason") == reason
        and held.get("message") == message
        and held.get("observedGeneration") == generation_of(workload)
        and preempting == is_preempting(workload)
    )
    if unchanged and (not requests or status_of(workload).get("resourceRequests") == list(requests)):
        return workload
    result = with_condition(workload, names.QUOTA_RESERVED, False, reason, message, now)
    if preempting:
        result = with_condition(result, names.PREEMPTING, True, "VictimsLeave", VICTIMS_LEAVE, now)
    else:
        result = without_condition(result, names.PREEMPTING)
    if requests:
        result = with_status(result, {**status_of(result), "resourceRequests": list(requests)})
    return result


VICTIMS_LEAVE = "The workload keeps the first place of its queue while those it preempts are leaving"


ON_HOLD = "OnHold"


def is_on_hold(workload: Obj) -> bool:
    """Whether a Workload is kept out of its queue because its owner wants no pods now."""
    held = conditions.find(workload, names.QUOTA_RESERVED) or {}
    return bool(held.get("status") == "False" and held.get("reason") == ON_HOLD)


def is_preempting(workload: Obj) -> bool:
    """Whether a waiting Workload was told last that its victims are about to leave."""
    return conditions.is_true(workload, names.PREEMPTING) and not wl.has_quota(workload)


# The end


def finish(workload: Obj, reason: str, message: str, now: str) -> Obj:
    return with_condition(workload, names.FINISHED, True, reason, message, now)


def replaced(workload: Obj, successor: Obj, now: str) -> Obj:
    """The end of a slice that a larger one takes over from."""
    return finish(workload, SLICE_REPLACED, replaced_by(successor), now)


def replaced_by(successor: Obj) -> str:
    return f"Replaced to accommodate a workload (UID: {uid_of(successor)}) due to workload slice aggregation"


def deactivation_target(workload: Obj, reason: str, message: str, now: str) -> Obj:
    """Marked to be deactivated in the next step."""
    return with_condition(workload, names.DEACTIVATION_TARGET, True, reason, message, now)


def retention_left(workload: Obj, keep: float | None, now: float) -> float | None:
    """How long a Workload that was deactivated by us is kept yet, of `keep` seconds; None when it is kept for good."""
    evicted = conditions.find(workload, names.EVICTED) or {}
    by_us = str(evicted.get("reason", "")).startswith("DeactivatedDueTo")
    if keep is None or not by_us or wl.is_active(workload):
        return None
    return parse_time(evicted["lastTransitionTime"]) + keep - now


# Progress


def sync_reclaimable(workload: Obj, counts: Mapping[str, int], *, only_grows: bool) -> Obj:
    """Per pod set, pods whose resources are free already. The same object when it says so already.

    What an elastic job has given up by shrinking is free anyway: for such a pod set the number is found anew.
    """
    held = {entry["name"]: int(entry["count"]) for entry in status_of(workload).get("reclaimablePods") or []}
    sizes = {entry.get("name", DEFAULT_NAME): int(entry.get("count", 1)) for entry in wl.pod_sets_of(workload)}
    counts = {name: min(count, sizes.get(name, count)) for name, count in counts.items()}
    if only_grows:
        shrunk = wl.scaled_down(workload)
        kept = {name: count for name, count in held.items() if name not in shrunk}
        counts = {name: max(count, kept.get(name, 0)) for name, count in {**kept, **counts}.items()}
    if counts == held:
        return workload
    entries = [{"name": name, "count": count} for name, count in counts.items()]
    return with_status(workload, {**status_of(workload), "reclaimablePods": entries})


def became_ready(old: Obj, new: Obj) -> bool:
    """Whether it has just started; one that only recovers a pod did so long ago."""
    held = conditions.find(new, names.PODS_READY) or {}
    return (
        held.get("status") == "True"
        and held.get("reason") == "Started"
        and not conditions.is_true(old, names.PODS_READY)
    )


NOT_READY = "Not all pods are ready or succeeded"
RECOVERING = "At least one pod has failed, waiting for recovery"
ALL_READY = "All pods reached readiness and the workload is running"


def sync_pods_ready(workload: Obj, ready: bool, now: str) -> Obj:
    """The PodsReady condition for a job whose pods are, or are not, all ready. The same object when it says so already, or when nothing
    was decided about the Workload yet: that decision would be refused because of this one, which tells nobody anything."""
    held = conditions.find(workload, names.PODS_READY)
    if held is None and conditions.find(workload, names.QUOTA_RESERVED) is None:
        return workload
    reason, message = _readiness(held, ready, wl.is_admitted(workload))
    if held is not None and held.get("status") == ("True" if ready else "False") and held.get("reason") == reason:
        return workload
    return with_condition(workload, names.PODS_READY, ready, reason, message, now)


def _readiness(held: Obj | None, ready: bool, admitted: bool) -> tuple[str, str]:
    status, reason = (held or {}).get("status"), (held or {}).get("reason")
    if ready:
        if status == "True":
            return str(reason), ALL_READY
        return ("Recovered" if reason == "WaitForRecovery" else "Started"), ALL_READY
    lost_a_pod = status == "True" or reason == "WaitForRecovery"
    return ("WaitForRecovery", RECOVERING) if admitted and lost_a_pod else ("WaitForStart", NOT_READY)
