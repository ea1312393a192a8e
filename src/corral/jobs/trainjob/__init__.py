"""trainer.kubeflow.org: a TrainJob and the runtime it names become a JobSet."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="trainjob",
    kinds="corral.jobs.trainjob.kind:KINDS",
    adapters={"trainer.kubeflow.org/trainjob": "corral.jobs.trainjob.adapter:TrainJob"},
    operators="corral.jobs.trainjob.operator:operators",
    identity="corral.jobs.trainjob.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="kubeflow-system",
        deployment="kubeflow-trainer-controller-manager",
        labels={
            "app.kubernetes.io/name": "trainer",
            "app.kubernetes.io/component": "manager",
            "app.kubernetes.io/part-of": "kubeflow",
        },
        webhook_service="kubeflow-trainer-controller-manager",
    ),
    admission="corral.jobs.trainjob.admission:plugins",
    posts="corral.jobs.trainjob.progress_endpoint:posts",
    # Training pods can report their progress.
    features={"TrainJobStatus": False},
)
