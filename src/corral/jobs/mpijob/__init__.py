"""MPIJob of kubeflow.org: a launcher and workers that trust each other."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="mpijob",
    kinds="corral.jobs.mpijob.kind:KINDS",
    adapters={"kubeflow.org/mpijob": "corral.jobs.mpijob.adapter:MpiJob"},
    operators="corral.jobs.mpijob.operator:operators",
    admission="corral.jobs.mpijob.admission:plugins",
)
