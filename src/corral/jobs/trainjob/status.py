"""What a TrainJob's status says, and how long it may still run."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core import conditions
from corral.core.meta import Obj, metadata_of, spec_of, status_of
from corral.core.timestamps import format_time, parse_time


def is_suspended(train_job: Obj) -> bool:
    return bool(spec_of(train_job).get("suspend"))


def train_job_status(train_job: Obj, job_set: Obj | None, now: float) -> Obj:
    """The status: suspension, and what the JobSet reports."""
    status = dict(status_of(train_job))
    entries: Sequence[Obj] = status.get("conditions") or []
    if is_suspended(train_job):
        entry = conditions.condition("Suspended", True, "Suspended", "TrainJob is suspended")
        entries = conditions.set_condition(entries, entry, format_time(now))
    elif conditions.is_true(entries, "Suspended"):
        entry = conditions.condition("Suspended", False, "Resumed", "TrainJob is resumed")
        entries = conditions.set_condition(entries, entry, format_time(now))
    if job_set is not None:
        for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
            found = conditions.find(job_set, theirs)
            if found is not None and found["status"] == "True":
                entry = conditions.condition(ours, True, found["reason"], found.get("message", ""))
                entries = conditions.set_condition(entries, entry, format_time(now))
        counts = status_of(job_set).get("replicatedJobsStatus")
        if counts:
            status["jobsStatus"] = counts
    if entries:
        status["conditions"] = list(entries)
    return status


def failed_status(train_job: Obj, reason: str, message: str, now: float) -> Obj:
    status = status_of(train_job)
    entry = conditions.condition("Failed", True, reason, message)
    entries = conditions.set_condition(status.get("conditions") or [], entry, format_time(now))
    return {**status, "conditions": entries}


def is_finished(train_job: Obj) -> bool:
    return conditions.is_true(train_job, "Complete") or conditions.is_true(train_job, "Failed")


def deadline_left(train_job: Obj, now: float) -> float | None:
    """Seconds until the active deadline, counted from the last resumption or the creation; None when it does not run."""
    limit = spec_of(train_job).get("activeDeadlineSeconds")
    if limit is None or is_suspended(train_job) or is_finished(train_job):
        return None
    resumed = conditions.find(train_job, "Suspended")
    if resumed is not None:
        if resumed["status"] == "True":
            return None  # just resumed; the clock starts when that is written down
        since = parse_time(resumed["lastTransitionTime"])
    else:
        since = parse_time(metadata_of(train_job)["creationTimestamp"])
    return max(0.0, since + float(limit) - now)
