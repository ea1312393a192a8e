"""Plain Pods: held by a scheduling gate instead of a suspend flag, stopped by deletion, mirrored pod by pod.

A pod that belongs to a group is one member of a larger job (see `pod_group`); the rules for a single member are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core import conditions
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, is_deleting, labels_of, spec_of, status_of, with_spec
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobFacts, JobOutcome, Lookup, StopWrite
from corral.jobs.framework.paths import Path, get_in
from corral.jobs.framework.remote_copy import bare_copy
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import names
from corral.workload.podsets import DEFAULT_NAME, PodSet, PodSetInfo, injected, topology_request

INDEX_LABEL = names.POD_GROUP_POD_INDEX
TERMINATION_TARGET = "TerminationTarget"
STOPPED_REASON = "StoppedByKueue"


def gates_of(pod: Obj) -> list[str]:
    return [gate["name"] for gate in spec_of(pod).get("schedulingGates") or []]


def is_gated(pod: Obj) -> bool:
    """Whether the pod waits for admission."""
    return names.ADMISSION_GATE in gates_of(pod)


def is_terminated(pod: Obj) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def is_managed(pod: Obj) -> bool:
    return labels_of(pod).get(names.MANAGED) == "true"


def gated(pod: Obj) -> Obj:
    """The pod as it is stored when queued: held back until it is admitted and placed."""
    held = spec_of(pod).get("schedulingGates") or []
    present = {gate["name"] for gate in held}
    added = [{"name": name} for name in (names.ADMISSION_GATE, names.TOPOLOGY_GATE) if name not in present]
    return with_spec(pod, {**spec_of(pod), "schedulingGates": [*held, *added]})


def ungated(pod: Obj, info: PodSetInfo) -> Obj:
    """The pod released with what admission decided. Raises ConflictingUpdate."""
    released = injected(pod, info)
    wanted = {gate["name"] for gate in info.scheduling_gates}
    dropped = {names.ADMISSION_GATE, names.TOPOLOGY_GATE} - wanted
    kept = [gate for gate in spec_of(released).get("schedulingGates") or [] if gate["name"] not in dropped]
    spec = {name: value for name, value in spec_of(released).items() if name != "schedulingGates"}
    return with_spec(released, {**spec, "schedulingGates": kept} if kept else spec)


def template_of(pod: Obj) -> Obj:
    """The pod template of a Workload for this pod: its spec, without what only this pod has."""
    spec = {name: value for name, value in spec_of(pod).items() if name not in ("nodeName", "volumes")}
    return {"metadata": {}, "spec": {**spec, **_shared_volumes(pod)}}


def _shared_volumes(pod: Obj) -> Obj:
    """Volumes without the service account token, whose name differs from pod to pod."""
    volumes = [volume for volume in spec_of(pod).get("volumes") or [] if not _is_token(volume)]
    return {"volumes": volumes} if volumes else {}


def _is_token(volume: Obj) -> bool:
    return str(volume.get("name", "")).startswith("kube-api-access-")


def pod_set_of(pod: Obj, name: str = DEFAULT_NAME, count: int = 1) -> PodSet:
    request = topology_request({"metadata": {"annotations": annotations_of(pod)}}, index_label=INDEX_LABEL)
    return PodSet(name, template_of(pod), count, topology_request=request)


def termination_target(pod: Obj, message: str, now: str) -> Obj:
    """The pod's status saying that queueing is about to delete it."""
    entry = conditions.condition(TERMINATION_TARGET, True, STOPPED_REASON, message)
    held = conditions.conditions_of(pod)
    return {**pod, "status": {**status_of(pod), "conditions": conditions.set_condition(held, entry, now)}}


class PodJob(JobFacts):
    """A single Pod as a job."""

    framework: ClassVar[str] = "pod"
    resource: ClassVar[Resource] = PODS
    ends: ClassVar[bool] = False
    """A pod is not what a hub places to have a job done."""
    followed_fields: ClassVar[tuple[Path, ...]] = (("spec", "activeDeadlineSeconds"),)
    found_by_labels: ClassVar[bool] = True

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        return [pod_set_of(job)]

    def is_suspended(self, job: Obj) -> bool:
        return not is_terminated(job) and is_gated(job)

    def suspend(self, job: Obj) -> Obj:
        return job if is_gated(job) else gated(job)

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return ungated(job, infos[0])

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        """A pod cannot be taken back; it is deleted."""
        return None if is_terminated(job) or is_deleting(job) else StopWrite(job, delete=True)

    def is_active(self, job: Obj) -> bool:
        return status_of(job).get("phase") == "Running"

    def finished(self, job: Obj) -> JobOutcome | None:
        phase = status_of(job).get("phase")
        if phase not in ("Succeeded", "Failed"):
            return None
        return JobOutcome(str(status_of(job).get("message") or ""), phase == "Succeeded")

    def pods_ready(self, job: Obj) -> bool:
        return status_of(job).get("phase") == "Succeeded" or conditions.is_true(job, "Ready")

    def reclaimable_pods(self, job: Obj) -> dict[str, int]:
        return {}

    def priority_class(self, job: Obj, pod_sets: Sequence[PodSet]) -> str:
        return str(get_in(job, ("spec", "priorityClassName"), ""))

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        return []

    def remote_object(self, job: Obj, workload_name: str, origin: str) -> Obj:
        """The pod without what its own cluster added to it: node, gates' owners and service account token."""
        copy = bare_copy(job, workload_name, origin)
        spec = {name: value for name, value in spec_of(copy).items() if name not in ("nodeName", "volumes")}
        spec.update(_shared_volumes(job))
        for kind in ("containers", "initContainers"):
            if spec.get(kind):
                spec[kind] = [_without_token_mount(container) for container in spec[kind]]
        return with_spec(copy, spec)

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        """The remote status; until the remote pod is scheduled the local one goes on saying that it is gated."""
        if is_deleting(local):
            return None
        status = dict(status_of(remote))
        if not conditions.is_true(remote, "PodScheduled"):
            own = conditions.find(local, "PodScheduled")
            others = conditions.without(conditions.conditions_of(remote), "PodScheduled")
            status["conditions"] = [*others, own] if own else others
        return None if status == status_of(local) else {**local, "status": status}

    def stopped_status(self, job: Obj, now: str) -> Obj:
        """A gated pod that runs nowhere is pending again."""
        own = conditions.find(job, "PodScheduled")
        return {"phase": "Pending", "conditions": [own] if own else []}


def _without_token_mount(container: Obj) -> Obj:
    mounts = container.get("volumeMounts")
    if not mounts:
        return container
    kept = [mount for mount in mounts if not _is_token(mount)]
    rest = {name: value for name, value in container.items() if name != "volumeMounts"}
    return {**rest, "volumeMounts": kept} if kept else rest
