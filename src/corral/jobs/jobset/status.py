"""What a JobSet's status says about its Jobs: sorted by what they are, counted, and what is true of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.core import conditions
from corral.core.conditions import condition
from corral.core.meta import (
    Obj,
    is_deleting,
    labels_of,
    spec_of,
    status_of,
)
from corral.core.timestamps import format_time
from corral.core.whole_numbers import whole_number
from corral.jobs.batch_job.plan import finish_of
from corral.jobs.jobset.children import ATTEMPT, REPLICATED_JOB, replicas_of, replicated_jobs

COUNTS = ("ready", "succeeded", "failed", "active", "suspended")


@dataclass(frozen=True, slots=True)
class Children:
    """The Jobs of a JobSet sorted by what they are."""

    active: list[Obj] = field(default_factory=list)
    succeeded: list[Obj] = field(default_factory=list)
    failed: list[Obj] = field(default_factory=list)
    outdated: list[Obj] = field(default_factory=list)
    """Jobs of an earlier attempt, and those on their way out."""

    @property
    def all(self) -> list[Obj]:
        return [*self.active, *self.succeeded, *self.failed, *self.outdated]


def finished(job_set: Obj) -> Obj | None:
    """The condition that ended the JobSet, if any."""
    for kind in ("Completed", "Failed"):
        if conditions.is_true(job_set, kind):
            return conditions.find(job_set, kind)
    return None


def live(jobs: Sequence[Obj]) -> list[Obj]:
    return [job for job in jobs if not is_deleting(job)]


def attempt_of(job: Obj) -> int:
    attempt = whole_number(labels_of(job).get(ATTEMPT, ""))
    return -1 if attempt is None else attempt


def sort_children(job_set: Obj, jobs: Sequence[Obj]) -> Children:
    children = Children()
    restarts = int(status_of(job_set).get("restarts") or 0)
    for job in jobs:
        if attempt_of(job) < restarts or is_deleting(job):
            children.outdated.append(job)
            continue
        end = finish_of(job)
        if end is None:
            children.active.append(job)
        else:
            (children.succeeded if end["type"] == "Complete" else children.failed).append(job)
    return children


def counted(job_set: Obj, children: Children) -> Obj:
    """The old status with the replicated jobs counted anew."""
    counts = {entry["name"]: dict.fromkeys(COUNTS, 0) for entry in replicated_jobs(job_set)}
    found = [
        *((job, {"succeeded": True}) for job in children.succeeded),
        *((job, {"failed": True}) for job in children.failed),
        *((job, _states(job)) for job in children.active),
    ]
    for job, states in found:
        numbers = counts.get(labels_of(job).get(REPLICATED_JOB, ""))
        if numbers is not None:
            for state, applies in states.items():
                numbers[state] += applies
    old = status_of(job_set)
    status = {**old, "restarts": int(old.get("restarts") or 0)}
    status["replicatedJobsStatus"] = [{"name": name, **numbers} for name, numbers in counts.items()]
    return status


def _states(job: Obj) -> dict[str, bool]:
    spec, status = spec_of(job), status_of(job)
    parallelism = int(spec.get("parallelism", 1))
    needed = min(parallelism, int(spec.get("completions") or parallelism))
    return {
        "ready": int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= needed,
        "active": int(status.get("active") or 0) > 0,
        "suspended": bool(spec.get("suspend")),
    }


def unready(children: Children) -> int:
    """How many Jobs have been made and not come up."""
    return sum(not _states(job)["ready"] for job in children.active)


def counts_of(status: Obj, name: str) -> Obj:
    return next((entry for entry in status.get("replicatedJobsStatus") or () if entry["name"] == name), {})


def is_started(replicated: Obj, status: Obj) -> bool:
    numbers = counts_of(status, replicated["name"])
    total = sum(int(numbers.get(kind) or 0) for kind in ("failed", "ready", "succeeded"))
    return total >= replicas_of(replicated)


def put(status: Obj, entry: Obj, now: float) -> Obj:
    """The status with one condition set; a negative condition is not added afresh."""
    entries = status.get("conditions") or []
    if entry["status"] == "False" and conditions.find(entries, entry["type"]) is None:
        return status
    return {**status, "conditions": conditions.set_condition(entries, entry, format_time(now))}


def with_readiness(job_set: Obj, status: Obj, now: float) -> Obj:
    """A restart is over once every Job is ready or done."""
    entries = status.get("conditions") or []
    if not conditions.is_true(entries, "RestartingJobSet"):
        return status
    for replicated in replicated_jobs(job_set):
        numbers = counts_of(status, replicated["name"])
        if int(numbers["ready"]) + int(numbers["succeeded"]) < replicas_of(replicated):
            return status
    return put(status, condition("RestartingJobSet", False, "JobsReady", "all jobs are ready"), now)
