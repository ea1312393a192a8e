"""kubeflow.org/v1: TFJob, PyTorchJob, XGBoostJob, PaddleJob and JAXJob, one engine for all of them."""

from corral.jobs.framework.job_kind import JobKind

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
    admission="corral.jobs.kubeflow.admission:plugins",
    simulated="corral.jobs.kubeflow.simulated:SIMULATED",
)
