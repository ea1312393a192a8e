"""The priority a Workload gets: its own class, else the pods' class, else the cluster's default, else 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corral.controllers.queueing.context import Caches
from corral.core.meta import Key, Obj, name_of
from corral.jobs.framework.adapter import JobAdapter, workload_priority_class
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet


class Priority(NamedTuple):
    """A value and the class it comes from."""

    value: int = 0
    reference: Obj | None = None


class PriorityClassNotFound(Exception):
    """The named class does not exist (yet)."""


def workload_class_ref(name: str) -> Obj:
    return {"group": names.WORKLOAD_PRIORITY_CLASS_GROUP, "kind": "WorkloadPriorityClass", "name": name}


def pod_class_ref(name: str) -> Obj:
    return {"group": names.POD_PRIORITY_CLASS_GROUP, "kind": "PriorityClass", "name": name}


def workload_class(caches: Caches, name: str) -> Priority:
    """The priority of a WorkloadPriorityClass."""
    found = caches.priority_classes.get(Key("", name))
    if found is None:
        raise PriorityClassNotFound(f'WorkloadPriorityClass.kueue.x-k8s.io "{name}" not found')
    return Priority(int(found.get("value", 0)), workload_class_ref(name))


def job_priority(caches: Caches, adapter: JobAdapter, job: Obj, pod_sets: Sequence[PodSet]) -> Priority:
    """The priority of the Workload of `job`."""
    name = workload_priority_class(job)
    if name:
        return workload_class(caches, name)
    return pod_priority(caches, adapter.priority_class(job, pod_sets))


def owner_priority(caches: Caches, owner: Obj, pod_spec: Obj) -> Priority:
    """The priority of the Workload of something that is not a job: its own class, else that of its pods."""
    name = workload_priority_class(owner)
    return workload_class(caches, name) if name else pod_priority(caches, str(pod_spec.get("priorityClassName") or ""))


def pod_priority(caches: Caches, name: str) -> Priority:
    """The priority of pods that name a PriorityClass, or none."""
    if name:
        found = caches.pod_priority_classes.get(Key("", name))
        if found is None:
            raise PriorityClassNotFound(f'PriorityClass.scheduling.k8s.io "{name}" not found')
        return Priority(int(found.get("value", 0)), pod_class_ref(name))
    default = next((entry for entry in caches.pod_priority_classes.list() if entry.get("globalDefault")), None)
    if default is None:
        return Priority()
    return Priority(int(default.get("value", 0)), pod_class_ref(name_of(default)))
