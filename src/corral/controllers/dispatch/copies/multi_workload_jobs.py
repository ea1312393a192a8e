"""Jobs of several Workloads go to one worker: the first component that may go leads, the others follow.

The job on the worker belongs to all of them, so it goes when the last one's copy goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.controllers.dispatch.context import DispatchContext, DispatchedWorkload
from corral.core import conditions
from corral.core.meta import Key, Obj, annotations_of, key_of, owner_references_of, status_of
from corral.decide.dispatch.nominate import Nomination
from corral.jobs.framework.registry import component_workloads
from corral.kinds.kueue import names

BY_JOB = "dispatched-job"


class Components:
    """The Workloads of one job, seen from each of them."""

    def __init__(self, context: DispatchContext) -> None:
        self._context = context
        context.workloads.add_index(BY_JOB, _job_uids)

    def nomination(self, subject: DispatchedWorkload) -> Nomination | None:
        """The worker another component has chosen, or an empty nomination while none has; None when this component
        chooses for all of them."""
        wanted = component_workloads(subject.jobs[0]) if subject.jobs else []
        if not wanted:
            return self._slice_nomination(subject.workload)
        own = key_of(subject.workload)
        held = [self._context.workloads.get(Key(own.namespace, name)) for name in wanted]
        known = [workload for workload in held if workload is not None]
        if len(known) < len(wanted):
            subject.rejected = {"": "waits until every replica has a workload"}
            return Nomination(())
        taken = [str(status_of(other)["clusterName"]) for other in known if status_of(other).get("clusterName")]
        if taken:
            return Nomination((taken[0],))
        first = next((key_of(other) for other in known if conditions.is_true(other, names.QUOTA_RESERVED)), own)
        if first == own:
            return None
        subject.rejected = {"": f"waits for {first.name}, which chooses the worker"}
        return Nomination(())

    def _slice_nomination(self, workload: Obj) -> Nomination | None:
        """A larger slice of an elastic job goes where the job runs."""
        replaced = annotations_of(workload).get(names.WORKLOAD_SLICE_REPLACEMENT_FOR)
        before = self._context.workloads.get(Key.parse(replaced)) if replaced else None
        cluster = status_of(before).get("clusterName") if before is not None else None
        return Nomination((str(cluster),)) if cluster else None

    def keys(self, workload: Obj) -> Iterable[Key]:
        """The other Workloads of the same job."""
        own = key_of(workload)
        found = {
            key_of(other) for uid in _job_uids(workload) for other in self._context.workloads.by_index(BY_JOB, uid)
        }
        return sorted(found - {own})

    def of_job(self, job: Obj) -> Iterable[Key]:
        return [key_of(found) for found in self._context.workloads.by_index(BY_JOB, job["metadata"].get("uid", ""))]


def _job_uids(workload: Obj) -> Iterable[str]:
    return dict.fromkeys(
        str(reference.get("uid")) for reference in owner_references_of(workload) if reference.get("kind") != "Pod"
    )
