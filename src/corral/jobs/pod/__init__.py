"""Plain pods and groups of pods as jobs."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="pod",
    adapters={"pod": "corral.jobs.pod.adapter:PodJob"},
    sets={"deployment": "corral.jobs.pod.deployment:QueuedDeployment"},
)
