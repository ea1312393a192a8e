"""The controller of concurrent admission: makes the variants of a parent, switches them, and lends it their admission.

`variants` says what a family of them needs; here it is written, one step per look.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.controllers.queueing.context import BY_OWNER, FIELD_MANAGER, QueueingContext
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.workloads.writes import WorkloadWrites
from corral.core import conditions
from corral.core.errors import AlreadyExists
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS, names
from corral.runtime.controller import Result, Watch
from corral.workload import lifecycle
from corral.workload import workload as wl
from corral.workload.variants import GATE, Family, flavor_of, flavors_of, is_parent, new_variant, parent_of, policy_of


class VariantController:
    """Keeps families together."""

    name = "kueue-concurrent-admission-controller"

    def __init__(self, context: QueueingContext, metrics: QueueingMetrics) -> None:
        self.context = context
        self.caches = context.caches
        self.client = context.client
        self.recorder = context.recorder.named(self.name)
        self.writes = WorkloadWrites(context, metrics, self.recorder)
        context.manager.add(
            self,
            watches=[
                Watch(WORKLOADS, map=_families),
                Watch(CLUSTER_QUEUES, map=self._of_cluster_queue, when=_flavors_changed),
            ],
            workers=context.config.workers.get("Workload.kueue.x-k8s.io", 10),
        )

    def _of_cluster_queue(self, queue: Obj) -> Iterable[Key]:
        held = self.caches.workloads_of_cluster_queue(name_of(queue))
        return [key_of(workload) for workload in held if is_parent(workload)]

    async def reconcile(self, key: Key) -> Result | None:
        parent = self.caches.workloads.get(key)
        if parent is None or is_deleting(parent) or not is_parent(parent):
            return None
        local = self.caches.local_queues.get(wl.local_queue_key(parent))
        queue = self.caches.cluster_queues.get(Key("", str(spec_of(local or {}).get("clusterQueue", ""))))
        if queue is None or policy_of(queue) is None:
            return None
        family = Family(parent, self.caches.workloads.by_index(BY_OWNER, uid_of(parent)), queue)
        if wl.is_finished(parent):
            await self._finish(family)
            return None
        if await self._complete(family) or await self._settle_evictions(family) or await self._switch(family):
            return None
        if await self._lend(family):
            return None
        variant, wait = family.gate_to_open(self.context.clock.now())
        if variant is not None:
            await self._open(variant)
        return Result(requeue_after=wait) if wait is not None else None

    async def _complete(self, family: Family) -> bool:
        """One variant for every flavor, and none for flavors that left."""
        parent = family.parent
        for flavor in family.missing():
            variant = new_variant(parent, flavor)
            try:
                await self.client.create(WORKLOADS, variant, manager=FIELD_MANAGER)
            except AlreadyExists:
                continue
            message = f'Variant Workload "{key_of(variant)}" created'
            self.recorder.event(parent, "Normal", "CreatedVariant", message)
        for variant in family.stale:
            await self.writes.delete(variant)
            message = (
                f'Variant Workload "{key_of(variant)}" deleted; flavor "{flavor_of(variant)}" no longer in ClusterQueue'
            )
            self.recorder.event(parent, "Normal", "DeletedVariant", message)
        return bool(family.missing() or family.stale)

    async def _settle_evictions(self, family: Family) -> bool:
        """An evicted variant keeps its quota until the job that runs on it has stopped."""
        parent, now = family.parent, self.context.now()
        for variant in family.variants:
            if not wl.is_evicted(variant) or not wl.has_quota(variant):
                continue
            if wl.is_admitted(variant) and wl.has_quota(parent):
                if not wl.is_evicted(parent):
                    await self.context.write_status(
                        lifecycle.evict(parent, "VariantEvicted", "Admitted variant was evicted", now)
                    )
                return True
            evicted = conditions.find(variant, names.EVICTED) or {}
            freed = lifecycle.release_evicted(variant, [], now)
            if evicted.get("reason") == "FlavorMigration":
                # It only made room for a sibling; nothing is wrong with it.
                freed = lifecycle.with_condition(
                    freed, names.REQUEUED, True, "FlavorMigration", str(evicted.get("message", "")), now
                )
            await self.context.write_status(freed)
            return True
        return False

    async def _switch(self, family: Family) -> bool:
        changes = list(family.changes())
        for variant, active, why in changes:
            await self.client.patch(
                WORKLOADS, name_of(variant), namespace_of(variant), {"spec": {"active": active}}, manager=FIELD_MANAGER
            )
            reason, verb = ("ActivatedVariant", "activated") if active else ("DeactivatedVariant", "deactivated")
            self.recorder.event(variant, "Normal", reason, f"Variant Workload {verb} due to {why}")
        return bool(changes)

    async def _lend(self, family: Family) -> bool:
        """The parent is admitted as the variant is, and the variant's pods are ready as the parent's are."""
        parent, variant, now = family.parent, family.admitted, self.context.now()
        if variant is None:
            if not wl.is_admitted(parent) or wl.is_evicted(parent):
                return False
            await self.context.write_status(
                lifecycle.evict(parent, "ConcurrentAdmission", "No variant is running", now)
            )
            return True
        if not wl.is_admitted(parent):
            new = lifecycle.reserve(parent, wl.admission_of(variant), now)
            message = f"The variant {name_of(variant)} is admitted"
            new = lifecycle.with_condition(new, names.ADMITTED, True, "Admitted", message, now)
            await self.context.write_status(new)
            return True
        ready = conditions.find(parent, names.PODS_READY)
        held = conditions.find(variant, names.PODS_READY)
        if ready is None or (held or {}).get("status") == ready["status"]:
            return False
        new = lifecycle.with_condition(
            variant, names.PODS_READY, ready["status"] == "True", ready["reason"], ready.get("message", ""), now
        )
        await self.context.replace_status(new)
        return True

    async def _finish(self, family: Family) -> None:
        done = conditions.find(family.parent, names.FINISHED) or {}
        for variant in family.variants:
            if not wl.is_finished(variant):
                await self.context.write_status(
                    lifecycle.finish(variant, done["reason"], done.get("message", ""), self.context.now())
                )

    async def _open(self, variant: Obj) -> None:
        now = self.context.now()
        gates = [
            {**gate, "position": "Open", "lastTransitionTime": now} if gate["name"] == GATE else gate
            for gate in status_of(variant).get("preemptionGates") or ()
        ]
        await self.context.write_status(with_status(variant, {**status_of(variant), "preemptionGates": gates}))
        message = f'Opened preemption gate for variant workload "{key_of(variant)}"'
        self.recorder.event(variant, "Normal", "PreemptionUngatedVariant", message)


def _families(workload: Obj) -> Iterable[Key]:
    if is_parent(workload):
        return (key_of(workload),)
    parent = parent_of(workload)
    return (parent,) if parent is not None else ()


def _flavors_changed(old: Obj | None, new: Obj | None) -> bool:
    return old is not None and new is not None and flavors_of(old) != flavors_of(new)
