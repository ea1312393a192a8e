"""Elastic jobs: how a changed size shows in Workload slices, and which pods may run under the slice that is admitted.

New pods of a job that grew wait behind a scheduling gate until a slice with room for them is admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.controllers.queueing.context import BY_OWNER, FIELD_MANAGER, QueueingContext
from corral.core.meta import Key, Obj, controller_of, is_deleting, name_of, spec_of, with_spec
from corral.jobs.pod.adapter import gates_of, is_terminated
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Result, Watch
from corral.workload import workload as wl
from corral.workload.podsets import DEFAULT_NAME, PodSet

BY_CONTROLLER = "controllerUid"

SAME, SHRUNK, GREW = "same", "shrunk", "grew"


def change_of(held: Sequence[Obj], wanted: Sequence[PodSet]) -> str:
    """How a job's size compares with its slice: a job that grew anywhere grew."""
    counts = {entry.get("name", DEFAULT_NAME): int(entry.get("count", 1)) for entry in held}
    if any(pod_set.count > counts.get(pod_set.name, 0) for pod_set in wanted):
        return GREW
    return SAME if all(pod_set.count == counts.get(pod_set.name) for pod_set in wanted) else SHRUNK


def resized(workload: Obj, wanted: Sequence[PodSet]) -> list[Obj]:
    """The pod sets of a slice with the counts a job wants."""
    counts = {pod_set.name: pod_set.count for pod_set in wanted}
    return [
        {**entry, "count": counts.get(entry.get("name", DEFAULT_NAME), entry.get("count", 1))}
        for entry in wl.pod_sets_of(workload)
    ]


def gated_template(template: Obj) -> Obj:
    """A pod template whose pods wait for a slice."""
    spec = spec_of(template)
    gates = spec.get("schedulingGates") or []
    if any(gate["name"] == names.ELASTIC_JOB_GATE for gate in gates):
        return template
    return {**template, "spec": {**spec, "schedulingGates": [*gates, {"name": names.ELASTIC_JOB_GATE}]}}


class ElasticUngater:
    """Releases as many pods of an elastic Job as its admitted slice has room for."""

    name = "kueue-elastic-ungater"

    def __init__(self, context: QueueingContext) -> None:
        self.context = context
        self.workloads = context.caches.workloads
        self.pods = context.manager.informer(PODS)
        self.pods.add_index(BY_CONTROLLER, controller_uid)
        context.manager.add(self, watches=[Watch(PODS, map=_gated_job), Watch(WORKLOADS, map=_job_of)]).about(
            lambda key: next(iter(self.workloads.by_index(BY_OWNER, key.name)), None)
        )

    async def reconcile(self, key: Key) -> Result | None:
        """`key` names a Job by its uid, which pods and Workloads both carry."""
        uid = key.name
        admitted = [
            found
            for found in self.workloads.by_index(BY_OWNER, uid)
            if wl.is_admitted(found) and not wl.is_finished(found) and not wl.is_evicted(found)
        ]
        room = max((_size(found) for found in admitted), default=0)
        live = [
            pod for pod in self.pods.by_index(BY_CONTROLLER, uid) if not is_deleting(pod) and not is_terminated(pod)
        ]
        waiting = sorted((pod for pod in live if names.ELASTIC_JOB_GATE in gates_of(pod)), key=name_of)
        for pod in waiting[: max(0, room - (len(live) - len(waiting)))]:
            kept = [gate for gate in spec_of(pod)["schedulingGates"] if gate["name"] != names.ELASTIC_JOB_GATE]
            spec = {name: value for name, value in spec_of(pod).items() if name != "schedulingGates"}
            released = with_spec(pod, {**spec, "schedulingGates": kept} if kept else spec)
            await self.context.client.update(PODS, released, manager=FIELD_MANAGER)
        return None


def _size(workload: Obj) -> int:
    return sum(int(entry.get("count", 1)) for entry in wl.pod_sets_of(workload))


def controller_uid(pod: Obj) -> Iterable[str]:
    """The uid of the object that controls a pod."""
    reference = controller_of(pod)
    return (str(reference.get("uid", "")),) if reference is not None else ()


def _gated_job(pod: Obj) -> Iterable[Key]:
    reference = controller_of(pod) if names.ELASTIC_JOB_GATE in gates_of(pod) else None
    if reference is None:
        return ()
    return (Key("", str(reference.get("uid", ""))),)


def _job_of(workload: Obj) -> Iterable[Key]:
    reference = controller_of(workload) if wl.is_elastic(workload) else None
    if reference is None:
        return ()
    return (Key("", str(reference.get("uid", ""))),)
