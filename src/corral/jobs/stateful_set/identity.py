"""Who runs StatefulSets in an embedded cluster, and what that takes."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PERSISTENT_VOLUME_CLAIMS, PODS

IDENTITY = controller(
    "statefulset-controller",
    service_account("statefulset-controller"),
    rights(FOLLOW, STATEFUL_SETS, PODS, CONTROLLER_REVISIONS),
    rights("create delete patch", PODS),
    rights("create delete update", CONTROLLER_REVISIONS),
    rights("create delete list", PERSISTENT_VOLUME_CLAIMS),
    rights("update", *statuses(STATEFUL_SETS)),
    role="system:controller:statefulset-controller",
)
