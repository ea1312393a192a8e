"""A RayJob's life: a cluster of its own, an entry point submitted to it, and what is left afterwards.

'' -> Initializing -> Running -> Complete | Failed
Initializing, Running -> Suspending -> Suspended -> ''        Failed -> Retrying -> ''

Who hands the entry point to the cluster is the submission mode: a Job of its own (K8sJobMode), a container in the head's
pod (SidecarMode), the operator (HTTPMode), or the user (InteractiveMode). Where pods stand in for Ray nobody can be handed
anything; then the submitting container runs the entry point itself, and HTTPMode has such a container in the head's pod.
Where Ray is missing and nobody chose stand-ins the job fails at once.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.timestamps import format_time
from corral.jobs.ray.cluster_plan import RAY_MISSING, head_address, is_cluster_ready
from corral.jobs.ray.job_children import ray_cluster, submitter_job
from corral.jobs.ray.job_ending import clean_up_after
from corral.jobs.ray.job_plan_values import (
    LIMITS,
    RayJobLook,
    RayJobPlan,
    deadline,
    mode_of,
    moved,
    overdue,
    state_of,
    submits_from_head,
)
from corral.jobs.ray.job_watch import submission_of, watch
from corral.jobs.ray.kind import job_errors

FINALIZER = "ray.io/rayjob-finalizer"


def plan_ray_job(look: RayJobLook, suffix: Callable[[], str]) -> RayJobPlan:
    """The next step of a RayJob. `suffix` makes up the random end of a new name."""
    job, is_suspended = look.job, bool(spec_of(look.job).get("suspend"))
    match state_of(job):
        case "":
            return _begin(look, suffix)
        case "Initializing" | "Running" if is_suspended:
            return RayJobPlan(moved(job, "Suspending"))
        case "Suspending" | "Retrying":
            return _clear(job, look.cluster, look.submitter)
        case "Suspended":
            return RayJobPlan(status_of(job) if is_suspended else moved(job, ""))
        case "Initializing":
            return _initialize(look)
        case "Waiting":
            return _await_user(job, look.now)
        case "Running":
            return watch(look)
    return clean_up_after(job, look.cluster, look.now)


def _begin(look: RayJobLook, suffix: Callable[[], str]) -> RayJobPlan:
    job, now, missing = look.job, look.now, look.settings.missing
    complaint = job_errors(job)
    if complaint:
        status = moved(job, "ValidationFailed", reason="ValidationFailed", message=complaint)
        return RayJobPlan(status, events=(("Warning", "InvalidRayJobSpec", complaint),))
    if spec_of(job).get("suspend"):
        return RayJobPlan(moved(job, "Suspended", jobStatus=""))
    if missing:
        ended = moved(job, "Failed", jobStatus="FAILED", reason=RAY_MISSING, message=missing, endTime=format_time(now))
        return RayJobPlan(ended, events=(("Warning", RAY_MISSING, missing),))
    selector = spec_of(job).get("clusterSelector") or {}
    cluster = selector.get("ray.io/cluster") or f"{name_of(job)[:40]}-{suffix()}"
    status = moved(job, "Initializing", rayClusterName=cluster, jobStatus="", startTime=format_time(now))
    for name in ("endTime", "reason", "message", "dashboardURL", "jobId", "jobStatusCheckFailureStartTime"):
        status.pop(name, None)
    if mode_of(job) != "InteractiveMode":
        status["jobId"] = spec_of(job).get("jobId") or f"{name_of(job)}-{suffix()}"
    return RayJobPlan(status)


def _clear(job: Obj, cluster: Obj | None, submitter: Obj | None) -> RayJobPlan:
    """Cluster and submitter go; when they are gone the job is suspended, or begins again."""
    owned = cluster is not None and not spec_of(job).get("clusterSelector")
    if owned or submitter is not None:
        return RayJobPlan(status_of(job), delete_cluster=owned, delete_submitter=submitter is not None)
    kept = {
        name: value for name, value in status_of(job).items() if name in ("succeeded", "failed", "observedGeneration")
    }
    state = "Suspended" if state_of(job) == "Suspending" else ""
    return RayJobPlan({**kept, "jobDeploymentStatus": state, "jobStatus": ""})


def _initialize(look: RayJobLook) -> RayJobPlan:
    """A job whose cluster is on its way."""
    job, cluster, now, settings = look.job, look.cluster, look.now, look.settings
    late = overdue(job, now, *LIMITS)
    if late is not None:
        return late
    if cluster is None and spec_of(job).get("clusterSelector"):
        return RayJobPlan(status_of(job))
    wait_s = deadline(job, now)
    if cluster is None:
        return RayJobPlan(status_of(job), create_cluster=ray_cluster(job, settings), wait_s=wait_s)
    status = {**status_of(job), "rayClusterStatus": status_of(cluster)}
    if not is_cluster_ready(cluster) and not _is_submitted_from_head(look):
        return RayJobPlan(status, wait_s=wait_s)
    status["dashboardURL"] = f"{head_address(cluster)}:8265"
    if mode_of(job) == "InteractiveMode":
        return RayJobPlan({**status, "jobDeploymentStatus": "Waiting", "jobStatus": ""}, wait_s=wait_s)
    needs_submitter = mode_of(job) == "K8sJobMode" and look.submitter is None
    return RayJobPlan(
        {**status, "jobDeploymentStatus": "Running", "jobStatus": "PENDING"},
        create_submitter=submitter_job(job, cluster, settings) if needs_submitter else None,
        wait_s=wait_s,
    )


def _is_submitted_from_head(look: RayJobLook) -> bool:
    """A submitter beside the head may be done before the head was ever ready; it is not ready afterwards."""
    if look.head is None or not submits_from_head(look.job, look.settings):
        return False
    return bool(submission_of(look).ended_at)


def _await_user(job: Obj, now: float) -> RayJobPlan:
    """An interactive job goes on when its user has submitted one and said which."""
    late = overdue(job, now, *LIMITS)
    if late is not None:
        return late
    given = spec_of(job).get("jobId")
    if not given:
        return RayJobPlan(status_of(job), wait_s=deadline(job, now))
    return RayJobPlan(moved(job, "Running", jobId=given))
