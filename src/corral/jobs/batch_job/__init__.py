"""batch/v1: Job, and CronJob, which starts Jobs."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="batch-job",
    kinds="corral.jobs.batch_job.kind:KINDS",
    adapters={"batch/job": "corral.jobs.batch_job.adapter:BatchJob"},
    operators="corral.jobs.batch_job.operator:operators",
    identity="corral.jobs.batch_job.identity:IDENTITY",
    # The Job operator leaves Jobs of another manager alone.
    features={"JobManagedBy": True},
    submissions={"job": "corral.jobs.batch_job.submission:job"},
    simulated="corral.jobs.batch_job.simulated:SIMULATED",
)
