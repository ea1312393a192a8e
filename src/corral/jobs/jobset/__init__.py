"""jobset.x-k8s.io: a JobSet is several Jobs that start, restart and end together."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="jobset",
    kinds="corral.jobs.jobset.kind:KINDS",
    adapters={"jobset.x-k8s.io/jobset": "corral.jobs.jobset.adapter:JobSet"},
    operators="corral.jobs.jobset.operator:operators",
    admission="corral.jobs.jobset.admission:plugins",
    # JobSets may restart their containers without making pods anew.
    features={"InPlaceRestart": True},
    simulated="corral.jobs.jobset.simulated:SIMULATED",
)
