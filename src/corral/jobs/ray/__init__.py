"""ray.io: RayCluster, RayJob and RayService."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="ray",
    kinds="corral.jobs.ray.kind:KINDS",
    adapters={
        "ray.io/rayjob": "corral.jobs.ray.adapter:RayJob",
        "ray.io/raycluster": "corral.jobs.ray.adapter:RayCluster",
        "ray.io/rayservice": "corral.jobs.ray.adapter:RayService",
    },
    operators="corral.jobs.ray.operator:operators",
    options=("ray",),
)
