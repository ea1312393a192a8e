"""Who runs the training jobs of Kubeflow in an embedded cluster, and what that takes."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.core.resource import Resource
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from corral.jobs.kubeflow.kind import FRAMEWORKS, GROUP
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES

_JOBS = tuple(Resource(GROUP, "v1", framework.plural, framework.kind) for framework in FRAMEWORKS)
_POD_GROUPS = (VOLCANO_POD_GROUPS, PLUGINS_POD_GROUPS)

IDENTITY = controller(
    "training-operator",
    service_account("training-operator"),
    rights(FOLLOW, *_JOBS, PODS, SERVICES, *_POD_GROUPS, PRIORITY_CLASSES),
    rights("create delete", PODS, SERVICES, HORIZONTAL_POD_AUTOSCALERS),
    rights("create delete get update", *_POD_GROUPS),
    rights("delete patch", *_JOBS),
    rights("update", *statuses(*_JOBS)),
)
