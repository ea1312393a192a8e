"""Who runs JobSets in an embedded cluster, and what that takes."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.jobset.kind import JOB_SETS
from corral.kinds.kubernetes.core.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES

IDENTITY = controller(
    "jobset",
    service_account("jobset-controller-manager"),
    rights(FOLLOW, JOB_SETS, JOBS, SERVICES, PODS),
    rights("create delete update", JOBS),
    rights("create", SERVICES, PERSISTENT_VOLUME_CLAIMS),
    rights("delete", JOB_SETS),
    rights("update", *statuses(JOB_SETS, JOBS)),
)
