"""Time limits of an admitted Workload: how long it may run, and how long its pods may take to become ready."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, key_of, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.workload import lifecycle, variants
from corral.workload import workload as wl
from corral.workload.steps.step_api import LookAgain, Move, WorkloadView, WriteWorkload, evicted

RAN_TOO_LONG = ("MaximumExecutionTimeExceeded", "exceeding the maximum execution time")
TRIED_TOO_OFTEN = ("RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries")


def limit_execution(workload: Obj, view: WorkloadView) -> Move | None:
    """A workload that ran as long as it may is deactivated."""
    limit = spec_of(workload).get("maximumExecutionTimeSeconds")
    if limit is None or not wl.is_admitted(workload) or wl.is_evicted(workload):
        return None
    admitted = conditions.find(workload, names.ADMITTED) or {}
    past = int(status_of(workload).get("accumulatedPastExecutionTimeSeconds") or 0)
    left = limit - past - (view.now - parse_time(admitted["lastTransitionTime"]))
    if left > 0:
        return LookAgain(left)
    event = ("Warning", RAN_TOO_LONG[0], f"The maximum execution time ({limit}s) exceeded")
    return _deactivated(workload, view, RAN_TOO_LONG, event)


def require_readiness(workload: Obj, view: WorkloadView) -> Move | None:
    """Pods that do not get ready in time cost the workload its place."""
    settings = view.config.wait_for_pods_ready
    if settings is None or not wl.is_active(workload) or wl.is_evicted(workload):
        return None
    if view.concurrent and variants.parent_of(workload) is not None:
        return None  # the parent watches over the pods
    found = readiness_deadline(workload, settings.timeout_s, settings.recovery_timeout_s)
    if found is None:
        return None
    cause, deadline = found
    if deadline > view.now:
        return LookAgain(deadline - view.now)
    count = int((status_of(workload).get("requeueState") or {}).get("count") or 0) + 1
    if settings.backoff_limit is not None and count > settings.backoff_limit:
        return _deactivated(workload, view, TRIED_TOO_OFTEN)
    delay = min(settings.backoff_base_s * 2.0 ** (count - 1), settings.backoff_max_s)
    message = f"Exceeded the PodsReady timeout {key_of(workload)}"
    return evicted(workload, view, names.BY_PODS_READY_TIMEOUT, message, cause=cause, requeue_at=view.now + delay)


def readiness_deadline(workload: Obj, timeout: float, recovery: float | None) -> tuple[str, float] | None:
    """Why and until when an admitted workload may have pods that are not ready; None when there is no deadline."""
    if not wl.is_admitted(workload) or conditions.is_true(workload, names.PODS_READY):
        return None
    admitted_at = parse_time((conditions.find(workload, names.ADMITTED) or {})["lastTransitionTime"])
    ready = conditions.find(workload, names.PODS_READY)
    if ready is not None and ready.get("reason") == "WaitForRecovery":
        if recovery is None:
            return None
        return "WaitForRecovery", parse_time(ready["lastTransitionTime"]) + recovery
    return "WaitForStart", admitted_at + timeout


def _deactivated(
    workload: Obj, view: WorkloadView, why: tuple[str, str], event: tuple[str, str, str] | None = None
) -> Move | None:
    """Mark a workload to be deactivated, once."""
    if conditions.is_true(workload, names.DEACTIVATION_TARGET):
        return None
    return WriteWorkload(lifecycle.deactivation_target(workload, *why, view.stamp), event=event)
