"""PyTorchJobs and JAXJobs from a program: the same command on every replica, which finds its peers in its environment."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.submission import Submission, metadata_of, template_of
from corral.jobs.kubeflow.kind import JAX_JOBS, PYTORCH_JOBS


def pytorch(wanted: Submission) -> Obj:
    """One of the workers is the master."""
    replicas = {"Master": _replicas(wanted, "pytorch", 1)}
    if wanted.workers > 1:
        replicas["Worker"] = _replicas(wanted, "pytorch", wanted.workers - 1)
    return _training_job(wanted, PYTORCH_JOBS, {"pytorchReplicaSpecs": replicas})


def jax(wanted: Submission) -> Obj:
    return _training_job(wanted, JAX_JOBS, {"jaxReplicaSpecs": {"Worker": _replicas(wanted, "jax", wanted.workers)}})


def _replicas(wanted: Submission, container: str, count: int) -> Obj:
    return {"replicas": count, "restartPolicy": "Never", "template": template_of(wanted, container)}


def _training_job(wanted: Submission, resource: Resource, replicas: Obj) -> Obj:
    policy = {"backoffLimit": wanted.retries, "cleanPodPolicy": "None", "suspend": True}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata_of(wanted),
        "spec": {"runPolicy": policy, **replicas},
    }
