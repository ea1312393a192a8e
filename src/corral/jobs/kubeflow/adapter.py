"""Kubeflow's training jobs: one pod set per replica type, suspended and managed through `runPolicy`."""

from __future__ import annotations

from typing import ClassVar

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobOutcome, Slot, SuspendableJob
from corral.jobs.framework.paths import Path, get_in
from corral.jobs.kubeflow import kind as kubeflow
from corral.jobs.kubeflow.kind import Framework

NAME_LABEL = "training.kubeflow.org/job-name"
INDEX_LABEL = "training.kubeflow.org/replica-index"


class TrainingJob(SuspendableJob):
    """What all kinds of the training operator have in common."""

    kind_of_job: ClassVar[Framework]
    suspend_path: ClassVar[Path] = ("spec", "runPolicy", "suspend")
    managed_by_path: ClassVar[Path | None] = ("spec", "runPolicy", "managedBy")
    own_managers: ClassVar[tuple[str, ...]] = (kubeflow.CONTROLLER,)
    followed_fields: ClassVar[tuple[Path, ...]] = (
        ("spec", "runPolicy", "activeDeadlineSeconds"),
        ("spec", "runPolicy", "backoffLimit"),
    )

    def pod_selector(self, job: Obj) -> str:
        return f"{NAME_LABEL}={name_of(job)}"

    def slots(self, job: Obj) -> list[Slot]:
        field = self.kind_of_job.field
        specs = spec_of(job).get(field) or {}
        return [
            Slot(kind.lower(), ("spec", field, kind, "template"), _replicas(specs[kind]), index_label=INDEX_LABEL)
            for kind in self.kind_of_job.types
            if specs.get(kind) is not None
        ]

    def finished(self, job: Obj) -> JobOutcome | None:
        for entry in conditions.conditions_of(job):
            if entry.get("type") in ("Succeeded", "Failed") and entry.get("status") == "True":
                return JobOutcome(entry.get("message") or "", entry["type"] == "Succeeded")
        return None

    def pods_ready(self, job: Obj) -> bool:
        return conditions.is_true(job, "Running") or conditions.is_true(job, "Succeeded")

    def is_active(self, job: Obj) -> bool:
        statuses = get_in(job, ("status", "replicaStatuses"), {}) or {}
        return any(int((entry or {}).get("active") or 0) > 0 for entry in statuses.values())

    def priority_class(self, job: Obj, pod_sets: object) -> str:
        """The scheduling policy's class comes before the templates'."""
        named = get_in(job, ("spec", "runPolicy", "schedulingPolicy", "priorityClass"))
        if named:
            return str(named)
        for slot in self.slots(job):
            name = get_in(job, (*slot.path, "spec", "priorityClassName"))
            if name:
                return str(name)
        return ""


def _replicas(replica: Obj) -> int:
    value = replica.get("replicas")
    return 1 if value is None else int(value)


class TfJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/tfjob"
    resource: ClassVar[Resource] = kubeflow.TF_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.TENSORFLOW


class PyTorchJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/pytorchjob"
    resource: ClassVar[Resource] = kubeflow.PYTORCH_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.PYTORCH


class XgBoostJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/xgboostjob"
    resource: ClassVar[Resource] = kubeflow.XGBOOST_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.XGBOOST


class PaddleJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/paddlejob"
    resource: ClassVar[Resource] = kubeflow.PADDLE_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.PADDLE


class JaxJob(TrainingJob):
    framework: ClassVar[str] = "kubeflow.org/jaxjob"
    resource: ClassVar[Resource] = kubeflow.JAX_JOBS
    kind_of_job: ClassVar[Framework] = kubeflow.JAX
