"""kubeflow.org/v1: TFJob, PyTorchJob, XGBoostJob, PaddleJob and JAXJob, one engine for all of them."""

from corral.jobs.framework.job_kind import InstalledOperator, JobKind

JOB_KIND = JobKind(
    name="kubeflow",
    kinds="corral.jobs.kubeflow.kind:KINDS",
    adapters={
        "kubeflow.org/jaxjob": "corral.jobs.kubeflow.adapter:JaxJob",
        "kubeflow.org/paddlejob": "corral.jobs.kubeflow.adapter:PaddleJob",
        "kubeflow.org/pytorchjob": "corral.jobs.kubeflow.adapter:PyTorchJob",
        "kubeflow.org/tfjob": "corral.jobs.kubeflow.adapter:TfJob",
        "kubeflow.org/xgboostjob": "corral.jobs.kubeflow.adapter:XgBoostJob",
    },
    operators="corral.jobs.kubeflow.operator:operators",
    identity="corral.jobs.kubeflow.identity:IDENTITY",
    installation=InstalledOperator(
        namespace="kubeflow",
        deployment="training-operator",
        labels={"control-plane": "kubeflow-training-operator"},
        container="training-operator",
        webhook_service="training-operator",
    ),
    admission="corral.jobs.kubeflow.admission:plugins",
    features={"JobManagedBy": True},
    submissions={"pytorch": "corral.jobs.kubeflow.submission:pytorch", "jax": "corral.jobs.kubeflow.submission:jax"},
    simulated="corral.jobs.kubeflow.simulated:SIMULATED",
)
