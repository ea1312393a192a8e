"""trainer.kubeflow.org: a TrainJob and the runtime it names become a JobSet."""

from corral.jobs.framework.job_kind import JobKind

JOB_KIND = JobKind(
    name="trainjob",
    kinds="corral.jobs.trainjob.kind:KINDS",
    adapters={"trainer.kubeflow.org/trainjob": "corral.jobs.trainjob.adapter:TrainJob"},
    operators="corral.jobs.trainjob.operator:operators",
    admission="corral.jobs.trainjob.admission:plugins",
    posts="corral.jobs.trainjob.progress_endpoint:posts",
    # Training pods can report their progress.
    features={"TrainJobStatus": False},
)
