"""The adapter interface: all that queueing and dispatch know about a kind of job.

An adapter is pure: it reads JSON-shaped jobs and returns new ones. Queueing asks what pods a job wants, starts it with
what admission decided and stops it again; dispatch asks what the copy on another cluster looks like and how its status
comes back. `SuspendableJob` implements everything that follows from "there is a suspend flag and there are pod
templates"; a new kind usually says where those are, when it is finished and when its pods are ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from corral.core.errors import Cause
from corral.core.meta import Key, Obj, annotations_of, labels_of, status_of
from corral.core.resource import Resource
from corral.core.whole_numbers import whole_number
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.jobs.framework.remote_copy import bare_copy
from corral.kinds.kueue import names
from corral.workload.podsets import INJECTED_LABELS, PodSet, PodSetInfo, injected, restored, topology_request

Lookup = Callable[[Resource, Key], Obj | None]
"""Reads an object of one of the kinds an adapter declares in `reads`."""


class JobOutcome(NamedTuple):
    """How a job ended."""

    message: str
    success: bool


class StopWrite(NamedTuple):
    """The next write that brings a job closer to being stopped."""

    obj: Obj
    subresource: str = ""
    delete: bool = False
    """Delete the object instead of storing it; for kinds that cannot be taken back."""


class SizedGroups(NamedTuple):
    """A list of groups of pods in a job, by what they are called and where their sizes are."""

    path: Path
    name: str
    fields: tuple[str, ...]


class JobFacts:
    """What most kinds have in common, to be said by those that differ."""

    reads: ClassVar[tuple[Resource, ...]] = ()
    """Other kinds `pod_sets` looks at; a change of one of them does not by itself wake the job."""
    managed_by_path: ClassVar[Path | None] = None
    """Where `managedBy` is, None when the kind has none."""
    own_managers: ClassVar[tuple[str, ...]] = ()
    """Values of managedBy that mean the kind's own controller."""
    prebuilt: ClassVar[bool] = True
    """Whether a job may name an existing Workload."""
    ends: ClassVar[bool] = True
    """Whether a job of this kind runs to an end; others serve until they are deleted."""
    is_numerous: ClassVar[bool] = False
    """Whether clusters have so many of them that queueing takes more workers."""
    elastic: ClassVar[bool] = False
    """Whether a running job may change its size."""
    elastic_template: ClassVar[Path | None] = None
    """Where an elastic job has the template that queueing gates new pods with; None when its operator does that."""
    followed_fields: ClassVar[tuple[Path, ...]] = ()
    """Fields that anybody may change on a running job, and that follow the manager's to the worker."""
    elastic_fields: ClassVar[tuple[Path, ...]] = ()
    """Fields that follow when the job is elastic; otherwise another size is another Workload."""
    elastic_groups: ClassVar[SizedGroups | None] = None
    """Groups of pods whose sizes follow when the job is elastic."""
    followed_templates: ClassVar[tuple[Path, ...]] = ()
    """Pod templates whose images follow; the job rolls them out where it runs."""
    needs: ClassVar[tuple[Resource, ...]] = ()
    """Kinds of objects that have to be on a worker before the job is."""
    found_by_labels: ClassVar[bool] = False
    """Whether pods are matched to the job by labels alone, so that a copy beside the original would take its pods."""

    update_gate: ClassVar[str] = ""
    """The gate under which changes of a job that leaves its queue are checked; always, where there is none."""

    def prepared(self, job: Obj) -> Obj:
        """A job that is going to be queued, with what has to be noted on it when it is created."""
        return job

    def pod_selector(self, job: Obj) -> str:
        """Labels that all pods of a job have; empty where they have none in common. Pods of others may have them too."""
        return ""

    def needed_objects(self, job: Obj) -> list[tuple[Resource, Key]]:
        """The objects of the kinds in `needs` that this job names."""
        return []

    def component_workloads(self, job: Obj) -> list[str]:
        """The names of a job's Workloads when it has several, which go to one cluster together; none for most kinds."""
        return []


class JobAdapter(Protocol):
    """One kind of job. What is not a method here or in `JobFacts` nobody else needs to know."""

    framework: ClassVar[str]
    """The name in the configuration, such as `batch/job`."""
    resource: ClassVar[Resource]
    reads: ClassVar[tuple[Resource, ...]]
    managed_by_path: ClassVar[Path | None]
    own_managers: ClassVar[tuple[str, ...]]
    prebuilt: ClassVar[bool]
    ends: ClassVar[bool]
    is_numerous: ClassVar[bool]
    elastic: ClassVar[bool]
    elastic_template: ClassVar[Path | None]
    followed_fields: ClassVar[tuple[Path, ...]]
    elastic_fields: ClassVar[tuple[Path, ...]]
    elastic_groups: ClassVar[SizedGroups | None]
    followed_templates: ClassVar[tuple[Path, ...]]
    needs: ClassVar[tuple[Resource, ...]]
    found_by_labels: ClassVar[bool]
    update_gate: ClassVar[str]

    def prepared(self, job: Obj) -> Obj: ...

    def pod_selector(self, job: Obj) -> str: ...

    def needed_objects(self, job: Obj) -> list[tuple[Resource, Key]]: ...

    def component_workloads(self, job: Obj) -> list[str]: ...

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        """The pods this job runs. Raises ValueError with the reason when they cannot be told yet."""
        ...

    def is_suspended(self, job: Obj) -> bool: ...

    def suspend(self, job: Obj) -> Obj:
        """The job as it is to be stored before admission."""
        ...

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """The job started with `infos`, one per pod set. Raises ConflictingUpdate when it can never start."""
        ...

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        """The next write towards a suspended job with its original templates; None when it is there."""
        ...

    def is_active(self, job: Obj) -> bool:
        """Whether pods of the job may still be running."""
        ...

    def finished(self, job: Obj) -> JobOutcome | None: ...

    def pods_ready(self, job: Obj) -> bool: ...

    def reclaimable_pods(self, job: Obj) -> dict[str, int]:
        """Per pod set, pods whose resources are free already."""
        ...

    def priority_class(self, job: Obj, pod_sets: Sequence[PodSet]) -> str:
        """Name of the Kubernetes PriorityClass this job runs with, or empty."""
        ...

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        """What queueing cannot accept about a new job, or about the change from `old`, beyond the common rules."""
        ...

    def remote_object(self, job: Obj, workload_name: str, origin: str) -> Obj:
        """The job to create on another cluster, run there by its native controller under the existing Workload."""
        ...

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        """`local` with what is to be copied from `remote`'s status; None when nothing is to be written now."""
        ...

    def stopped_status(self, job: Obj, now: str) -> Obj:
        """The status of a suspended job whose copy on a worker is gone and will not report any more."""
        ...


def queue_name(job: Obj) -> str:
    """The LocalQueue a job asks for: the label, or the annotation older releases used."""
    return labels_of(job).get(names.QUEUE_NAME) or annotations_of(job).get(names.QUEUE_NAME) or ""


def workload_priority_class(job: Obj) -> str:
    return labels_of(job).get(names.PRIORITY_CLASS, "")


def prebuilt_workload(job: Obj) -> str:
    """The Workload a job wants to run under, if it names one."""
    return annotations_of(job).get(names.PREBUILT_WORKLOAD) or labels_of(job).get(names.PREBUILT_WORKLOAD) or ""


def maximum_execution_time(job: Obj) -> int | None:
    return whole_number(labels_of(job).get(names.MAX_EXEC_TIME, "")) or None


def managed_by(adapter: JobAdapter, job: Obj) -> str:
    """Who runs this job: empty for the kind's own controller."""
    value = get_in(job, adapter.managed_by_path) if adapter.managed_by_path else None
    return "" if value is None or value in adapter.own_managers else str(value)


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod template inside a job and how many pods it makes."""

    name: str
    path: Path
    count: int
    min_count: int | None = None
    index_label: str = ""
    sub_group_label: str = ""
    sub_group_count: int = 0


class SuspendableJob(JobFacts, ABC):
    """A kind with a suspend flag and pod templates at known places."""

    framework: ClassVar[str]
    resource: ClassVar[Resource]
    suspend_path: ClassVar[Path] = ("spec", "suspend")
    managed_by_path: ClassVar[Path | None] = ("spec", "managedBy")
    kept_template_labels: ClassVar[tuple[str, ...]] = ()
    """Template labels the kind's own controller needs to keep when a job is stopped."""
    hidden_template_labels: ClassVar[frozenset[str]] = frozenset()
    """Template labels that do not belong into a Workload."""

    @abstractmethod
    def slots(self, job: Obj) -> list[Slot]:
        """The pod templates of `job`, in order."""

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        return [self._pod_set(job, slot) for slot in self.slots(job)]

    def _pod_set(self, job: Obj, slot: Slot) -> PodSet:
        template = _without_labels(get_in(job, slot.path, {}), self.hidden_template_labels)
        groups = {"subGroupIndexLabel": slot.sub_group_label} if slot.sub_group_label else {}
        counts = {"subGroupCount": slot.sub_group_count} if slot.sub_group_count else {}
        request = topology_request(template, index_label=slot.index_label, **groups, **counts)
        return PodSet(slot.name, template, slot.count, slot.min_count, request)

    def is_suspended(self, job: Obj) -> bool:
        return bool(get_in(job, self.suspend_path, False))

    def suspend(self, job: Obj) -> Obj:
        return job if self.is_suspended(job) else set_in(job, self.suspend_path, True)

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        started = set_in(job, self.suspend_path, False)
        for slot, info in zip(self.slots(job), infos, strict=True):
            started = set_in(started, slot.path, injected(get_in(job, slot.path, {}), info))
        return started

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        stopped = self.suspend(self.restore(job, infos))
        return None if stopped == job else StopWrite(stopped)

    def restore(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """The job with the templates its Workload was made from."""
        restored_job = job
        for slot, info in zip(self.slots(job), infos, strict=False):
            template = get_in(job, slot.path, {})
            restored_job = set_in(
                restored_job, slot.path, restored(template, info, keep_labels=self.kept_template_labels)
            )
        return job if _same_templates(self, job, restored_job) else restored_job

    def is_active(self, job: Obj) -> bool:
        return bool(status_of(job).get("active"))

    @abstractmethod
    def finished(self, job: Obj) -> JobOutcome | None:
        """How it ended, None while it has not."""

    @abstractmethod
    def pods_ready(self, job: Obj) -> bool:
        """Whether all pods are running and ready, or done."""

    def reclaimable_pods(self, job: Obj) -> dict[str, int]:
        return {}

    def priority_class(self, job: Obj, pod_sets: Sequence[PodSet]) -> str:
        """The first pod set that names one decides."""
        for pod_set in pod_sets:
            name = get_in(pod_set.template, ("spec", "priorityClassName"))
            if name:
                return str(name)
        return ""

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        return []

    def remote_object(self, job: Obj, workload_name: str, origin: str) -> Obj:
        copy = bare_copy(job, workload_name, origin)
        return set_in(copy, self.managed_by_path, None) if self.managed_by_path else copy

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        status = remote.get("status")
        return None if status is None or status == local.get("status") else {**local, "status": status}

    def stopped_status(self, job: Obj, now: str) -> Obj:
        return {}


def _without_labels(template: Obj, hidden: frozenset[str]) -> Obj:
    labels = labels_of(template)
    drop = hidden | INJECTED_LABELS
    if not drop & labels.keys():
        return template
    kept = {label: value for label, value in labels.items() if label not in drop}
    metadata = {name: value for name, value in template["metadata"].items() if name != "labels"}
    return {**template, "metadata": {**metadata, "labels": kept} if kept else metadata}


def _same_templates(adapter: SuspendableJob, first: Obj, second: Obj) -> bool:
    return all(
        _meaning(get_in(first, slot.path, {})) == _meaning(get_in(second, slot.path, {}))
        for slot in adapter.slots(first)
    )


def _meaning(template: Obj) -> Obj:
    """A template with empty maps and lists left out, which say nothing."""
    return {
        part: {name: value for name, value in (template.get(part) or {}).items() if value not in ({}, [], None)}
        for part in ("metadata", "spec")
    }
