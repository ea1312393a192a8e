"""What a CronJob does now: which Job it starts, which it gives up, which finished ones it forgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.meta import (
    Obj,
    is_deleting,
    metadata_of,
    name_of,
    namespace_of,
    owner_ref,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.timestamps import format_time, parse_time
from corral.decide.pods.facts import created_at
from corral.jobs.batch_job.cron_schedule import Schedule, latest_due
from corral.jobs.batch_job.plan import finish_of

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED = 100


@dataclass(frozen=True, slots=True)
class CronPlan:
    """What to do about a CronJob's Jobs."""

    start: Obj | None = None
    replace: tuple[Obj, ...] = ()
    """Running Jobs to delete before the new one starts."""
    forget: tuple[Obj, ...] = ()
    """Finished Jobs beyond the history limits."""
    status: Obj | None = None
    due_time: float | None = None
    wait_s: float | None = None
    events: tuple[tuple[str, str, str], ...] = ()


def reference(job: Obj) -> Obj:
    """How `status.active` names a running Job."""
    return {
        "kind": "Job",
        "namespace": namespace_of(job),
        "name": name_of(job),
        "uid": uid_of(job),
        "apiVersion": "batch/v1",
        "resourceVersion": resource_version_of(job),
    }


def job_name(cron_job: Obj, due: float) -> str:
    return f"{name_of(cron_job)}-{int(due) // 60}"


def new_job(cron_job: Obj, due: float) -> Obj:
    """The Job of one due time; its name makes a second one for the same time impossible."""
    template = spec_of(cron_job).get("jobTemplate") or {}
    metadata = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), SCHEDULED_AT: format_time(due)}
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", **cron_job}
    body: Obj = {
        "name": job_name(cron_job, due),
        "namespace": namespace_of(cron_job),
        "annotations": annotations,
        "ownerReferences": [owner_ref(owner)],
    }
    if metadata.get("labels"):
        body["labels"] = metadata["labels"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": body, "spec": template.get("spec") or {}}


def plan_cron(cron_job: Obj, jobs: Sequence[Obj], schedule: Schedule, now: float) -> CronPlan:
    """The next step of a CronJob that owns `jobs`."""
    spec = spec_of(cron_job)
    running = [job for job in jobs if finish_of(job) is None]
    status, events = _account(cron_job, jobs, running)
    forget = tuple(_forgettable(cron_job, jobs))
    if is_deleting(cron_job) or spec.get("suspend"):
        return CronPlan(forget=forget, status=status, events=events)
    due, missed = latest_due(schedule, _earliest(cron_job, now), now)
    next_due = schedule.next_after(now)
    wait_s = None if next_due is None else next_due - now
    if missed > MANY_MISSED:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        events = (*events, ("Warning", "TooManyMissedTimes", text))
    plan = CronPlan(forget=forget, status=status, wait_s=wait_s, events=events)
    if due is None or any(name_of(job) == job_name(cron_job, due) for job in jobs):
        return plan
    if (last := status_of(cron_job).get("lastScheduleTime")) and parse_time(last) >= due:
        return plan
    return _start(cron_job, running, due, plan, now)


def _start(cron_job: Obj, running: Sequence[Obj], due: float, plan: CronPlan, now: float) -> CronPlan:
    spec = spec_of(cron_job)
    policy = spec.get("concurrencyPolicy", "Allow")
    replace: tuple[Obj, ...] = ()
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and due + float(deadline) < now:
        text = f"Missed scheduled time to start a job: {format_time(due)}"
        return _with(plan, events=(*plan.events, ("Warning", "MissSchedule", text)))
    if policy == "Forbid" and running:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return _with(plan, events=(*plan.events, ("Normal", "JobAlreadyActive", text)))
    if policy == "Replace":
        replace = tuple(running)
    return _with(plan, start=new_job(cron_job, due), replace=replace, due_time=due)


def _with(plan: CronPlan, **changes: object) -> CronPlan:
    values = {name: getattr(plan, name) for name in plan.__slots__}
    return CronPlan(**{**values, **changes})


def _earliest(cron_job: Obj, now: float) -> float:
    """After which time due times count: the last start, or the creation; never before the starting deadline."""
    spec, last = spec_of(cron_job), status_of(cron_job).get("lastScheduleTime")
    earliest = parse_time(last) if last else parse_time(metadata_of(cron_job)["creationTimestamp"])
    deadline = spec.get("startingDeadlineSeconds")
    return max(earliest, now - float(deadline)) if deadline is not None else earliest


def _account(
    cron_job: Obj, jobs: Sequence[Obj], running: Sequence[Obj]
) -> tuple[Obj, tuple[tuple[str, str, str], ...]]:
    """The status as the Jobs show it, and what became of the Jobs it named as active."""
    old = status_of(cron_job)
    by_uid = {uid_of(job): job for job in jobs}
    events = []
    active = []
    for entry in old.get("active") or ():
        job = by_uid.get(entry.get("uid"))
        if job is None:
            events.append(("Normal", "MissingJob", f"Active job went missing: {entry.get('name')}"))
        elif (finish := finish_of(job)) is not None:
            text = f"Saw completed job: {name_of(job)}, condition: {finish['type']}"
            events.append(("Normal", "SawCompletedJob", text))
        else:
            active.append(entry)
    known = {entry.get("uid") for entry in active}
    for job in sorted(running, key=created_at):
        if uid_of(job) not in known:
            active.append(reference(job))
    status = {name: value for name, value in old.items() if name != "active"}
    if active:
        status["active"] = active
    ends = [
        finish["lastTransitionTime"]
        for job in jobs
        if (finish := finish_of(job)) is not None and finish["type"] == "Complete"
    ]
    latest = max((*ends, old.get("lastSuccessfulTime") or ""), default="")
    if latest:
        status["lastSuccessfulTime"] = latest
    return status, tuple(events)


def _forgettable(cron_job: Obj, jobs: Sequence[Obj]) -> list[Obj]:
    """The oldest finished Jobs beyond each history limit."""
    spec = spec_of(cron_job)
    result = []
    for kind, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        limit = spec.get(field)
        kept = default if limit is None else int(limit)
        done = [job for job in jobs if (finish := finish_of(job)) is not None and finish["type"] == kind]
        done.sort(key=lambda job: (status_of(job).get("startTime") or "", name_of(job)))
        result += [job for job in done[: max(0, len(done) - kept)] if not is_deleting(job)]
    return result
