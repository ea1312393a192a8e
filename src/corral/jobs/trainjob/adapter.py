"""TrainJob: its pods come from a runtime, so its pod sets are those of the JobSet the trainer would make.

A TrainJob has no pod template of its own; what admission injects goes into its `runtimePatches` under our own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from corral.core import conditions
from corral.core.meta import Key, Obj, namespace_of, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter, JobOutcome, Lookup, Slot, StopWrite, SuspendableJob
from corral.jobs.framework.paths import set_in
from corral.jobs.jobset.adapter import JobSet
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.jobs.trainjob.plan import counted_job_set
from corral.workload.podsets import PodSet, PodSetInfo

MANAGER = "kueue.x-k8s.io/manager"
EMPTY_PATCH = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}


class RuntimeMissing(ValueError):
    """The runtime a TrainJob names is not there (yet)."""


class TrainJob(SuspendableJob):
    framework: ClassVar[str] = "trainer.kubeflow.org/trainjob"
    resource: ClassVar[Resource] = TRAIN_JOBS
    reads: ClassVar[tuple[Resource, ...]] = (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)
    own_managers: ClassVar[tuple[str, ...]] = ("trainer.kubeflow.org/trainjob-controller",)
    needs: ClassVar[tuple[Resource, ...]] = (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)
    _job_set: ClassVar[JobAdapter] = JobSet()

    def pod_selector(self, job: Obj) -> str:
        """Its JobSet has its name."""
        return self._job_set.pod_selector(job)

    def needed_objects(self, job: Obj) -> list[tuple[Resource, Key]]:
        """The runtime it is made from."""
        reference = spec_of(job).get("runtimeRef") or {}
        name = str(reference.get("name") or "")
        if not name:
            return []
        if reference.get("kind") == TRAINING_RUNTIMES.kind:
            return [(TRAINING_RUNTIMES, Key(namespace_of(job), name))]
        return [(CLUSTER_TRAINING_RUNTIMES, Key("", name))]

    def slots(self, job: Obj) -> list[Slot]:
        """No templates in the TrainJob itself."""
        return []

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        """Pod sets of the composed JobSet, without our own patches; raises RuntimeMissing."""
        runtime = runtime_of(job, lookup)
        return self._job_set.pod_sets(counted_job_set(_without_patch(job), runtime), lookup)

    def suspend(self, job: Obj) -> Obj:
        patches = spec_of(job).get("runtimePatches") or []
        if not any(entry.get("manager") == MANAGER for entry in patches):
            job = set_in(job, ("spec", "runtimePatches"), [*patches, EMPTY_PATCH])
        return super().suspend(job)

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return set_in(_with_patch(job, [_replicated_job(info) for info in infos]), self.suspend_path, False)

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        """Suspend; then, when nothing of it runs any more, take our patch back."""
        if not self.is_suspended(job):
            return StopWrite(set_in(job, self.suspend_path, True))
        if _patch_of(job) == EMPTY_PATCH or self.is_active(job):
            return None
        return StopWrite(_with_patch(job, []))

    def is_active(self, job: Obj) -> bool:
        return any(entry.get("active") for entry in status_of(job).get("jobsStatus") or ())

    def finished(self, job: Obj) -> JobOutcome | None:
        for entry in conditions.conditions_of(job):
            if entry.get("type") in ("Complete", "Failed") and entry.get("status") == "True":
                return JobOutcome(str(entry.get("message") or ""), entry["type"] == "Complete")
        return None

    def pods_ready(self, job: Obj) -> bool:
        counted = status_of(job).get("jobsStatus") or ()
        return bool(counted) and all(
            int(entry.get("ready") or 0) + int(entry.get("succeeded") or 0) >= 1 for entry in counted
        )

    def priority_class(self, job: Obj, pod_sets: Sequence[PodSet]) -> str:
        return super().priority_class(job, pod_sets)

    def remote_object(self, job: Obj, workload_name: str, origin: str) -> Obj:
        return super().remote_object(_without_patch(job), workload_name, origin)


def runtime_of(job: Obj, lookup: Lookup) -> Obj:
    """The runtime a TrainJob refers to."""
    reference = spec_of(job).get("runtimeRef") or {}
    name = str(reference.get("name", ""))
    if reference.get("kind", "ClusterTrainingRuntime") == "TrainingRuntime":
        found = lookup(TRAINING_RUNTIMES, Key(namespace_of(job), name))
    else:
        found = lookup(CLUSTER_TRAINING_RUNTIMES, Key("", name))
    if found is None:
        raise RuntimeMissing(f'{reference.get("kind", "ClusterTrainingRuntime")} "{name}" not found')
    return found


def _patch_of(job: Obj) -> Obj:
    """Our patch as it is; one that says nothing counts as the empty one."""
    for entry in spec_of(job).get("runtimePatches") or ():
        if entry.get("manager") == MANAGER:
            template = (entry.get("trainingRuntimeSpec") or {}).get("template") or {}
            return entry if (template.get("spec") or {}).get("replicatedJobs") else EMPTY_PATCH
    return EMPTY_PATCH


def _without_patch(job: Obj) -> Obj:
    patches = spec_of(job).get("runtimePatches")
    if not patches:
        return job
    kept = [entry for entry in patches if entry.get("manager") != MANAGER]
    return set_in(job, ("spec", "runtimePatches"), kept or None)


def _with_patch(job: Obj, replicated_jobs: list[Obj]) -> Obj:
    spec = {"replicatedJobs": replicated_jobs} if replicated_jobs else {}
    patch = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": spec}}}
    patches = spec_of(job).get("runtimePatches") or []
    if any(entry.get("manager") == MANAGER for entry in patches):
        changed = [patch if entry.get("manager") == MANAGER else entry for entry in patches]
    else:
        changed = [*patches, patch]
    return set_in(job, ("spec", "runtimePatches"), changed)


def _replicated_job(info: PodSetInfo) -> Obj:
    """The patch of one replicated job. Raises ConflictingUpdate never: the trainer merges, later patches win."""
    info = replace(info, count=0)
    metadata = {"labels": dict(info.labels), "annotations": dict(info.annotations)}
    pod_spec = {
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.scheduling_gates),
    }
    template = {
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": {name: value for name, value in pod_spec.items() if value},
    }
    return {"name": info.name, "template": {"spec": {"template": template}}}
