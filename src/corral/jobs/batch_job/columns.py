"""Printed columns of Jobs and CronJobs."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.kinds.kubernetes.apps.columns import CONTAINERS, IMAGES, SELECTOR
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import (  # fmt: skip
    AGE,
    NAME,
    NONE,
    container_images,
    container_names,
    count,
    format_selector,
    human_duration,
    since,
    text,
)


def _status(job: Obj, now: float) -> Cell:
    for terminal in ("Complete", "Failed"):
        if conditions.is_true(job, terminal):
            return terminal
    if is_deleting(job):
        return "Terminating"
    for interim in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if conditions.is_true(job, interim):
            return interim
    if spec_of(job).get("suspend") and not status_of(job).get("active"):
        return "Suspended"  # a Job of another controller has nobody who sets the condition while it waits
    return "Running"


def _completions(job: Obj, now: float) -> Cell:
    succeeded, spec = status_of(job).get("succeeded") or 0, spec_of(job)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Obj, now: float) -> Cell:
    status = status_of(job)
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return human_duration((parse_time(end) if end else now) - parse_time(start))


JOB = (
    NAME,
    Column("Status", cell=_status),
    Column("Completions", cell=_completions),
    Column("Duration", cell=_duration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def _job_spec(cron_job: Obj) -> Obj:
    return (spec_of(cron_job).get("jobTemplate") or {}).get("spec") or {}


def _pod_spec(cron_job: Obj) -> Obj:
    return (_job_spec(cron_job).get("template") or {}).get("spec") or {}


def _suspend(cron_job: Obj, now: float) -> Cell:
    suspend = spec_of(cron_job).get("suspend")
    return "<unset>" if suspend is None else str(bool(suspend))


def _last_schedule(cron_job: Obj, now: float) -> Cell:
    last = status_of(cron_job).get("lastScheduleTime")
    return since(last, now) if last else NONE


CRON_JOB = (
    NAME,
    Column("Schedule", cell=text(".spec.schedule")),
    Column("Timezone", cell=text(".spec.timeZone", NONE)),
    Column("Suspend", type="boolean", cell=_suspend),
    Column("Active", type="integer", cell=count(".status.active")),
    Column("Last Schedule", cell=_last_schedule),
    AGE,
    Column("Containers", priority=1, cell=lambda obj, now: container_names(_pod_spec(obj))),
    Column("Images", priority=1, cell=lambda obj, now: container_images(_pod_spec(obj))),
    Column("Selector", priority=1, cell=lambda obj, now: format_selector(_job_spec(obj).get("selector"))),
)
