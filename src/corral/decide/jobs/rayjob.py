"""A RayJob's life: a cluster of its own, an entry point submitted to it, and what is left afterwards.

'' -> Initializing -> Running -> Complete | Failed
Initializing, Running -> Suspending -> Suspended -> ''        Failed -> Retrying -> ''

Who hands the entry point to the cluster is the submission mode: a Job of its own (K8sJobMode), a container in the head's
pod (SidecarMode), the operator (HTTPMode), or the user (InteractiveMode). Where Ray is not installed nobody can be handed
anything; then the submitting container runs the entry point itself, and HTTPMode has such a container in the head's pod.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import yaml

from corral.core.meta import Obj, generation_of, is_deleting, name_of, namespace_of, owner_ref, spec_of, status_of
from corral.core.timestamps import format_time, parse_time
from corral.decide.jobs.job import finish_of
from corral.decide.jobs.raycluster import KEEP_HEAD, RaySettings, head_address, is_cluster_ready
from corral.kinds.ray import GROUP, RAY_JOBS, job_errors

FINALIZER = "ray.io/rayjob-finalizer"
ORIGIN_NAME = "ray.io/originated-from-cr-name"
ORIGIN_KIND = "ray.io/originated-from-crd"
MODE = "ray.io/rayjob-submission-mode"
SUBMITTER = "ray-job-submitter"
TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
POLL_S = 3.0
CHECK_TIMEOUT_S = 300.0
SUBMITTER_TIMEOUT_S = 30.0
"""How long after its submitter a job may end."""

Event = tuple[str, str, str]


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
class Submission:
    """How far the submitting pod or container has come."""

    running: bool = False
    ended_at: str = ""
    failed: bool = False
    message: str = ""


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


def asks_dashboard(job: Obj, settings: RaySettings) -> bool:
    return settings.real and state_of(job) == "Running" and bool(status_of(job).get("jobId"))


def state_of(job: Obj) -> str:
    return str(status_of(job).get("jobDeploymentStatus") or "")


def plan_ray_job(look: RayJobLook, suffix: Callable[[], str]) -> RayJobPlan:
    """The next step of a RayJob. `suffix` makes up the random end of a new name."""
    job, cluster, submitter, now = look.job, look.cluster, look.submitter, look.now
    state = state_of(job)
    if state == "":
        return _begin(job, now, suffix)
    if state in ("Initializing", "Running") and spec_of(job).get("suspend"):
        return RayJobPlan(_moved(job, "Suspending"))
    if state in ("Suspending", "Retrying"):
        return _clear(job, cluster, submitter)
    if state == "Suspended":
        return RayJobPlan(status_of(job)) if spec_of(job).get("suspend") else RayJobPlan(_moved(job, ""))
    if state == "Initializing":
        return _initialize(look)
    if state == "Waiting":
        return _await_user(job, now)
    if state == "Running":
        return _watch(look)
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
        rayClusterName=cluster,
        jobStatus="",
        startTime=format_time(now),
    )
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
    job, cluster, now, settings = look.job, look.cluster, look.now, look.settings
    late = _overdue(job, now, "preRunningDeadlineSeconds", "PreRunningDeadlineExceeded")
    if late is not None:
        return late
    if cluster is None:
        if spec_of(job).get("clusterSelector"):
            return RayJobPlan(status_of(job))
        return RayJobPlan(status_of(job), create_cluster=ray_cluster(job, settings), wait_s=_deadline(job, now))
    status = {**status_of(job), "rayClusterStatus": status_of(cluster)}
    # A submitter beside the head may be done before the head was ever ready; it is not ready afterwards.
    done = look.head is not None and submits_from_head(job, settings) and bool(submission_of(look).ended_at)
    if not is_cluster_ready(cluster) and not done:
        return RayJobPlan(status, wait_s=_deadline(job, now))
    status["dashboardURL"] = f"{head_address(cluster)}:8265"
    if mode_of(job) == "InteractiveMode":
        return RayJobPlan({**status, "jobDeploymentStatus": "Waiting", "jobStatus": ""}, wait_s=_deadline(job, now))
    wanted = None
    if mode_of(job) == "K8sJobMode" and look.submitter is None:
        wanted = submitter_job(job, cluster, settings)
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


def _await_user(job: Obj, now: float) -> RayJobPlan:
    """An interactive job goes on when its user has submitted one and said which."""
    late = _overdue(job, now, "preRunningDeadlineSeconds", "PreRunningDeadlineExceeded")
    if late is not None:
        return late
    told = spec_of(job).get("jobId")
    if not told:
        return RayJobPlan(status_of(job), wait_s=_deadline(job, now))
    return RayJobPlan(_moved(job, "Running", jobId=told))


def submission_of(look: RayJobLook) -> Submission:
    """Where the submitting Job or container stands."""
    if submits_from_head(look.job, look.settings):
        return _sidecar_submission(look)
    if look.submitter is None:
        return Submission()
    end = finish_of(look.submitter)
    if end is None:
        return Submission(running=int(status_of(look.submitter).get("ready") or 0) > 0)
    failed = end["type"] != "Complete"
    return Submission(False, str(end["lastTransitionTime"]), failed, str(end.get("message") or ""))


def _sidecar_submission(look: RayJobLook) -> Submission:
    if look.head is None or is_deleting(look.head):
        return Submission(ended_at=format_time(look.now), failed=True, message="Ray head pod not found.")
    entries = status_of(look.head).get("containerStatuses") or ()
    state = next((entry.get("state") or {} for entry in entries if entry.get("name") == SUBMITTER), {})
    ended = state.get("terminated")
    if ended is None:
        return Submission(running="running" in state)
    failed = int(ended.get("exitCode") or 0) != 0
    text = f"Ray head pod container {SUBMITTER} terminated with exit code {ended.get('exitCode')}"
    return Submission(False, str(ended.get("finishedAt") or format_time(look.now)), failed, text if failed else "")


def _watch(look: RayJobLook) -> RayJobPlan:
    job, now = look.job, look.now
    late = _overdue(job, now, "activeDeadlineSeconds", "DeadlineExceeded")
    if late is not None:
        return late
    status = dict(status_of(job))
    if look.cluster is not None:
        status["rayClusterStatus"] = status_of(look.cluster)
    if not look.settings.real:
        return _conclude(job, status, submission_of(look), now)
    info = look.answer.info if look.answer is not None else None
    status = _told(status, info)
    if mode_of(job) in ("HTTPMode", "InteractiveMode"):
        return _follow(look, status, info)
    sent = submission_of(look)
    if not sent.ended_at:
        return _poll(job, status, now)
    return _submitted(look, status, info, sent)


def _poll(job: Obj, status: Obj, now: float) -> RayJobPlan:
    left = _deadline(job, now)
    return RayJobPlan(status, wait_s=POLL_S if left is None else min(POLL_S, left))


def _told(status: Obj, info: Obj | None) -> Obj:
    """The status with what the dashboard says."""
    if info is None:
        return status
    times = {
        name: format_time(info[key] / 1000)
        for name, key in (("startTime", "start_time"), ("endTime", "end_time"))
        if info.get(key)
    }
    told = {"jobStatus": info.get("status") or "", "message": info.get("message") or ""}
    return {**status, **told, **({"rayJobInfo": times} if times else {})}


def _follow(look: RayJobLook, status: Obj, info: Obj | None) -> RayJobPlan:
    """A job that the operator submits, or somebody did, is known by the dashboard alone."""
    job, now = look.job, look.now
    if look.answer is None or look.answer.silent:
        since = status.setdefault("jobStatusCheckFailureStartTime", format_time(now))
        if parse_time(since) + CHECK_TIMEOUT_S > now:
            return _poll(job, status, now)
        text = f"The dashboard did not answer for {CHECK_TIMEOUT_S:.0f} s, since {since}"
        return _failed(job, status, "JobStatusCheckTimeoutExceeded", text, format_time(now))
    status.pop("jobStatusCheckFailureStartTime", None)
    if info is None:
        plan = _poll(job, status, now)
        return replace(plan, submit=submission_request(job)) if mode_of(job) == "HTTPMode" else plan
    if info.get("status") not in TERMINAL:
        return _poll(job, status, now)
    return _ended(job, status, info, format_time(now))


def _submitted(look: RayJobLook, status: Obj, info: Obj | None, sent: Submission) -> RayJobPlan:
    """The submitter is done; what the dashboard says about the job decides."""
    job, now = look.job, look.now
    if info is not None and info.get("status") in TERMINAL:
        return _ended(job, status, info, sent.ended_at)
    if sent.failed:
        return _failed(job, status, "SubmissionFailed", sent.message, sent.ended_at)
    if look.answer is not None and not look.answer.silent and info is None:
        text = "Submitter completed but Ray job not found in RayCluster."
        return _failed(job, status, "AppFailed", text, sent.ended_at)
    if parse_time(sent.ended_at) + SUBMITTER_TIMEOUT_S > now:
        return _poll(job, status, now)
    text = (
        f"The RayJob submitter finished at {sent.ended_at} but the ray job did not reach terminal state "
        f"within {SUBMITTER_TIMEOUT_S:.0f}s"
    )
    status = {**status, "jobStatus": "FAILED"}
    return _failed(job, status, "JobDeploymentStatusTransitionGracePeriodExceeded", text, format_time(now))


def _ended(job: Obj, status: Obj, info: Obj, at: str) -> RayJobPlan:
    if info["status"] == "FAILED":
        return _failed(job, status, "AppFailed", str(info.get("message") or ""), at)
    status |= {"jobDeploymentStatus": "Complete", "endTime": at}
    status["succeeded"] = int(status.get("succeeded") or 0) + (info["status"] == "SUCCEEDED")
    return RayJobPlan(status)


def _conclude(job: Obj, status: Obj, sent: Submission, now: float) -> RayJobPlan:
    """Without Ray the submitting container runs the entry point, and its end is the job's."""
    if not sent.ended_at:
        if sent.running:
            status["jobStatus"] = "RUNNING"
        return RayJobPlan(status, wait_s=_deadline(job, now))
    if sent.failed:
        return _failed(job, {**status, "jobStatus": "FAILED"}, "AppFailed", sent.message, sent.ended_at)
    info = {"status": "SUCCEEDED"}
    return _ended(
        job, {**status, "jobStatus": "SUCCEEDED", "message": "Job finished successfully."}, info, sent.ended_at
    )


def _failed(job: Obj, status: Obj, reason: str, text: str, at: str) -> RayJobPlan:
    status = {**status, "jobDeploymentStatus": "Failed", "reason": reason, "message": text, "endTime": at}
    return RayJobPlan(_counted(job, status), events=(("Warning", reason, text),))


def _counted(job: Obj, status: Obj) -> Obj:
    """A failure counts; while attempts are left the job tries again with a new cluster."""
    failed = int(status.get("failed") or 0) + 1
    limit = int(spec_of(job).get("backoffLimit") or 0)
    retry = failed <= limit and status.get("reason") != "DeadlineExceeded"
    return {**status, "failed": failed, **({"jobDeploymentStatus": "Retrying"} if retry else {})}


IMPACT = ("DeleteSelf", "DeleteCluster", "DeleteWorkers")
"""Of several deletions that are due the first of these is carried out."""


def _deletions(job: Obj) -> list[tuple[str, float]]:
    """What is to be deleted after this end of the job, and how long after it."""
    strategy, status = spec_of(job).get("deletionStrategy") or {}, status_of(job)
    if strategy.get("deletionRules"):
        found = []
        for rule in strategy["deletionRules"]:
            condition = rule.get("condition") or {}
            wanted = [(name, condition[name]) for name in ("jobStatus", "jobDeploymentStatus") if condition.get(name)]
            if wanted and all(status.get(name) == value for name, value in wanted):
                found.append((str(rule.get("policy")), float(condition.get("ttlSeconds") or 0)))
        return found
    place = {"SUCCEEDED": "onSuccess", "FAILED": "onFailure"}.get(str(status.get("jobStatus")), "")
    policy = (strategy.get(place) or {}).get("policy")
    return [(str(policy), float(spec_of(job).get("ttlSecondsAfterFinished") or 0))] if policy else []


def _clean_up(job: Obj, cluster: Obj | None, now: float) -> RayJobPlan:
    """Carry out a deletion strategy: the deletion that is due and goes furthest, then wait for the next."""
    status = status_of(job)
    end = parse_time(status["endTime"]) if status.get("endTime") else now
    due = [policy for policy, after in _deletions(job) if end + after <= now]
    waits = [end + after - now for _, after in _deletions(job) if end + after > now]
    worst = next((policy for policy in IMPACT if policy in due), "")
    groups = spec_of(cluster).get("workerGroupSpecs") or () if cluster is not None else ()
    return RayJobPlan(
        status,
        delete_job=worst == "DeleteSelf",
        delete_cluster=worst == "DeleteCluster" and cluster is not None,
        suspend_workers=worst == "DeleteWorkers" and any(not group.get("suspend") for group in groups),
        wait_s=min(waits, default=None),
    )


def _after(job: Obj, cluster: Obj | None, submitter: Obj | None, now: float) -> RayJobPlan:
    """A finished job gives its cluster back after a while, if it was asked to."""
    spec, status = spec_of(job), status_of(job)
    if spec.get("deletionStrategy") and not spec.get("clusterSelector"):
        return _clean_up(job, cluster, now)
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


def ray_cluster(job: Obj, settings: RaySettings) -> Obj:
    """The cluster of a job; with a submitter beside its head where the mode asks for one."""
    spec = spec_of(job).get("rayClusterSpec") or {}
    cluster: Obj = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": status_of(job)["rayClusterName"],
            "namespace": namespace_of(job),
            "labels": {**_labels(job), MODE: mode_of(job)},
            "ownerReferences": [_owner(job)],
        },
        "spec": spec,
    }
    if submits_from_head(job, settings):
        group = spec.get("headGroupSpec") or {}
        template = group.get("template") or {}
        pod = template.get("spec") or {}
        cluster["metadata"]["annotations"] = {KEEP_HEAD: "true"}
        sidecar = _submitting(job, cluster, _default_container(cluster), settings)
        pod = {**pod, "containers": [*(pod.get("containers") or ()), sidecar], "restartPolicy": "Never"}
        cluster["spec"] = {**spec, "headGroupSpec": {**group, "template": {**template, "spec": pod}}}
    return cluster


def submission_request(job: Obj) -> Obj:
    """The body that submits the job to the dashboard."""
    spec = spec_of(job)
    body = {
        "entrypoint": spec.get("entrypoint") or "",
        "submission_id": status_of(job).get("jobId"),
        "runtime_env": _runtime_env(spec),
        "metadata": spec.get("metadata"),
        "entrypoint_num_cpus": spec.get("entrypointNumCpus"),
        "entrypoint_num_gpus": spec.get("entrypointNumGpus"),
        "entrypoint_resources": json.loads(spec["entrypointResources"]) if spec.get("entrypointResources") else None,
    }
    return {name: value for name, value in body.items() if value not in (None, {})}


def _runtime_env(spec: Obj) -> Obj:
    loaded = yaml.safe_load(spec.get("runtimeEnvYAML") or "")
    return loaded if isinstance(loaded, dict) else {}


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
    if _runtime_env(spec):
        words += ["--runtime-env-json", shlex.quote(json.dumps(_runtime_env(spec)))]
    if spec.get("metadata"):
        words += ["--metadata-json", shlex.quote(json.dumps(spec["metadata"]))]
    return SUBMIT.format(at=at, submit=" ".join([*words, "--", entry]))


def submitter_job(job: Obj, cluster: Obj, settings: RaySettings) -> Obj:
    """The Job that submits; its pod follows the job to its end and ends alike."""
    template = spec_of(job).get("submitterPodTemplate") or _default_template(cluster)
    pod_spec = dict(template.get("spec") or {})
    containers = [dict(container) for container in pod_spec.get("containers") or ()]
    containers[0] = _submitting(job, cluster, containers[0], settings)
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


def _submitting(job: Obj, cluster: Obj, container: Obj, settings: RaySettings) -> Obj:
    """A container that submits, unless it has a command of its own."""
    command = {}
    if not container.get("command") and not container.get("args"):
        command = {"command": ["/bin/bash", "-c", "--"], "args": [submit_command(job, settings)]}
    env = [
        *(container.get("env") or ()),
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": f"{head_address(cluster)}:8265"},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": str(status_of(job).get("jobId") or "")},
    ]
    return {**container, **command, "env": env}


def _default_container(cluster: Obj) -> Obj:
    head = ((spec_of(cluster).get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}
    image = (head.get("containers") or [{}])[0].get("image", "")
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
    return {"name": SUBMITTER, "image": image, "resources": resources}


def _default_template(cluster: Obj) -> Obj:
    return {"spec": {"containers": [_default_container(cluster)], "restartPolicy": "Never"}}
