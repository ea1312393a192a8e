"""What a step of a RayJob is decided from, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.core.meta import Obj, generation_of, spec_of, status_of
from corral.core.timestamps import format_time, parse_time
from corral.jobs.ray.cluster_plan import RaySettings

Event = tuple[str, str, str]

LIMITS = {"preRunningDeadlineSeconds": "PreRunningDeadlineExceeded", "activeDeadlineSeconds": "DeadlineExceeded"}
"""Limits of a job's time by the field that sets them, with the reason of the failure."""


@dataclass(frozen=True, slots=True)
class RayJobPlan:
    """Everything one look decides about a RayJob."""

    status: Obj
    create_cluster: Obj | None = None
    delete_cluster: bool = False
    suspend_workers: bool = False
    """The cluster's workers are to go; its head stays."""
    delete_job: bool = False
    """The RayJob itself is to be deleted."""
    create_submitter: Obj | None = None
    delete_submitter: bool = False
    submit: Obj | None = None
    """What to send to the dashboard."""
    wait_s: float | None = None
    events: tuple[Event, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Answer:
    """What the dashboard says about the job."""

    info: Obj | None = None
    """The job; None when the dashboard knows no such job."""
    silent: bool = False
    """The dashboard did not answer."""


@dataclass(frozen=True, slots=True)
class RayJobLook:
    """What a step is decided from."""

    job: Obj
    cluster: Obj | None
    submitter: Obj | None
    """The submitting Job."""
    head: Obj | None
    """The pod of the cluster's head."""
    answer: Answer | None
    """None when the dashboard was not asked."""
    now: float
    settings: RaySettings


def mode_of(job: Obj) -> str:
    return str(spec_of(job).get("submissionMode") or "K8sJobMode")


def submits_from_head(job: Obj, settings: RaySettings) -> bool:
    """Whether a container beside the head submits."""
    return mode_of(job) == "SidecarMode" or (mode_of(job) == "HTTPMode" and not settings.real)


def state_of(job: Obj) -> str:
    return str(status_of(job).get("jobDeploymentStatus") or "")


def moved(job: Obj, state: str, **changes: object) -> Obj:
    """The status in another state."""
    return {**status_of(job), "jobDeploymentStatus": state, "observedGeneration": generation_of(job), **changes}


def deadline(job: Obj, now: float) -> float | None:
    """Seconds until the first limit of the job is reached; None when it has none, or has not started."""
    started = status_of(job).get("startTime")
    limits = [spec_of(job)[name] for name in LIMITS if spec_of(job).get(name) is not None]
    return max(0.0, parse_time(started) + float(min(limits)) - now) if limits and started else None


def overdue(job: Obj, now: float, *limits: str) -> RayJobPlan | None:
    """The end of a job that has reached one of these limits."""
    started = status_of(job).get("startTime")
    for name in limits:
        limit = spec_of(job).get(name)
        if limit is not None and started and parse_time(started) + float(limit) <= now:
            text = f"The RayJob has passed the {name}. StartTime: {started}. {name}: {limit}"
            status = moved(job, "Failed", reason=LIMITS[name], message=text, endTime=format_time(now))
            return RayJobPlan(_counted(job, status), events=(("Warning", LIMITS[name], text),))
    return None


def failed_plan(job: Obj, status: Obj, reason: str, text: str, at: str) -> RayJobPlan:
    """The job failed at `at`, for good or for now."""
    status = {**status, "jobDeploymentStatus": "Failed", "reason": reason, "message": text, "endTime": at}
    return RayJobPlan(_counted(job, status), events=(("Warning", reason, text),))


def _counted(job: Obj, status: Obj) -> Obj:
    """A failure counts; while attempts are left the job tries again with a new cluster."""
    failed = int(status.get("failed") or 0) + 1
    limit = int(spec_of(job).get("backoffLimit") or 0)
    retry = failed <= limit and status.get("reason") != "DeadlineExceeded"
    return {**status, "failed": failed, **({"jobDeploymentStatus": "Retrying"} if retry else {})}
