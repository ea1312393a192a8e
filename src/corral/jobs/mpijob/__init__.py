"""MPIJob of kubeflow.org: a launcher and workers that trust each other."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="mpijob",
    kinds="corral.jobs.mpijob.kind:KINDS",
    adapters={"kubeflow.org/mpijob": "corral.jobs.mpijob.adapter:MpiJob"},
    operators="corral.jobs.mpijob.operator:operators",
    identity="corral.jobs.mpijob.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="mpi-operator",
        deployment="mpi-operator",
        labels={"app": "mpi-operator"},
        container="mpi-operator",
    ),
    admission="corral.jobs.mpijob.admission:plugins",
    features={"JobManagedBy": True},
    submissions={"mpi": "corral.jobs.mpijob.submission:mpi"},
)
