"""Restarting a JobSet in place: pods stay, their containers start again together.

An agent in every pod writes into an annotation which attempt the pod is in. When all pods are in the same attempt, the
status names it and the agents let the work begin. When some are ahead, the status names the attempt that is over and
the agents of the others restart their pods' containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, spec_of, status_of
from corral.core.timestamps import format_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.facts import phase_of

ATTEMPT = "jobset.sigs.k8s.io/in-place-restart-attempt"
STRATEGY = "InPlaceRestart"
EXHAUSTED = "jobset failed due to reaching max number of restarts"


def restarts_in_place(job_set: Obj) -> bool:
    return (spec_of(job_set).get("failurePolicy") or {}).get("restartStrategy") == STRATEGY


def pods_of(job_set: Obj) -> int:
    """How many pods the JobSet has when all are there."""
    total = 0
    for replicated in spec_of(job_set).get("replicatedJobs") or ():
        job = (replicated.get("template") or {}).get("spec") or {}
        replicas = replicated.get("replicas")
        total += (1 if replicas is None else int(replicas)) * int(job.get("parallelism") or 1)
    return total


def attempts_of(pods: Iterable[Obj]) -> list[int]:
    """The attempts that living pods say they are in; a pod whose agent has not spoken yet says nothing."""
    said = (whole_number(annotations_of(pod).get(ATTEMPT, "")) for pod in pods if phase_of(pod) != "Failed")
    return [attempt for attempt in said if attempt is not None]


def _restarts(pods: Iterable[Obj]) -> int:
    counts = [
        int(entry.get("restartCount") or 0)
        for pod in pods
        for field in ("initContainerStatuses", "containerStatuses")
        for entry in status_of(pod).get(field) or ()
    ]
    return max(counts, default=0)


def restart_in_place(job_set: Obj, status: Obj, pods: Sequence[Obj], now: float) -> Obj:
    """The status after a look at the pods' attempts."""
    limit = int((spec_of(job_set).get("failurePolicy") or {}).get("maxRestarts") or 0)
    attempts = attempts_of(pods)
    uncounted = int(status.get("restarts") or 0) - int(status.get("restartsCountTowardsMax") or 0)
    # A container that fails faster than the agents can meet never raises the attempt; its own count does.
    if _restarts(pods) > limit or max(attempts, default=0) - uncounted > limit:
        entry = conditions.condition("Failed", True, "ReachedMaxRestarts", EXHAUSTED)
        entries = conditions.set_condition(status.get("conditions") or [], entry, format_time(now))
        return {**status, "conditions": entries, "terminalState": "Failed"}
    if len(attempts) == pods_of(job_set) and len(set(attempts)) == 1:
        return {**status, "currentInPlaceRestartAttempt": attempts[0]}
    newest = max(attempts, default=0)
    if newest == 0 or newest - 1 < int(status.get("previousInPlaceRestartAttempt") or 0):
        return status
    return {**status, "previousInPlaceRestartAttempt": newest - 1}
