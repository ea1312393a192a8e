"""A RayJob's life: a cluster of its own, an entry point submitted to it, and what is left afterwards.

'' -> Initializing -> Running -> Complete | Failed
Initializing, Running -> Suspending -> Suspended -> ''        Failed -> Retrying -> ''
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from corral.core.meta import Obj, generation_of, name_of, namespace_of, owner_ref, spec_of, status_of
from corral.core.timestamps import format_time, parse_time
from corral.decide.jobs.job import finish_of
from corral.decide.jobs.raycluster import RaySettings, head_address, is_cluster_ready
from corral.kinds.ray import GROUP, RAY_JOBS, job_errors

FINALIZER = "ray.io/rayjob-finalizer"
ORIGIN_NAME = "ray.io/originated-from-cr-name"
ORIGIN_KIND = "ray.io/originated-from-crd"
TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")

Event = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class RayJobPlan:
    """Everything one look decides about a RayJob."""

    status: Obj
    create_cluster: Obj | None = None
    delete_cluster: bool = False
    create_submitter: Obj | None = None
    delete_submitter: bool = False
    wait_s: float | None = None
    events: tuple[Event, ...] = field(default=())


def mode_of(job: Obj) -> str:
    return str(spec_of(job).get("submissionMode") or "K8sJobMode")


def state_of(job: Obj) -> str:
    return str(status_of(job).get("jobDeploymentStatus") or "")


def plan_ray_job(
    job: Obj, cluster: Obj | None, submitter: Obj | None, now: float, suffix: Callable[[], str], settings: RaySettings
) -> RayJobPlan:
    """The next step of a RayJob. `suffix` makes up the random end of a new name."""
    state = state_of(job)
    if state == "":
        return _begin(job, now, suffix)
    if state in ("Initializing", "Running", "Waiting") and spec_of(job).get("suspend"):
        return RayJobPlan(_moved(job, "Suspending"))
    if state in ("Suspending", "Retrying"):
        return _clear(job, cluster, submitter)
    if state == "Suspended":
        return RayJobPlan(status_of(job)) if spec_of(job).get("suspend") else RayJobPlan(_moved(job, ""))
    if state == "Initializing":
        return _initialize(job, cluster, submitter, now, settings)
    if state in ("Running", "Waiting"):
        return _watch(job, cluster, submitter, now)
    return _after(job, cluster, submitter, now)


def _moved(job: Obj, state: str, **changes: object) -> Obj:
    return {**status_of(job), "jobDeploymentStatus": state, "observedGeneration": generation_of(job), **changes}


def _begin(job: Obj, now: float, suffix: Callable[[], str]) -> RayJobPlan:
    complaint = job_errors(job)
    if complaint:
        status = _moved(job, "ValidationFailed", reason="ValidationFailed", message=complaint)
        return RayJobPlan(status, events=(("Warning", "InvalidRayJobSpec", complaint),))
    if spec_of(job).get("suspend"):
        return RayJobPlan(_moved(job, "Suspended", jobStatus=""))
    selector = spec_of(job).get("clusterSelector") or {}
    cluster = selector.get("ray.io/cluster") or f"{name_of(job)[:40]}-{suffix()}"
    status = _moved(
        job,
        "Initializing",
        jobId=spec_of(job).get("jobId") or f"{name_of(job)}-{suffix()}",
        rayClusterName=cluster,
        jobStatus="",
        startTime=format_time(now),
    )
    for name in ("endTime", "reason", "message", "dashboardURL"):
        status.pop(name, None)
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


def _initialize(job: Obj, cluster: Obj | None, submitter: Obj | None, now: float, settings: RaySettings) -> RayJobPlan:
    late = _overdue(job, now, "preRunningDeadlineSeconds", "PreRunningDeadlineExceeded")
    if late is not None:
        return late
    if cluster is None:
        if spec_of(job).get("clusterSelector"):
            return RayJobPlan(status_of(job))
        return RayJobPlan(status_of(job), create_cluster=ray_cluster(job), wait_s=_deadline(job, now))
    status = {**status_of(job), "rayClusterStatus": status_of(cluster)}
    if not is_cluster_ready(cluster):
        return RayJobPlan(status, wait_s=_deadline(job, now))
    status["dashboardURL"] = f"{head_address(cluster)}:8265"
    if mode_of(job) == "InteractiveMode":
        return RayJobPlan({**status, "jobDeploymentStatus": "Waiting", "jobStatus": ""}, wait_s=_deadline(job, now))
    wanted = submitter_job(job, cluster, settings) if submitter is None else None
    status = {**status, "jobDeploymentStatus": "Running", "jobStatus": "PENDING"}
    return RayJobPlan(status, create_submitter=wanted, wait_s=_deadline(job, now))


def _deadline(job: Obj, now: float) -> float | None:
    limits = [
        spec_of(job)[name]
        for name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds")
        if spec_of(job).get(name) is not None
    ]
    started = status_of(job).get("startTime")
    if not limits or not started:
        return None
    return max(0.0, parse_time(started) + float(min(limits)) - now)


def _overdue(job: Obj, now: float, field_name: str, reason: str) -> RayJobPlan | None:
    for name, why in ((field_name, reason), ("activeDeadlineSeconds", "DeadlineExceeded")):
        limit, started = spec_of(job).get(name), status_of(job).get("startTime")
        if limit is not None and started and parse_time(started) + float(limit) <= now:
            text = f"The RayJob has passed the {name}. StartTime: {started}. {name}: {limit}"
            status = _moved(job, "Failed", reason=why, message=text, endTime=format_time(now))
            return RayJobPlan(_counted(job, status), events=(("Warning", why, text),))
    return None


def _watch(job: Obj, cluster: Obj | None, submitter: Obj | None, now: float) -> RayJobPlan:
    late = _overdue(job, now, "activeDeadlineSeconds", "DeadlineExceeded")
    if late is not None:
        return late
    status = dict(status_of(job))
    if cluster is not None:
        status["rayClusterStatus"] = status_of(cluster)
    end = finish_of(submitter) if submitter is not None else None
    if end is None:
        running = submitter is not None and int(status_of(submitter).get("ready") or 0) > 0
        if running:
            status["jobStatus"] = "RUNNING"
        return RayJobPlan(status, wait_s=_deadline(job, now))
    if end["type"] == "Complete":
        status |= {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "message": "Job finished successfully."}
        status["succeeded"] = int(status.get("succeeded") or 0) + 1
        return RayJobPlan({**status, "endTime": end["lastTransitionTime"]})
    text = str(end.get("message") or "")
    status |= {"jobStatus": "FAILED", "reason": "AppFailed", "message": text, "endTime": end["lastTransitionTime"]}
    status["jobDeploymentStatus"] = "Failed"
    return RayJobPlan(_counted(job, status), events=(("Warning", "AppFailed", text),))


def _counted(job: Obj, status: Obj) -> Obj:
    """A failure counts; while attempts are left the job tries again with a new cluster."""
    failed = int(status.get("failed") or 0) + 1
    limit = int(spec_of(job).get("backoffLimit") or 0)
    retry = failed <= limit and status.get("reason") != "DeadlineExceeded"
    return {**status, "failed": failed, **({"jobDeploymentStatus": "Retrying"} if retry else {})}


def _after(job: Obj, cluster: Obj | None, submitter: Obj | None, now: float) -> RayJobPlan:
    """A finished job gives its cluster back after a while, if it was asked to."""
    spec, status = spec_of(job), status_of(job)
    if not spec.get("shutdownAfterJobFinishes") or cluster is None or spec.get("clusterSelector"):
        return RayJobPlan(status)
    end = status.get("endTime")
    left = parse_time(end) + float(spec.get("ttlSecondsAfterFinished") or 0) - now if end else 0.0
    if left > 0:
        return RayJobPlan(status, wait_s=left)
    return RayJobPlan(status, delete_cluster=True)


# Children


def _labels(job: Obj) -> dict[str, str]:
    return {ORIGIN_NAME: name_of(job), ORIGIN_KIND: "RayJob"}


def _owner(job: Obj) -> Obj:
    return owner_ref({"apiVersion": RAY_JOBS.api_version, "kind": "RayJob", **job})


def ray_cluster(job: Obj) -> Obj:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": status_of(job)["rayClusterName"],
            "namespace": namespace_of(job),
            "labels": _labels(job),
            "ownerReferences": [_owner(job)],
        },
        "spec": spec_of(job).get("rayClusterSpec") or {},
    }


SUBMIT = """\
tries=0
until ray job status {at} "$RAY_JOB_SUBMISSION_ID" > /dev/null 2>&1 || {submit}; do
  tries=$((tries + 1)); test $tries -lt 60 || exit 1; sleep 2
done
ray job logs {at} --follow "$RAY_JOB_SUBMISSION_ID"
ray job status {at} "$RAY_JOB_SUBMISSION_ID" | tee /dev/stderr | grep -qi succeeded
"""
"""Agents of a young cluster may not be up yet, so submitting is tried again; a job that is there is not submitted twice."""


def submit_command(job: Obj, settings: RaySettings) -> str:
    """The shell command that hands the entry point to the cluster and waits for its end."""
    spec, entry = spec_of(job), str(spec_of(job).get("entrypoint") or "")
    if not settings.real:
        return entry
    at = '--address "http://$RAY_DASHBOARD_ADDRESS"'
    words = ["ray", "job", "submit", at, "--no-wait", "--submission-id", '"$RAY_JOB_SUBMISSION_ID"']
    options = {"--entrypoint-num-cpus": "entrypointNumCpus", "--entrypoint-num-gpus": "entrypointNumGpus"}
    for option, name in options.items():
        if spec.get(name):
            words += [option, str(spec[name])]
    if spec.get("entrypointResources"):
        words += ["--entrypoint-resources", shlex.quote(str(spec["entrypointResources"]))]
    return SUBMIT.format(at=at, submit=" ".join([*words, "--", entry]))


def submitter_job(job: Obj, cluster: Obj, settings: RaySettings) -> Obj:
    """The Job that submits; its pod follows the job to its end and ends alike."""
    template = spec_of(job).get("submitterPodTemplate") or _default_template(cluster)
    pod_spec = dict(template.get("spec") or {})
    containers = [dict(container) for container in pod_spec.get("containers") or ()]
    first = containers[0]
    if not first.get("command") and not first.get("args"):
        first["command"], first["args"] = ["/bin/bash", "-c", "--"], [submit_command(job, settings)]
    first["env"] = [
        *(first.get("env") or ()),
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": str(f"{head_address(cluster)}:8265")},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": str(status_of(job).get("jobId") or "")},
    ]
    pod_spec["containers"] = containers
    pod_spec.setdefault("restartPolicy", "Never")
    metadata = template.get("metadata") or {}
    limit = (spec_of(job).get("submitterConfig") or {}).get("backoffLimit")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_of(job),
            "namespace": namespace_of(job),
            "labels": _labels(job),
            "ownerReferences": [_owner(job)],
        },
        "spec": {
            # Running the entry point twice because its submitter failed would be wrong where both are one.
            "backoffLimit": int(limit) if limit is not None else (2 if settings.real else 0),
            "template": {
                **template,
                "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **_labels(job)}},
                "spec": pod_spec,
            },
        },
    }


def _default_template(cluster: Obj) -> Obj:
    head = ((spec_of(cluster).get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}
    image = (head.get("containers") or [{}])[0].get("image", "")
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
    container = {"name": "ray-job-submitter", "image": image, "resources": resources}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}
