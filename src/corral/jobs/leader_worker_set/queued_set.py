"""LeaderWorkerSets in a queue: one Workload for each replica, a leader and its workers; all run on one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    with_annotations,
    with_spec,
)
from corral.core.resource import Resource
from corral.jobs.framework.paths import Path
from corral.jobs.framework.queued_set import Claim, identity_of, marks_of, pod_set_of_template
from corral.jobs.leader_worker_set import kind as lws
from corral.jobs.leader_worker_set.rollout import groups_of
from corral.kinds.kueue import names
from corral.workload.podsets import DEFAULT_NAME, PodSet
from corral.workload.workload import workload_name

FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"
MOST = 1000
"""Replicas that are queued: each is a Workload, and a manifest may ask for two billion."""


def component_workload(job: Obj, index: int) -> str:
    """The name of one replica's Workload: the same on the cluster it was submitted to and where it runs."""
    return workload_name(lws.LEADER_WORKER_SETS.kind, lws.GROUP, f"{name_of(job)}-{index}", identity_of(job))


def component_workloads(job: Obj) -> list[str]:
    """All Workloads of a LeaderWorkerSet, in order."""
    return [component_workload(job, index) for index in range(min(lws.replicas_of(job), MOST))]


class QueuedLeaderWorkerSet:
    """A LeaderWorkerSet whose pods wait for it."""

    framework: ClassVar[str] = FRAMEWORK
    resource: ClassVar[Resource] = lws.LEADER_WORKER_SETS
    holds_pods: ClassVar[bool] = True
    waits_at_zero: ClassVar[bool] = False
    fixed_fields: ClassVar[Sequence[Path]] = (("spec", "leaderWorkerTemplate", "size"),)

    def with_held_templates(self, owner: Obj) -> Obj:
        group = spec_of(owner).get("leaderWorkerTemplate") or {}
        held = {
            name: with_annotations(group[name], {names.POD_SUSPENDING_PARENT: self.framework})
            for name in ("leaderTemplate", "workerTemplate")
            if group.get(name)
        }
        workers = held.get("workerTemplate", {})
        if "leaderTemplate" in held and names.PODSET_GROUP_NAME not in annotations_of(workers):
            held["workerTemplate"] = with_annotations(workers, {names.POD_INDEX_OFFSET: "1"})
        return with_spec(owner, {**spec_of(owner), "leaderWorkerTemplate": {**group, **held}})

    def claims(self, owner: Obj, pods: Sequence[Obj]) -> list[Claim]:
        groups: dict[str, list[Obj]] = {}
        for pod in pods:
            if names.POD_SUSPENDING_PARENT in annotations_of(pod):
                groups.setdefault(labels_of(pod).get(lws.GROUP_INDEX, ""), []).append(pod)
        count = min(groups_of(owner), MOST)
        return [self._claim(owner, index, tuple(groups.get(str(index), ()))) for index in range(count)]

    def _claim(self, owner: Obj, index: int, pods: tuple[Obj, ...]) -> Claim:
        size = lws.size_of(owner)
        pod_sets, split = _pod_sets(owner, size)
        ready = [pod for pod in pods if conditions.is_true(pod, "Ready")]
        return Claim(
            name=component_workload(owner, index),
            pod_sets=pod_sets,
            pods=pods,
            roles={name_of(pod): _role(pod) if split else DEFAULT_NAME for pod in pods},
            annotations={**marks_of(self.resource, owner), names.COMPONENT_WORKLOAD_INDEX: str(index)},
            ready=len(ready) >= size,
        )

    def set_of_pod(self, pod: Obj) -> Key | None:
        name = labels_of(pod).get(lws.NAME)
        return Key(namespace_of(pod), name) if name else None

    def complaint(self, owner: Obj) -> tuple[str, str] | None:
        replicas = lws.replicas_of(owner)
        if replicas <= MOST:
            return None
        return "TooManyReplicas", f"Only the first {MOST} of {replicas} replicas are queued: each of them is a workload"


def _pod_sets(owner: Obj, size: int) -> tuple[tuple[PodSet, ...], bool]:
    """The pod sets of one group, and whether its leader has a template of its own."""
    template = spec_of(owner).get("leaderWorkerTemplate") or {}
    if not template.get("leaderTemplate"):
        return (pod_set_of_template(DEFAULT_NAME, lws.worker_template(owner), size, lws.WORKER_INDEX),), False
    leader = pod_set_of_template("leader", lws.leader_template(owner), 1, "")
    workers = pod_set_of_template("worker", lws.worker_template(owner), size - 1, lws.WORKER_INDEX)
    return ((leader, workers) if size > 1 else (leader,)), True


def _role(pod: Obj) -> str:
    return "leader" if labels_of(pod).get(lws.WORKER_INDEX) == "0" else "worker"
