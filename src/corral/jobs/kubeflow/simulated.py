"""PyTorchJobs in simulations."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.jobs.framework.simulated import SimulatedKind, pod_template, queued_job
from corral.jobs.kubeflow.adapter import NAME_LABEL
from corral.jobs.kubeflow.kind import PYTORCH_JOBS


def pytorch_job(name: str, cpu: int, seconds: int) -> Obj:
    template = pod_template(cpu, seconds, "OnFailure", container="pytorch")
    master = {"replicas": 1, "restartPolicy": "OnFailure", "template": template}
    return queued_job(name, {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Master": master}})


SIMULATED = (SimulatedKind("kubeflow.org/pytorchjob", PYTORCH_JOBS, pytorch_job, "Succeeded", NAME_LABEL),)
