"""A RayJob that runs: how far its submitter has come, what the dashboard says, and what follows from both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.core.meta import Obj, is_deleting, status_of
from corral.core.timestamps import format_time, parse_time
from corral.jobs.batch_job.plan import finish_of
from corral.jobs.ray.cluster_plan import RaySettings
from corral.jobs.ray.job_children import SUBMITTER, submission_request
from corral.jobs.ray.job_plan_values import (
    RayJobLook,
    RayJobPlan,
    deadline,
    failed_plan,
    mode_of,
    overdue,
    state_of,
    submits_from_head,
)

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
POLL_S = 3.0
CHECK_TIMEOUT_S = 300.0
_LONGEST = 16_384
_LATEST_MS = 253_402_300_800_000
"""The end of the year 9999, the last that a timestamp can tell."""
SUBMITTER_TIMEOUT_S = 30.0
"""How long after its submitter a job may end."""


@dataclass(frozen=True, slots=True)
class Submission:
    """How far the submitting pod or container has come."""

    running: bool = False
    ended_at: str = ""
    failed: bool = False
    message: str = ""


def polls_dashboard(job: Obj, settings: RaySettings) -> bool:
    return settings.real and state_of(job) == "Running" and bool(status_of(job).get("jobId"))


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


def watch(look: RayJobLook) -> RayJobPlan:
    job, now = look.job, look.now
    late = overdue(job, now, "activeDeadlineSeconds")
    if late is not None:
        return late
    status = dict(status_of(job))
    if look.cluster is not None:
        status["rayClusterStatus"] = status_of(look.cluster)
    if not look.settings.real:
        return _conclude(job, status, submission_of(look), now)
    info = look.answer.info if look.answer is not None else None
    status = _with_report(status, info)
    if mode_of(job) in ("HTTPMode", "InteractiveMode"):
        return _follow(look, status, info)
    sent = submission_of(look)
    if not sent.ended_at:
        return _poll(job, status, now)
    return _submitted(look, status, info, sent)


def _poll(job: Obj, status: Obj, now: float) -> RayJobPlan:
    left = deadline(job, now)
    return RayJobPlan(status, wait_s=POLL_S if left is None else min(POLL_S, left))


def _text(said: object) -> str:
    """What somebody's dashboard says, as a text that an object has room for."""
    return said[:_LONGEST] if isinstance(said, str) else ""


def _with_report(status: Obj, info: Obj | None) -> Obj:
    """The status with what the dashboard says."""
    if info is None:
        return status
    times = {
        name: format_time(info[key] / 1000)
        for name, key in (("startTime", "start_time"), ("endTime", "end_time"))
        if isinstance(info.get(key), int | float) and 0 < info[key] < _LATEST_MS
    }
    reported = {"jobStatus": _text(info.get("status")), "message": _text(info.get("message"))}
    return {**status, **reported, **({"rayJobInfo": times} if times else {})}


def _follow(look: RayJobLook, status: Obj, info: Obj | None) -> RayJobPlan:
    """A job that the operator submits, or somebody did, is known by the dashboard alone."""
    job, now = look.job, look.now
    if look.answer is None or look.answer.silent:
        since = status.setdefault("jobStatusCheckFailureStartTime", format_time(now))
        if parse_time(since) + CHECK_TIMEOUT_S > now:
            return _poll(job, status, now)
        text = f"The dashboard did not answer for {CHECK_TIMEOUT_S:.0f} s, since {since}"
        return failed_plan(job, status, "JobStatusCheckTimeoutExceeded", text, format_time(now))
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
        return failed_plan(job, status, "SubmissionFailed", sent.message, sent.ended_at)
    if look.answer is not None and not look.answer.silent and info is None:
        text = "Submitter completed but Ray job not found in RayCluster."
        return failed_plan(job, status, "AppFailed", text, sent.ended_at)
    if parse_time(sent.ended_at) + SUBMITTER_TIMEOUT_S > now:
        return _poll(job, status, now)
    text = (
        f"The RayJob submitter finished at {sent.ended_at} but the ray job did not reach terminal state "
        f"within {SUBMITTER_TIMEOUT_S:.0f}s"
    )
    status = {**status, "jobStatus": "FAILED"}
    return failed_plan(job, status, "JobDeploymentStatusTransitionGracePeriodExceeded", text, format_time(now))


def _ended(job: Obj, status: Obj, info: Obj, at: str) -> RayJobPlan:
    if info["status"] == "FAILED":
        return failed_plan(job, status, "AppFailed", str(info.get("message") or ""), at)
    status |= {"jobDeploymentStatus": "Complete", "endTime": at}
    status["succeeded"] = int(status.get("succeeded") or 0) + (info["status"] == "SUCCEEDED")
    return RayJobPlan(status)


def _conclude(job: Obj, status: Obj, sent: Submission, now: float) -> RayJobPlan:
    """Without Ray the submitting container runs the entry point, and its end is the job's."""
    if not sent.ended_at:
        if sent.running:
            status["jobStatus"] = "RUNNING"
        return RayJobPlan(status, wait_s=deadline(job, now))
    if sent.failed:
        return failed_plan(job, {**status, "jobStatus": "FAILED"}, "AppFailed", sent.message, sent.ended_at)
    info = {"status": "SUCCEEDED"}
    return _ended(
        job, {**status, "jobStatus": "SUCCEEDED", "message": "Job finished successfully."}, info, sent.ended_at
    )
