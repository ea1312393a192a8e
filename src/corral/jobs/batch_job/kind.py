"""batch/v1: Job and CronJob."""

from __future__ import annotations

from corral.core.meta import status_of
from corral.jobs.batch_job import columns as batch_printing
from corral.jobs.batch_job.defaults import default_cron_job, default_job, prepare_job
from corral.jobs.batch_job.rules import check_cron_job, check_cron_job_update, check_job, check_job_update, job_warnings
from corral.jobs.batch_job.status_rules import check_job_status
from corral.kinds.machinery.builtin import kind

GROUP = "batch"

CRON_JOB = kind(
    "batch.v1.CronJob",
    "cronjobs",
    group=GROUP,
    short_names=("cj",),
    categories=("all",),
    columns=batch_printing.CRON_JOB,
    status=True,
    has_generation=True,
    default=default_cron_job,
    validate=check_cron_job,
    validate_update=check_cron_job_update,
)
JOB = kind(
    "batch.v1.Job",
    "jobs",
    group=GROUP,
    categories=("all",),
    columns=batch_printing.JOB,
    status=True,
    has_generation=True,
    default_propagation="Orphan",
    default=default_job,
    prepare_create=prepare_job,
    validate=check_job,
    validate_update=check_job_update,
    validate_status=check_job_status,
    warnings=job_warnings,
    fields={"status.successful": lambda job: str(status_of(job).get("succeeded") or 0)},
)

KINDS = (CRON_JOB, JOB)

JOBS = JOB.resource()
CRON_JOBS = CRON_JOB.resource()
