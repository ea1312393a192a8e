"""ray.io: RayCluster, RayJob and RayService."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="ray",
    kinds="corral.jobs.ray.kind:KINDS",
    adapters={
        "ray.io/rayjob": "corral.jobs.ray.adapter:RayJob",
        "ray.io/raycluster": "corral.jobs.ray.adapter:RayCluster",
        "ray.io/rayservice": "corral.jobs.ray.adapter:RayService",
    },
    operators="corral.jobs.ray.operator:operators",
    identity="corral.jobs.ray.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="default",
        deployment="kuberay-operator",
        labels={"app.kubernetes.io/component": "kuberay-operator"},
        container="kuberay-operator",
        replicas=0,
    ),
    options=("ray",),
    submissions={"ray": "corral.jobs.ray.submission:ray"},
)
