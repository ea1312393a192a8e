"""Who runs RayClusters, RayJobs and RayServices in an embedded cluster, and what that takes."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.ray.kind import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES

IDENTITY = controller(
    "ray",
    service_account("kuberay-operator"),
    rights(FOLLOW, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, PODS, SERVICES, JOBS),
    rights("create delete", PODS, JOBS),
    rights("create get update", SERVICES),
    rights("create delete update", RAY_CLUSTERS),
    rights("delete update", RAY_JOBS),
    rights("update", *statuses(RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES)),
)
