"""How a JobSet ends, or begins again: its success and failure policies, and what is left of it afterwards."""

from __future__ import annotations

from corral.core import regex
from corral.core.conditions import condition
from corral.core.meta import (
    Obj,
    labels_of,
    name_of,
    spec_of,
)
from corral.core.timestamps import parse_time
from corral.jobs.batch_job.plan import finish_of
from corral.jobs.jobset.children import REPLICATED_JOB, replicas_of, replicated_jobs
from corral.jobs.jobset.plan_values import JobSetPlan
from corral.jobs.jobset.status import Children, live, put


def ended(job_set: Obj, children: Children, status: Obj, end: Obj, now: float) -> JobSetPlan:
    """A JobSet that ended keeps its finished Jobs, until its time is up."""
    leftovers = tuple(live([*children.active, *children.outdated]))
    ttl = spec_of(job_set).get("ttlSecondsAfterFinished")
    if ttl is None:
        return JobSetPlan(status, delete=leftovers)
    left = parse_time(end["lastTransitionTime"]) + float(ttl) - now
    return JobSetPlan(status, delete=leftovers, expire=left <= 0, wait_s=max(left, 0.0) or None)


def _failed_at(job: Obj) -> tuple[str, str]:
    end = finish_of(job)
    return (str(end["lastTransitionTime"]) if end else "", name_of(job))


def after_failure(job_set: Obj, children: Children, status: Obj, now: float) -> JobSetPlan:
    """What the failure policy makes of the first Job that failed."""
    policy = spec_of(job_set).get("failurePolicy")
    first = min(children.failed, key=_failed_at)
    if policy is None:
        text = f"jobset failed due to one or more job failures (first failed job: {name_of(first)})"
        return _fail(children, status, "FailedJobs", text, now)
    rule = next((entry for entry in policy.get("rules") or () if _applies(entry, first)), None)
    action = str(rule["action"]) if rule else "RestartJobSet"
    if action == "FailJobSet":
        text = f"jobset failed due to FailJobSet failure policy action (first failed job: {name_of(first)})"
        return _fail(children, status, "FailJobSetFailurePolicyAction", text, now)
    counts = not action.endswith("IgnoreMaxRestarts")
    used = int(status.get("restartsCountTowardsMax") or 0)
    if counts and used >= int(policy.get("maxRestarts") or 0):
        text = f"jobset failed due to reaching max number of restarts (first failed job: {name_of(first)})"
        return _fail(children, status, "ReachedMaxRestarts", text, now)
    if counts:
        status["restartsCountTowardsMax"] = used + 1
    if action.startswith("RestartJobSet"):
        return _restart(children, status, rule, action, first, now)
    # Only the failed Jobs are made anew; the others keep running.
    text = f"restarting job {name_of(first)} due to {action} failure policy action"
    event = ("Warning", f"{action}FailurePolicyAction", text)
    return JobSetPlan(status, delete=(first, *live(children.outdated)), events=(event,))


def _restart(children: Children, status: Obj, rule: Obj | None, action: str, first: Obj, now: float) -> JobSetPlan:
    status["restarts"] = int(status.get("restarts") or 0) + 1
    reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
    text = f"restarting jobset due to {action} failure policy action (first failed job: {name_of(first)})"
    status = put(status, condition("RestartingJobSet", True, reason, text), now)
    everything = (*children.active, *children.succeeded, *children.failed, *live(children.outdated))
    return JobSetPlan(status, delete=everything, events=(("Warning", f"{action}FailurePolicyAction", text),))


def _fail(children: Children, status: Obj, reason: str, text: str, now: float) -> JobSetPlan:
    status = put(status, condition("RestartingJobSet", False, "JobSetFailed", "jobset failed"), now)
    status = put(status, condition("Failed", True, reason, text), now)
    status["terminalState"] = "Failed"
    return JobSetPlan(status, delete=tuple(live(children.outdated)), events=(("Warning", reason, text),))


def _applies(rule: Obj, job: Obj) -> bool:
    """Whether a failure rule speaks about this failed Job: its target, its reason and its message."""
    end = finish_of(job) or {}
    targets = rule.get("targetReplicatedJobs") or ()
    reasons = rule.get("onJobFailureReasons") or ()
    patterns = rule.get("onJobFailureMessagePatterns") or ()
    return (
        (not targets or labels_of(job).get(REPLICATED_JOB) in targets)
        and (not reasons or end.get("reason") in reasons)
        and (not patterns or any(_matches(pattern, str(end.get("message") or "")) for pattern in patterns))
    )


def _matches(pattern: str, message: str) -> bool:
    """Whether a failure message matches; a pattern that would be refused today, but is stored, matches nothing."""
    try:
        return regex.search(pattern, message)
    except regex.RegexError:
        return False


def succeed(children: Children, status: Obj, now: float) -> JobSetPlan:
    reason, text = "AllJobsCompleted", "jobset completed successfully"
    status = put(status, condition("Completed", True, reason, text), now)
    status["terminalState"] = "Completed"
    return JobSetPlan(status, delete=tuple(live(children.outdated)), events=(("Normal", reason, text),))


def has_succeeded(job_set: Obj, children: Children) -> bool:
    policy = spec_of(job_set).get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [entry["name"] for entry in replicated_jobs(job_set)]
    done = sum(labels_of(job).get(REPLICATED_JOB) in targets for job in children.succeeded)
    if policy.get("operator") == "Any":
        return done > 0
    total = sum(replicas_of(entry) for entry in replicated_jobs(job_set) if entry["name"] in targets)
    return total > 0 and done >= total
