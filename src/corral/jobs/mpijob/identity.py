"""Who runs MPIJobs in an embedded cluster, and what that takes.

A v1 job's launcher gets a Role to look at pods and exec into its workers: nobody grants what they do not hold."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES

_POD_GROUPS = (VOLCANO_POD_GROUPS, PLUGINS_POD_GROUPS)

IDENTITY = controller(
    "mpi-operator",
    service_account("mpi-operator"),
    rights(FOLLOW, MPI_JOBS, PODS, SERVICES, JOBS, *_POD_GROUPS, PRIORITY_CLASSES),
    rights("create get update", CONFIG_MAPS, JOBS),
    rights("create get", SECRETS),
    rights("create delete get", PODS, SERVICES),
    rights("create get", SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS),
    rights("create", (PODS, "exec")),
    rights("create delete", HORIZONTAL_POD_AUTOSCALERS),
    rights("create delete get update", *_POD_GROUPS),
    rights("delete patch", MPI_JOBS),
    rights("update", *statuses(MPI_JOBS, JOBS)),
)
