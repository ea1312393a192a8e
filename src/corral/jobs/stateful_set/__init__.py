"""StatefulSets: named pods, started in order; queued through their pods."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="statefulset",
    adapters={"statefulset": "corral.jobs.stateful_set.adapter:StatefulSetJob"},
    sets={"statefulset": "corral.jobs.stateful_set.queued_set:QueuedStatefulSet"},
    operators="corral.jobs.stateful_set.operator:operators",
    identity="corral.jobs.stateful_set.identity:IDENTITY",
)
