"""From a job, a pod or a set to the Workload it should have."""

from __future__ import annotations

from collections.abc import Sequence

from corral.controllers.queueing.context import QueueingContext
from corral.controllers.queueing.jobs.priority import Priority, PriorityClassNotFound, job_priority
from corral.controllers.queueing.jobs.view import JobView
from corral.core.meta import Obj, generation_of, name_of, uid_of, with_annotations
from corral.jobs.framework.adapter import maximum_execution_time, queue_name
from corral.kinds.kueue import names
from corral.workload import workload as wl
from corral.workload.podsets import PodSet, without_slice_layers

COMPOSE_RETRY_S = 10.0
"""How soon to look again for a class or runtime that is named and that nobody has made yet."""
MAX_SHORT_NAME = 63


class CannotCompose(Exception):
    """What a Workload should say cannot be told yet."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def compose(
    context: QueueingContext,
    owner: Obj,
    name: str,
    pod_sets: Sequence[PodSet],
    priority: Priority,
    *,
    max_execution_time: int | None = None,
) -> Obj:
    """The Workload `name` of `owner`, in the queue it asks for, with the labels and annotations that go along."""
    if not context.config.gates["TASMultiLayerTopology"]:
        pod_sets = [without_slice_layers(pod_set) for pod_set in pod_sets]
    return wl.new_workload(
        owner,
        name,
        pod_sets,
        queue=queue_name(owner),
        priority=priority.value,
        priority_ref=priority.reference,
        max_execution_time=max_execution_time,
        labels=wl.copied_labels(owner, context.config.copied_labels),
        annotations=wl.copied_annotations(owner, context.config.copied_annotations),
    )


def compose_for_job(context: QueueingContext, view: JobView) -> Obj:
    """The Workload a job should have as it is now; raises CannotCompose."""
    job, adapter = view.job, view.adapter
    try:
        pod_sets = view.pod_sets
        priority = job_priority(context.caches, adapter, job, pod_sets)
    except PriorityClassNotFound as error:
        raise CannotCompose("WorkloadPriorityClassNotFound", str(error)) from error
    except ValueError as error:
        raise CannotCompose("ErrWorkloadCompose", str(error)) from error
    # A slice is made for each size of an elastic job, so its name has to differ with the spec.
    extra = (str(generation_of(job)),) if view.elastic else ()
    limit = MAX_SHORT_NAME if context.config.gates["ShortWorkloadNames"] else wl.MAX_NAME
    kind, group = adapter.resource.kind, adapter.resource.group
    name = wl.workload_name(kind, group, name_of(job), uid_of(job), *extra, limit=limit)
    fresh = compose(context, job, name, pod_sets, priority, max_execution_time=maximum_execution_time(job))
    marks = {names.ELASTIC_JOB: "true", names.WORKLOAD_SLICE_NAME: name}
    return with_annotations(fresh, marks) if view.elastic else fresh
