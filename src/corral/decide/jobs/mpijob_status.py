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
from corral.decide.jobs.job import finish_of
from corral.decide.jobs.mpijob_children import is_suspended, workers_wanted
from corral.decide.jobs.pods import phase_of
from corral.decide.jobs.training_status import put

Event = tuple[str, str, str]


def is_finished(status: Obj) -> bool:
    entries = status.get("conditions") or []
    return conditions.is_true(entries, "Succeeded") or conditions.is_true(entries, "Failed")


def created(job: Obj, now: float) -> Obj:
    status = dict(status_of(job))
    if not status.get("conditions"):
        text = f"MPIJob {namespace_of(job)}/{name_of(job)} is created."
        status["conditions"] = put([], "Created", True, "MPIJobCreated", text, now)
    return status


def with_suspension(job: Obj, status: Obj, now: float) -> tuple[Obj, tuple[Event, ...]]:
    entries = status["conditions"]
    if is_suspended(job):
        if conditions.is_true(entries, "Suspended"):
            return status, ()
        if conditions.is_true(entries, "Running"):
            text = f"MPIJob {namespace_of(job)}/{name_of(job)} is suspended."
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
    phases = [phase_of(pod) for pod in workers if not is_deleting(pod)]
    running = sum(phase_of(pod) == "Running" for pod in pods)
    counts = {
        "Launcher": _launcher_counts(launcher, running),
        "Worker": {
            name: number
            for name, number in (
                ("active", phases.count("Running")),
                ("succeeded", phases.count("Succeeded")),
                ("failed", phases.count("Failed")),
            )
            if number
        },
    }
    status = {**status, "replicaStatuses": counts}
    end = finish_of(launcher) if launcher is not None else None
    if end is not None and launcher is not None:
        return _ended(job, status, launcher, end, pods, now)
    evicted = [pod for pod in workers if status_of(pod).get("reason") == "Evicted"]
    if evicted:
        text = f"{len(evicted)}/{len(workers)} workers are evicted"
        status["conditions"] = put(status["conditions"], "Failed", True, "MPIJobEvicted", text, now)
        status["completionTime"] = status.get("completionTime") or format_time(now)
        return status, (("Warning", "MPIJobEvicted", text),)
    if running and phases.count("Running") == workers_wanted(job) and not is_suspended(job):
        text = f"MPIJob {namespace_of(job)}/{name_of(job)} is running."
        before = status["conditions"]
        status["conditions"] = put(before, "Running", True, "MPIJobRunning", text, now)
        if not conditions.is_true(before, "Running"):
            return status, (("Normal", "MPIJobRunning", text),)
    return status, ()


def _launcher_counts(launcher: Obj | None, running: int) -> Obj:
    if launcher is None:
        return {}
    held = status_of(launcher)
    end = finish_of(launcher)
    numbers = {
        "active": 0 if end is not None else running,
        "succeeded": 1 if end is not None and end["type"] == "Complete" else 0,
        "failed": int(held.get("failed") or 0),
    }
    return {name: number for name, number in numbers.items() if number}


def _ended(
    job: Obj, status: Obj, launcher: Obj, end: Obj, pods: Sequence[Obj], now: float
) -> tuple[Obj, tuple[Event, ...]]:
    """The launcher's end is the job's; a job that never ran says so, stamped with its end."""
    finish = status_of(launcher).get("completionTime") or end["lastTransitionTime"]
    status = {**status, "completionTime": status.get("completionTime") or finish}
    entries = status["conditions"]
    if end["type"] == "Complete":
        text = f"MPIJob {namespace_of(job)}/{name_of(job)} successfully completed."
        kind, reason = "Succeeded", "MPIJobSucceeded"
    else:
        text = str(end.get("message") or f"MPIJob {namespace_of(job)}/{name_of(job)} has failed")
        kind, reason = "Failed", str(end.get("reason") or "MPIJobFailed")
        last = sorted(
            (pod for pod in pods if phase_of(pod) == "Failed"),
            key=lambda pod: str(status_of(pod).get("startTime") or ""),
        )
        if last and reason == "BackoffLimitExceeded" and status_of(last[-1]).get("reason"):
            reason = f"{reason}/{status_of(last[-1])['reason']}"
            text = f"{text}: {status_of(last[-1]).get('message') or ''}".removesuffix(": ")
    if conditions.find(entries, "Running") is None:
        text_running = f"MPIJob {namespace_of(job)}/{name_of(job)} is not running."
        entry = {
            "type": "Running",
            "status": "False",
            "reason": "MPIJobRunning",
            "message": text_running,
            "lastUpdateTime": finish,
            "lastTransitionTime": finish,
        }
        entries = [*entries, entry]
    status["conditions"] = put(entries, kind, True, reason, text, now)
    return status, (("Normal" if kind == "Succeeded" else "Warning", reason, text),)
