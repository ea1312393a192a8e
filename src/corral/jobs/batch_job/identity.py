"""Who runs Jobs and CronJobs in an embedded cluster, and what that takes."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.batch_job.kind import CRON_JOBS, JOBS
from corral.kinds.kubernetes.core.kinds import PODS

IDENTITY = controller(
    "job-controller",
    service_account("job-controller"),
    rights(FOLLOW, JOBS, CRON_JOBS, PODS),
    rights("create delete get", JOBS),
    rights("create delete patch", PODS),
    rights("update", *statuses(JOBS, CRON_JOBS)),
    role="system:controller:job-controller",
)
