"""What the queueing controllers share: client, clock, configuration, and the indexed caches they read.

Indexes make every question a reconcile asks cost what it touches: workloads of an owner, of a LocalQueue, LocalQueues of
a ClusterQueue, ClusterQueues of a flavor, a check or a cohort.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.configuration.queueing import QueueingConfig
from corral.controllers import workload_status
from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    key_of,
    name_of,
    namespace_of,
    owner_references_of,
    resource_version_of,
    spec_of,
    status_of,
)
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    names,
)
from corral.runtime.controller import Manager
from corral.workload import statuses
from corral.workload import workload as wl
from corral.workload.podset_info import start_infos
from corral.workload.podsets import PodSetInfo

FIELD_MANAGER = "kueue"
ADMISSION_MANAGER = statuses.ADMISSION
PROGRESS = (names.PODS_READY, names.WAITING_FOR_REPLACEMENT_PODS)
"""Conditions that jobs report about themselves."""

# Index names
BY_OWNER = "owner"
BY_OWNER_NAME = "ownerName"
BY_QUEUE = "queue"
BY_CLUSTER_QUEUE = "clusterQueue"
BY_FLAVOR = "flavor"
BY_CHECK = "check"
BY_COHORT = "cohort"
BY_TOPOLOGY = "topology"
BY_PRIORITY_CLASS = "priorityClass"
BY_RESERVATION = "reservedIn"
BY_SLICE_NAME = "sliceName"


def _owners(workload: Obj) -> Iterable[str]:
    return [str(reference.get("uid", "")) for reference in owner_references_of(workload)]


def owner_name_index(group: str, kind: str, key: Key) -> str:
    """How a workload is found by the name of its owner, once nobody knows the owner's uid any more."""
    return f"{group}/{kind}/{key}"


def _owner_names(workload: Obj) -> Iterable[str]:
    references = owner_references_of(workload)
    return [_owner_name(workload, reference) for reference in references] if references else ()


def _owner_name(workload: Obj, reference: Obj) -> str:
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    key = Key(namespace_of(workload), str(reference.get("name", "")))
    return owner_name_index(group, str(reference.get("kind", "")), key)


def _queue(workload: Obj) -> Iterable[str]:
    queue = wl.queue_of(workload)
    return (f"{namespace_of(workload)}/{queue}",) if queue else ()


def _reserved_in(workload: Obj) -> Iterable[str]:
    name = wl.cluster_queue_of(workload)
    return (name,) if name else ()


def _priority_class(workload: Obj) -> Iterable[str]:
    reference = spec_of(workload).get("priorityClassRef") or {}
    is_ours = reference.get("kind") == "WorkloadPriorityClass"
    return (str(reference.get("name", "")),) if is_ours else ()


def _slice_name(workload: Obj) -> Iterable[str]:
    return (str(Key(namespace_of(workload), wl.slice_name(workload))),) if wl.is_elastic(workload) else ()


def flavors_of(queue: Obj) -> list[str]:
    """Flavors a ClusterQueue or Cohort has quota for, each once, in order."""
    groups = spec_of(queue).get("resourceGroups") or []
    return list(dict.fromkeys(flavor["name"] for group in groups for flavor in group.get("flavors") or []))


def checks_of(queue: Obj) -> list[str]:
    """Admission checks a ClusterQueue asks for."""
    strategy = spec_of(queue).get("admissionChecksStrategy") or {}
    return [rule["name"] for rule in strategy.get("admissionChecks") or []]


class Caches:
    """The shared informers of everything queueing looks at."""

    def __init__(self, manager: Manager) -> None:
        self.workloads = manager.informer(WORKLOADS)
        self.cluster_queues = manager.informer(CLUSTER_QUEUES)
        self.local_queues = manager.informer(LOCAL_QUEUES)
        self.cohorts = manager.informer(COHORTS)
        self.flavors = manager.informer(RESOURCE_FLAVORS)
        self.checks = manager.informer(ADMISSION_CHECKS)
        self.topologies = manager.informer(TOPOLOGIES)
        self.priority_classes = manager.informer(WORKLOAD_PRIORITY_CLASSES)
        self.pod_priority_classes = manager.informer(PRIORITY_CLASSES)
        self.namespaces = manager.informer(NAMESPACES)
        self.workloads.add_index(BY_OWNER, _owners)
        self.workloads.add_index(BY_OWNER_NAME, _owner_names)
        self.workloads.add_index(BY_QUEUE, _queue)
        self.workloads.add_index(BY_RESERVATION, _reserved_in)
        self.workloads.add_index(BY_PRIORITY_CLASS, _priority_class)
        self.workloads.add_index(BY_SLICE_NAME, _slice_name)
        self.local_queues.add_index(BY_CLUSTER_QUEUE, lambda lq: (str(spec_of(lq).get("clusterQueue", "")),))
        self.cluster_queues.add_index(BY_FLAVOR, flavors_of)
        self.cluster_queues.add_index(BY_CHECK, checks_of)
        self.cluster_queues.add_index(BY_COHORT, lambda cq: (str(spec_of(cq).get("cohortName", "")),))
        self.flavors.add_index(BY_TOPOLOGY, lambda flavor: (str(spec_of(flavor).get("topologyName", "")),))

    def current_slice(self, key: Key) -> Obj | None:
        """The Workload that pods started for `key` run under now: of an elastic job's, the last one that is in force."""
        held = self.workloads.by_index(BY_SLICE_NAME, str(key))
        live = [found for found in held if wl.is_admitted(found) and not wl.is_finished(found)]
        replaced = {annotations_of(found).get(names.WORKLOAD_SLICE_REPLACEMENT_FOR) for found in live}
        current = next((found for found in live if str(key_of(found)) not in replaced), None)
        return current if current is not None else self.workloads.get(key)

    def workloads_of_local_queue(self, key: Key) -> list[Obj]:
        return self.workloads.by_index(BY_QUEUE, str(key))

    def workloads_of_cluster_queue(self, name: str) -> list[Obj]:
        """Workloads submitted to, or holding quota of, a ClusterQueue; each once."""
        found: dict[Key, Obj] = {}
        for queue in self.local_queues.by_index(BY_CLUSTER_QUEUE, name):
            for workload in self.workloads.by_index(BY_QUEUE, str(Key(namespace_of(queue), name_of(queue)))):
                found[Key(namespace_of(workload), name_of(workload))] = workload
        for workload in self.workloads.by_index(BY_RESERVATION, name):
            found[Key(namespace_of(workload), name_of(workload))] = workload
        return list(found.values())

    def cluster_queue_of(self, workload: Obj) -> Obj | None:
        """The ClusterQueue behind a workload's LocalQueue."""
        queue = self.local_queues.get(wl.local_queue_key(workload))
        name = str(spec_of(queue).get("clusterQueue", "")) if queue else ""
        return self.cluster_queues.get(Key("", name)) if name else None


class QueueingContext:
    """The manager, the configuration and the caches of one cluster's queueing."""

    def __init__(self, manager: Manager, config: QueueingConfig) -> None:
        self.manager, self.config = manager, config
        self.client, self.clock, self.recorder = manager.client, manager.clock, manager.recorder
        self.caches = Caches(manager)

    def now(self) -> str:
        return self.clock.timestamp()

    def start_infos(self, workload: Obj) -> list[PodSetInfo]:
        """What the pod templates of an admitted Workload get; raises ConflictingUpdate or FlavorGone."""
        return start_infos(
            workload,
            lambda name: self.caches.flavors.get(Key("", name)),
            queue_labels=self.config.gates["AssignQueueLabelsForPods"],
        )

    async def write_status(self, new: Obj, *, narrow: bool = False) -> Obj:
        """Store the status of a Workload as the one who admits, refused when it changed since `new` was read.

        `narrow` writes are reservations; see `jobs.statuses`.
        """
        if self._merges:
            return await self.replace_status(new)
        return self._written(await workload_status.write_admission(self.client, new, narrow=narrow))

    async def write_part(self, new: Obj, manager: str, part: Obj, *, strict: bool = True) -> Obj:
        """Store the `part` of a Workload's status that `manager` declares."""
        if self._merges:
            return await self.replace_status(new)
        return self._written(await workload_status.apply_status(self.client, new, manager, part, strict=strict))

    def _written(self, workload: Obj) -> Obj:
        self.caches.workloads.learn(workload)
        return workload

    async def write_progress(self, old: Obj, new: Obj) -> Obj:
        """Store what a job reports about itself: readiness and reclaimable pods, each under its own name. Only the job
        decides about these, so it does not matter what else changed meanwhile."""
        before, after = status_of(old), status_of(new)
        written = new
        if before.get("reclaimablePods") != after.get("reclaimablePods"):
            part = {"reclaimablePods": after.get("reclaimablePods")}
            written = await self.write_part(written, statuses.RECLAIMABLE, part, strict=False)
        for kind in PROGRESS:
            if conditions.find(old, kind) != conditions.find(new, kind):
                part = statuses.condition_part(new, kind)
                written = await self.write_part(written, f"kueue-job-controller-{kind}", part, strict=False)
        return written

    @property
    def _merges(self) -> bool:
        return self.config.gates["WorkloadRequestUseMergePatch"]

    async def replace_status(self, new: Obj) -> Obj:
        """Store the whole status of a Workload."""
        return self._written(await self.client.update(WORKLOADS, new, subresource="status", manager=FIELD_MANAGER))


def changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether two versions of an object differ at all; resyncs and replays do not."""
    return old is None or new is None or resource_version_of(old) != resource_version_of(new)
