"""jobset.x-k8s.io: a JobSet is several Jobs that start, restart and end together."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="jobset",
    kinds="corral.jobs.jobset.kind:KINDS",
    adapters={"jobset.x-k8s.io/jobset": "corral.jobs.jobset.adapter:JobSet"},
    operators="corral.jobs.jobset.operator:operators",
    identity="corral.jobs.jobset.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="jobset-system",
        deployment="jobset-controller-manager",
        labels={"control-plane": "controller-manager"},
        webhook_service="jobset-webhook-service",
    ),
    admission="corral.jobs.jobset.admission:plugins",
    # JobSets may restart their containers without making pods anew.
    features={"InPlaceRestart": True},
    simulated="corral.jobs.jobset.simulated:SIMULATED",
    submissions={"jobset": "corral.jobs.jobset.submission:job_set"},
)
