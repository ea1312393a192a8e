"""Why a Workload without quota waits, as its QuotaReserved condition says.

By default only queues that cannot take it are named; the rest is the scheduler's to say. With the gate
UnadmittedWorkloadsObservability every state has a reason of its own, and what the scheduler said is kept until it speaks
again. UnadmittedWorkloadsExplicitStatus says so from the first moment on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from corral.core import conditions
from corral.core.meta import Key, Obj, annotations_of, key_of, spec_of
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates
from corral.workload import workload as wl

GATED = "AdmissionGated"
INADMISSIBLE = "Inadmissible"
"""The one reason for every `Problem` where reasons are not granular; nothing else has it."""
PENDING_EVALUATION = ("PendingEvaluation", "Workload is pending evaluation in the scheduling queue")
BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"
GATE_CLEARED = "AdmissionGatedBy cleared, waiting for quota reservation"
FROM_SCHEDULER = frozenset(
    [
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
        "PendingEvaluation",
    ]
)
STALE = frozenset(["", "Deactivated", "PendingEvaluation", "Suspended", "Pending"])
"""Reasons that a known verdict on equal workloads may replace; others say more."""


class SchedulerKnowledge(Protocol):
    """What the scheduler of the cluster knows about a waiting Workload."""

    def refusal(self, key: Key) -> str: ...

    def no_fit_reason(self, key: Key) -> str | None: ...

    def last_message(self, key: Key) -> tuple[str, str] | None: ...

    def uncounted(self, key: Key) -> str: ...

    def is_at_rest(self, key: Key, now: float) -> bool: ...


class Obstacle(StrEnum):
    """What may be wrong with the queues of a Workload, or with what it asks of them."""

    UNCOUNTED_DEVICES = "UncountedDevices"
    NO_LOCAL_QUEUE = "NoLocalQueue"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NO_CLUSTER_QUEUE = "NoClusterQueue"
    CLUSTER_QUEUE_INACTIVE = "ClusterQueueInactive"


class Problem(NamedTuple):
    """Something outside a Workload that keeps it from being admitted."""

    reason: str
    """The granular one."""
    message: str
    obstacle: Obstacle | None = None

    def under(self, gates: FeatureGates) -> tuple[str, str]:
        return (self.reason if is_granular(gates) else INADMISSIBLE), self.message


def queue_problem(
    local_queue: str, is_open: bool | None, cluster_queue: str, is_active: bool | None, *, uncounted: str = ""
) -> Problem | None:
    """Why its queues do not take a waiting Workload, as users read it; None when they do.

    `is_open` and `is_active` are None where there is no such queue.
    """
    if uncounted:
        return Problem("Misconfigured", uncounted, Obstacle.UNCOUNTED_DEVICES)
    if is_open is None:
        return Problem("Misconfigured", f"LocalQueue {local_queue} doesn't exist", Obstacle.NO_LOCAL_QUEUE)
    if not is_open:
        return Problem("Suspended", f"LocalQueue {local_queue} is inactive", Obstacle.LOCAL_QUEUE_STOPPED)
    if is_active is None:
        return Problem("Misconfigured", f"ClusterQueue {cluster_queue} doesn't exist", Obstacle.NO_CLUSTER_QUEUE)
    if not is_active:
        return Problem("Suspended", f"ClusterQueue {cluster_queue} is inactive", Obstacle.CLUSTER_QUEUE_INACTIVE)
    return None


def problem_of_queues(
    workload: Obj, local_queue: Obj | None, cluster_queue: Obj | None, *, uncounted: str = ""
) -> Problem | None:
    """The same of queues as the API has them."""
    return queue_problem(
        wl.queue_of(workload),
        None if local_queue is None else not is_stopped(local_queue),
        str(spec_of(local_queue or {}).get("clusterQueue", "")),
        None if cluster_queue is None else not is_stopped(cluster_queue) and not is_inactive(cluster_queue),
        uncounted=uncounted,
    )


def stop_policy(queue: Obj) -> str:
    return str(spec_of(queue).get("stopPolicy") or "None")


def is_stopped(queue: Obj) -> bool:
    return stop_policy(queue) != "None"


def is_inactive(cluster_queue: Obj) -> bool:
    return conditions.is_false(cluster_queue, names.ACTIVE)


def is_granular(gates: FeatureGates) -> bool:
    return gates["UnadmittedWorkloadsObservability"]


def is_explicit(gates: FeatureGates) -> bool:
    """Are conditions written before anything happened?"""
    return is_granular(gates) and gates["UnadmittedWorkloadsExplicitStatus"]


def admission_gates(workload: Obj, gates: FeatureGates) -> str:
    """The gates that hold the Workload back, as its annotation lists them."""
    return str(annotations_of(workload).get(names.ADMISSION_GATED_BY, "")) if gates["AdmissionGatedBy"] else ""


def gated(held_by: str) -> tuple[str, str]:
    return GATED, f"Admission is gated by: {held_by}"


def why_waiting(
    workload: Obj, problem: Problem | None, gates: FeatureGates, state: SchedulerKnowledge | None
) -> tuple[str, str] | None:
    """Reason and message of QuotaReserved=False; None when there is nothing to write."""
    if not is_granular(gates):
        return problem.under(gates) if problem is not None else None
    held = conditions.find(workload, names.QUOTA_RESERVED)
    reason = str((held or {}).get("reason", ""))
    if not wl.is_active(workload):
        return "Deactivated", "The workload is deactivated"
    if reason == "OnHold":
        return None
    if held_by := admission_gates(workload, gates):
        return gated(held_by)
    if problem is not None:
        return problem.under(gates)
    refusal = state.refusal(key_of(workload)) if state is not None else ""
    if refusal:
        return "Misconfigured", refusal
    if held is None and not is_explicit(gates):
        return None
    if gates["SchedulingEquivalenceHashing"] and reason in STALE and state is not None:
        verdict = state.no_fit_reason(key_of(workload))
        if verdict is not None:
            return verdict, BYPASSED
    return None if reason in FROM_SCHEDULER else PENDING_EVALUATION
