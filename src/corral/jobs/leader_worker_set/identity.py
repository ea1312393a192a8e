"""Who runs LeaderWorkerSets in an embedded cluster, and what that takes."""

from corral.core.identity import FOLLOW, controller, rights, service_account, statuses
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES

IDENTITY = controller(
    "leader-worker-set",
    service_account("lws-controller-manager"),
    rights(FOLLOW, LEADER_WORKER_SETS, STATEFUL_SETS, SERVICES, PODS, CONTROLLER_REVISIONS),
    rights("create delete update", STATEFUL_SETS, CONTROLLER_REVISIONS),
    rights("create", SERVICES),
    rights("delete", PODS),
    rights("update", *statuses(LEADER_WORKER_SETS)),
)
