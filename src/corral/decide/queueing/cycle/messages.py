"""The sentences users read in conditions and events."""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing.cycle.plan import REASON_PHRASES, Victim
from corral.decide.queueing.cycle.preemption.candidates import Target
from corral.decide.queueing.model.values import WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import ClusterQueue

FAILED_CHECKS = "The workload has failed admission checks"
NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"
PREEMPTION_GATED = "Workload requires preemption, but it's gated"
OVERLAPPING_TARGETS = "Workload has overlapping preemption targets with another workload"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"
DEFERRED_FIT = (
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete"
)
PENDING_PREEMPTION = "Pending the preemption of"
WAITING_FOR_PODS = "waiting for all admitted workloads to be in PodsReady condition"


def gives_way(preemptor: Key) -> str:
    return f"Waiting until {preemptor.namespace}/{preemptor.name}, which it was preempted for, is admitted or waits for something else"


def set_aside(cost: float, pause: float) -> str:
    return (
        f"Looking for a place took {cost:.1f} seconds of computing, again and again; it is tried again after {pause:.0f} seconds, "
        "and others are not held up"
    )


TOO_EXPENSIVE = "Workloads that ask for the same were set aside, because looking for a place took too long"


def no_replacement(nodes: str) -> str:
    return f"Workload was evicted as there was no replacement for unhealthy node(s): {nodes}"


def victim(preemptor: WorkloadInfo, queue: ClusterQueue, target: Target, *, ongoing: bool) -> Victim:
    """The eviction of `target` in words."""
    info, home = target.reservation.info, target.reservation.queue
    message = (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
        f"JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {REASON_PHRASES[target.reason]}; "
        f"preemptor path: {queue.cohort_path}; preemptee path: {home.cohort_path}"
    )
    priorities = (
        f"preemptor effective priority: {_priority(preemptor)}; preemptee effective priority: {_priority(info)}"
    )
    return Victim(
        key=info.key,
        uid=info.uid,
        cluster_queue=home.name,
        reason=target.reason,
        message=message,
        event=f"{message}; {priorities}",
        preemptor_event=f"Preempted workload {info.key} (UID: {info.uid}) in ClusterQueue {home.name}; {priorities}",
        ongoing=ongoing,
    )


def _priority(info: WorkloadInfo) -> str:
    return f"{info.priority} (base: {info.base_priority}, boost: {info.priority - info.base_priority})"
