"""Objects that must not disappear while others refer to them: flavors, checks, topologies; and classes whose value spreads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.controllers.queueing.context import (
    BY_CHECK,
    BY_FLAVOR,
    BY_PRIORITY_CLASS,
    BY_TOPOLOGY,
    FIELD_MANAGER,
    QueueingContext,
    checks_of,
    flavors_of,
)
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    is_deleting,
    key_of,
    name_of,
    spec_of,
    with_finalizer,
    with_spec,
    without_finalizer,
)
from corral.core.resource import Resource
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    names,
)
from corral.runtime.controller import Result, Watch
from corral.runtime.informer import Informer
from corral.workload import workload as wl


class InUseController:
    """Holds objects of one kind by a finalizer until nothing refers to them."""

    def __init__(
        self,
        context: QueueingContext,
        resource: Resource,
        objects: Informer,
        *,
        referrer: Resource,
        refers_to: Callable[[Obj], Iterable[str]],
        users: Callable[[str], Iterable[Obj]],
    ) -> None:
        self.name = f"kueue-{resource.kind.lower()}-controller"
        self.context = context
        self.resource = resource
        self.objects = objects
        self._referrer = referrer
        self._refers_to = refers_to
        self._users = users
        context.manager.add(
            self,
            watches=[
                Watch(self.resource),
                Watch(self._referrer, map=lambda user: [Key("", name) for name in self._refers_to(user) if name]),
            ],
        )

    async def reconcile(self, key: Key) -> Result | None:
        obj = self.objects.get(key)
        if obj is None:
            return None
        held = names.RESOURCE_IN_USE in finalizers_of(obj)
        if not is_deleting(obj):
            if not held:
                await self._write(with_finalizer(obj, names.RESOURCE_IN_USE))
            return None
        if held and not list(self._users(key.name)):
            await self._write(without_finalizer(obj, names.RESOURCE_IN_USE))
        return None

    async def _write(self, obj: Obj) -> None:
        await self.context.client.update(self.resource, obj, manager=FIELD_MANAGER)


def in_use_controllers(context: QueueingContext) -> list[InUseController]:
    """Register one controller for each kind others refer to."""
    caches = context.caches
    return [
        InUseController(
            context,
            RESOURCE_FLAVORS,
            caches.flavors,
            referrer=CLUSTER_QUEUES,
            refers_to=flavors_of,
            users=lambda name: caches.cluster_queues.by_index(BY_FLAVOR, name),
        ),
        InUseController(
            context,
            ADMISSION_CHECKS,
            caches.checks,
            referrer=CLUSTER_QUEUES,
            refers_to=checks_of,
            users=lambda name: caches.cluster_queues.by_index(BY_CHECK, name),
        ),
        InUseController(
            context,
            TOPOLOGIES,
            caches.topologies,
            referrer=RESOURCE_FLAVORS,
            refers_to=lambda flavor: (str(spec_of(flavor).get("topologyName") or ""),),
            users=lambda name: caches.flavors.by_index(BY_TOPOLOGY, name),
        ),
    ]


class PriorityClassController:
    """A changed WorkloadPriorityClass changes the priority of its Workloads."""

    name = "kueue-workloadpriorityclass-controller"

    def __init__(self, context: QueueingContext) -> None:
        self.context = context
        self.caches = context.caches
        context.manager.add(
            self,
            watches=[Watch(WORKLOADS, when=_is_new), Watch(WORKLOAD_PRIORITY_CLASSES, map=self._workloads_of)],
        )

    def _workloads_of(self, priority_class: Obj) -> Iterable[Key]:
        found = self.caches.workloads.by_index(BY_PRIORITY_CLASS, name_of(priority_class))
        return [key_of(workload) for workload in found if not wl.is_finished(workload)]

    async def reconcile(self, key: Key) -> Result | None:
        workload = self.caches.workloads.get(key)
        reference = spec_of(workload or {}).get("priorityClassRef") or {}
        if workload is None or reference.get("kind") != "WorkloadPriorityClass" or wl.is_finished(workload):
            return None
        priority_class = self.caches.priority_classes.get(Key("", str(reference.get("name", ""))))
        if priority_class is None or priority_class.get("value") == spec_of(workload).get("priority"):
            return None
        spec = {**spec_of(workload), "priority": priority_class["value"]}
        await self.context.client.update(WORKLOADS, with_spec(workload, spec), manager=FIELD_MANAGER)
        return None


def _is_new(old: Obj | None, new: Obj | None) -> bool:
    return old is None and new is not None and bool(spec_of(new).get("priorityClassRef"))
