"""What a live Workload takes over from its job: queue, priority class and time limit, and how far its pods are. Pure."""

from __future__ import annotations

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.jobs.priority import Priority
from corral.controllers.queueing.jobs.view import JobView
from corral.core.meta import Obj, spec_of
from corral.jobs.framework.adapter import maximum_execution_time, prebuilt_workload, queue_name, workload_priority_class
from corral.workload import lifecycle
from corral.workload import workload as wl


def new_class(job: Obj, workload: Obj) -> str:
    """The WorkloadPriorityClass the job names and its Workload does not have yet; empty when there is none.

    A prebuilt Workload keeps the priority that whoever built it gives it, and may change, as the manager of a fleet does.
    """
    if prebuilt_workload(job):
        return ""
    name = workload_priority_class(job)
    held = spec_of(workload).get("priorityClassRef") or {}
    return "" if (held.get("name"), held.get("kind")) == (name, "WorkloadPriorityClass") else name


def synced_spec(view: JobView, workload: Obj, priority: Priority | None = None) -> Obj:
    """The spec of a Workload as the labels of its job want it; queue and time limit may change only while it waits."""
    spec = dict(spec_of(workload))
    if view.suspended and not wl.has_quota(workload):
        spec["queueName"] = queue_name(view.job)
        spec["maximumExecutionTimeSeconds"] = maximum_execution_time(view.job)
        if spec["maximumExecutionTimeSeconds"] is None:
            del spec["maximumExecutionTimeSeconds"]
    if priority is not None:
        spec.update(priority=priority.value, priorityClassRef=priority.reference)
    if not spec.get("queueName"):
        spec.pop("queueName", None)
    return spec


def with_progress(view: JobView, workload: Obj, config: QueueingConfig, now: str) -> Obj:
    """Reclaimable pods and readiness as the job shows them; the Workload itself when it says so already."""
    new = workload
    if config.gates["ReclaimablePods"]:
        # While quota is held the number only grows; a restarted pod takes nothing back.
        only_grows = wl.has_quota(new) and not view.suspended
        new = lifecycle.sync_reclaimable(new, view.adapter.reclaimable_pods(view.job), only_grows=only_grows)
    if config.wait_for_pods_ready is not None:
        ready = not view.suspended and view.adapter.pods_ready(view.job)
        new = lifecycle.sync_pods_ready(new, ready, now)
    return new
