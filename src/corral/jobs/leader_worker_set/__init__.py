"""leaderworkerset.x-k8s.io: groups of one leader and its workers."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="leaderworkerset",
    kinds="corral.jobs.leader_worker_set.kind:KINDS",
    adapters={"leaderworkerset.x-k8s.io/leaderworkerset": "corral.jobs.leader_worker_set.adapter:LeaderWorkerSetJob"},
    sets={"leaderworkerset.x-k8s.io/leaderworkerset": "corral.jobs.leader_worker_set.queued_set:QueuedLeaderWorkerSet"},
    operators="corral.jobs.leader_worker_set.operator:operators",
    identity="corral.jobs.leader_worker_set.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="lws-system",
        deployment="lws-controller-manager",
        labels={"control-plane": "controller-manager"},
        webhook_service="lws-webhook-service",
    ),
    admission="corral.jobs.leader_worker_set.admission:plugins",
)
