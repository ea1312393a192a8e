"""batch/v1: Job and CronJob."""

from __future__ import annotations

from corral.core.meta import status_of
from corral.kinds import batch_printing
from corral.kinds.builtin import kind

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
    fields={"status.successful": lambda job: str(status_of(job).get("succeeded") or 0)},
)

KINDS = (CRON_JOB, JOB)

JOBS = JOB.resource()
CRON_JOBS = CRON_JOB.resource()
