"""Who runs TrainJobs in an embedded cluster, and what that takes.

Where progress is reported a TrainJob gets a Role to report on itself: nobody grants what they do not hold."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES

_POD_GROUPS = (VOLCANO_POD_GROUPS, PLUGINS_POD_GROUPS)

IDENTITY = controller(
    "trainer",
    service_account("kubeflow-trainer-controller-manager"),
    rights(FOLLOW, TRAIN_JOBS, JOB_SETS),
    rights("get", TRAIN_JOBS, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES),
    rights("create delete get patch", JOB_SETS),
    rights("create get patch", CONFIG_MAPS, *_POD_GROUPS),
    rights("create get", SECRETS),
    rights("create get patch", ROLES, ROLE_BINDINGS),
    rights("create update", *statuses(TRAIN_JOBS)),
)
