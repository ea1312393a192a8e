"""What an MPIJob's status says: created, suspended, running, and the launcher's end as its own."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core import conditions
from corral.core.meta import (
    Obj,
    is_deleting,
    name_of,
    namespace_of,
    status_of,
)
from corral.core.timestamps import format_time
from corral.decide.pods.facts import phase_of
from corral.jobs.batch_job.plan import finish_of
from corral.jobs.kubeflow.status import put
from corral.jobs.mpijob.children import is_suspended, workers_wanted

Event = tuple[str, str, str]

_PHASES = {"active": "Running", "succeeded": "Succeeded", "failed": "Failed"}


def is_finished(status: Obj) -> bool:
    entries = status.get("conditions") or []
    return conditions.is_true(entries, "Succeeded") or conditions.is_true(entries, "Failed")


def created(job: Obj, now: float) -> Obj:
    status = dict(status_of(job))
    if not status.get("conditions"):
        text = f"{_title(job)} is created."
        status["conditions"] = put([], "Created", True, "MPIJobCreated", text, now)
    return status


def with_suspension(job: Obj, status: Obj, now: float) -> tuple[Obj, tuple[Event, ...]]:
    entries = status["conditions"]
    if is_suspended(job):
        if conditions.is_true(entries, "Suspended"):
            return status, ()
        if conditions.is_true(entries, "Running"):
            text = f"{_title(job)} is suspended."
            entries = put(entries, "Running", False, "MPIJobSuspended", text, now)
        entries = put(entries, "Suspended", True, "MPIJobSuspended", "MPIJob suspended", now)
        status = {name: value for name, value in status.items() if name != "startTime"}
        return {**status, "conditions": entries}, (("Normal", "MPIJobSuspended", "MPIJob suspended"),)
    if conditions.is_true(entries, "Suspended"):
        entries = put(entries, "Suspended", False, "MPIJobResumed", "MPIJob resumed", now)
        status = {**status, "conditions": entries, "startTime": format_time(now)}
        return status, (("Normal", "MPIJobResumed", "MPIJob resumed"),)
    return status, ()


def with_progress(
    job: Obj, status: Obj, workers: Sequence[Obj], launcher: Obj | None, pods: Sequence[Obj], now: float
) -> tuple[Obj, tuple[Event, ...]]:
    """The status with replicas counted anew, and the news in it: ended, evicted or running; `pods` are the launcher's."""
    phases = [phase_of(pod) for pod in workers if not is_deleting(pod)]
    running = sum(phase_of(pod) == "Running" for pod in pods)
    status = {**status, "replicaStatuses": {"Launcher": _launcher_counts(launcher, running), "Worker": _counts(phases)}}
    end = finish_of(launcher) if launcher is not None else None
    if end is not None and launcher is not None:
        return _ended(job, status, launcher, end, pods, now)
    evicted = sum(status_of(pod).get("reason") == "Evicted" for pod in workers)
    if evicted:
        return _evicted(status, f"{evicted}/{len(workers)} workers are evicted", now)
    if running and phases.count("Running") == workers_wanted(job) and not is_suspended(job):
        return _running(job, status, now)
    return status, ()


def _counts(phases: Sequence[str]) -> Obj:
    numbers = {name: phases.count(phase) for name, phase in _PHASES.items()}
    return {name: number for name, number in numbers.items() if number}


def _launcher_counts(launcher: Obj | None, running: int) -> Obj:
    if launcher is None:
        return {}
    end = finish_of(launcher)
    numbers = {
        "active": 0 if end is not None else running,
        "succeeded": 1 if end is not None and end["type"] == "Complete" else 0,
        "failed": int(status_of(launcher).get("failed") or 0),
    }
    return {name: number for name, number in numbers.items() if number}


def _evicted(status: Obj, text: str, now: float) -> tuple[Obj, tuple[Event, ...]]:
    entries = put(status["conditions"], "Failed", True, "MPIJobEvicted", text, now)
    completed = status.get("completionTime") or format_time(now)
    return {**status, "conditions": entries, "completionTime": completed}, (("Warning", "MPIJobEvicted", text),)


def _running(job: Obj, status: Obj, now: float) -> tuple[Obj, tuple[Event, ...]]:
    text = f"{_title(job)} is running."
    before = status["conditions"]
    status = {**status, "conditions": put(before, "Running", True, "MPIJobRunning", text, now)}
    return status, () if conditions.is_true(before, "Running") else (("Normal", "MPIJobRunning", text),)


def _ended(
    job: Obj, status: Obj, launcher: Obj, end: Obj, pods: Sequence[Obj], now: float
) -> tuple[Obj, tuple[Event, ...]]:
    """The launcher's end is the job's; a job that never ran says so, stamped with its end."""
    finish = status_of(launcher).get("completionTime") or end["lastTransitionTime"]
    entries = status["conditions"]
    if conditions.find(entries, "Running") is None:
        entries = [*entries, _never_ran(job, finish)]
    if end["type"] == "Complete":
        kind, level, reason, text = "Succeeded", "Normal", "MPIJobSucceeded", f"{_title(job)} successfully completed."
    else:
        kind, level, (reason, text) = "Failed", "Warning", _failure(job, end, pods)
    status = {
        **status,
        "completionTime": status.get("completionTime") or finish,
        "conditions": put(entries, kind, True, reason, text, now),
    }
    return status, ((level, reason, text),)


def _failure(job: Obj, end: Obj, pods: Sequence[Obj]) -> tuple[str, str]:
    """Reason and message of a failed launcher; where its attempts ran out, with what its last pod says."""
    reason = str(end.get("reason") or "MPIJobFailed")
    text = str(end.get("message") or f"{_title(job)} has failed")
    failed = [status_of(pod) for pod in pods if phase_of(pod) == "Failed"]
    last = sorted(failed, key=lambda status: str(status.get("startTime") or ""))[-1:]
    for status in last:
        if reason == "BackoffLimitExceeded" and status.get("reason"):
            reason = f"{reason}/{status['reason']}"
            text = f"{text}: {status.get('message') or ''}".removesuffix(": ")
    return reason, text


def _never_ran(job: Obj, finish: str) -> Obj:
    return {
        "type": "Running",
        "status": "False",
        "reason": "MPIJobRunning",
        "message": f"{_title(job)} is not running.",
        "lastUpdateTime": finish,
        "lastTransitionTime": finish,
    }


def _title(job: Obj) -> str:
    return f"MPIJob {namespace_of(job)}/{name_of(job)}"
