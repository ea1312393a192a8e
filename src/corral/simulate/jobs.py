"""The kinds of jobs a simulation submits: how each is made, when it has ended, and whose pod is whose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import Obj, labels_of
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.kubeflow.kind import PYTORCH_JOBS
from corral.kinds.kueue import names

RESTARTS = 1000
STOP_S = "3"
"""How long a pod lives on after it was told to stop."""


@dataclass(frozen=True, slots=True)
class SimulatedKind:
    """One kind of job. `make(name, cpu, seconds)` asks for `cpu` CPUs and runs for so long."""

    framework: str
    resource: Resource
    make: Callable[[str, int, int], Obj]
    done: str
    """The condition that says it has ended well."""


def _template(cpu: int, seconds: int, policy: str) -> Obj:
    container = {"name": "pytorch", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds), "corral.dev/stop-seconds": STOP_S}},
        "spec": {"restartPolicy": policy, "containers": [container]},
    }


def _job(name: str, spec: Obj) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}},
        "spec": spec,
    }


def batch_job(name: str, cpu: int, seconds: int) -> Obj:
    spec = {"suspend": True, "backoffLimit": RESTARTS, "template": _template(cpu, seconds, "Never")}
    return _job(name, spec)


def job_set(name: str, cpu: int, seconds: int) -> Obj:
    inner = {"backoffLimit": RESTARTS, "template": _template(cpu, seconds, "Never")}
    replicated = [{"name": "main", "replicas": 1, "template": {"spec": inner}}]
    return _job(name, {"suspend": True, "failurePolicy": {"maxRestarts": RESTARTS}, "replicatedJobs": replicated})


def pytorch_job(name: str, cpu: int, seconds: int) -> Obj:
    master = {"replicas": 1, "restartPolicy": "OnFailure", "template": _template(cpu, seconds, "OnFailure")}
    return _job(name, {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Master": master}})


KINDS = (
    SimulatedKind("batch/job", JOBS, batch_job, "Complete"),
    SimulatedKind("jobset.x-k8s.io/jobset", JOB_SETS, job_set, "Completed"),
    SimulatedKind("kubeflow.org/pytorchjob", PYTORCH_JOBS, pytorch_job, "Succeeded"),
)
_OWNERS = ("jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "batch.kubernetes.io/job-name")


def job_of(pod: Obj) -> str:
    """The name of the job a pod belongs to, whatever its kind."""
    labels = labels_of(pod)
    return next((labels[label] for label in _OWNERS if label in labels), "")


def has_ended(kind: SimulatedKind, job: Obj) -> bool:
    return conditions.is_true(job, kind.done)
