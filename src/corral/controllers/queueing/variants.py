"""Concurrent admission: one Workload tried on every flavor of its ClusterQueue at once.

The Workload of a job becomes a parent and is not queued itself. For every flavor there is a variant of it, a Workload
that may use this flavor only; the first that is admitted lends its admission to the parent, and the job starts. Variants
on flavors the queue prefers go on trying if its policy says so; the scheduler then moves the admitted one out of the way,
the parent is evicted, and when its job has stopped the better variant takes over. Variants that would have to preempt wait
for their gate, which opens for one of them at a time, the most preferred first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from corral.controllers.queueing.context import BY_OWNER, FIELD_MANAGER, Context
from corral.core import conditions
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_labels,
    with_status,
    without_finalizer,
)
from corral.core.timestamps import parse_time
from corral.jobs import lifecycle
from corral.jobs import workload as wl
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS, names
from corral.runtime.controller import Manager, Result, Watch

GATE = f"{names.GROUP}/concurrent-admission"
PARENT = f"{names.GROUP}/concurrent-admission-parent"
FLAVORS = f"{names.GROUP}/workload-allowed-resource-flavors"
RETAIN_FIRST = "RetainFirstAdmission"
PREEMPTION_TIMEOUT_S = 300.0
"""How long one variant may preempt before the next one may, too."""


def is_parent(workload: Obj) -> bool:
    return labels_of(workload).get(PARENT) == "true"


def parent_of(workload: Obj) -> Key | None:
    """The Workload that this one is a variant of."""
    for owner in owner_references_of(workload):
        if owner.get("kind") == WORKLOADS.kind and str(owner.get("apiVersion", "")).startswith(f"{names.GROUP}/"):
            return Key(namespace_of(workload), str(owner["name"]))
    return None


def flavor_of(variant: Obj) -> str:
    return str(annotations_of(variant).get(FLAVORS, "")).partition(",")[0]


def policy_of(queue: Obj | None) -> Obj | None:
    """The migration policy of a ClusterQueue that admits concurrently."""
    found: Obj | None = (spec_of(queue or {}).get("concurrentAdmissionPolicy") or {}).get("migration")
    return found


def flavors_of(queue: Obj) -> list[str]:
    groups = spec_of(queue).get("resourceGroups") or []
    return [str(entry["name"]) for entry in groups[0]["flavors"]] if groups else []


def new_variant(parent: Obj, flavor: str) -> Obj:
    """The parent, restricted to one flavor and kept from preempting at will."""
    spec = spec_of(parent)
    gates = [gate for gate in spec.get("preemptionGates") or () if gate["name"] != GATE]
    labels = {name: value for name, value in labels_of(parent).items() if name != PARENT}
    base = f"{name_of(parent)}-variant-{flavor}"
    digest = wl.workload_name(WORKLOADS.kind, names.GROUP, name_of(parent), uid_of(parent), flavor).rpartition("-")[2]
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": f"{base[: wl.MAX_NAME - len(digest) - 1]}-{digest}",
            "namespace": namespace_of(parent),
            "labels": labels,
            "annotations": {**annotations_of(parent), FLAVORS: flavor},
            "ownerReferences": [
                owner_ref({"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, **parent}, block=True)
            ],
        },
        "spec": {**spec, "preemptionGates": [*gates, {"name": GATE}]},
    }


class Change(NamedTuple):
    """A variant to switch on or off, and why."""

    variant: Obj
    active: bool
    why: str


class Family:
    """A parent with its variants, most preferred first."""

    def __init__(self, parent: Obj, variants: Iterable[Obj], queue: Obj) -> None:
        order = {name: at for at, name in enumerate(flavors_of(queue))}
        self.parent = parent
        self.order: Mapping[str, int] = order
        self.policy = policy_of(queue) or {}
        known = [variant for variant in variants if flavor_of(variant) in order]
        self.variants = sorted(known, key=lambda variant: order[flavor_of(variant)])
        self.stale = [variant for variant in variants if flavor_of(variant) not in order]

    @property
    def admitted(self) -> Obj | None:
        return next((variant for variant in self.variants if wl.is_admitted(variant)), None)

    def missing(self) -> list[str]:
        held = {flavor_of(variant) for variant in self.variants}
        return [flavor for flavor in self.order if flavor not in held]

    def changes(self) -> Iterator[Change]:
        """Variants whose turn is over, and those whose turn may come."""
        for change in self._switches():
            if wl.is_active(change.variant) is not change.active:
                yield change

    def _switches(self) -> Iterator[Change]:
        if not wl.is_active(self.parent):
            why = f'Parent Workload "{key_of(self.parent)}" not active'
            yield from (Change(variant, False, why) for variant in self.variants)
            return
        admitted = self.admitted
        if admitted is None:
            yield from (Change(variant, True, "no other Variant being admitted") for variant in self.variants)
            return
        last = str((self.policy.get("constraints") or {}).get("lastAcceptableFlavorName") or "")
        for variant in self.variants:
            if variant is not admitted:
                yield self._beside(variant, admitted, last)

    def _beside(self, variant: Obj, admitted: Obj, last: str) -> Change:
        """What becomes of a variant while another one runs."""
        name = f'"{key_of(admitted)}"'
        if self.policy.get("mode") == RETAIN_FIRST:
            return Change(variant, False, f"RetainFirstAdmission: another Variant {name} is admitted")
        mine, running = self.order[flavor_of(variant)], self.order[flavor_of(admitted)]
        if last and mine > self.order.get(last, len(self.order)):
            return Change(
                variant, False, f'being below lastAcceptableFlavor: "{last}" and another Variant admitted {name}'
            )
        if mine > running:
            return Change(variant, False, f"being lower priority than admitted Variant {name}")
        if last:
            return Change(
                variant,
                True,
                f'being at least lastAcceptableFlavor: "{last}" and higher priority than admitted Variant {name}',
            )
        return Change(variant, True, f"being higher priority than admitted Variant {name}")

    def gate_to_open(self, now: float) -> tuple[Obj | None, float | None]:
        """The variant that may preempt now, if any, and when to look again."""
        waiting = [
            variant
            for variant in self.variants
            if wl.is_active(variant) and not wl.has_quota(variant) and not wl.is_finished(variant)
        ]
        candidate = _first_blocked(waiting)
        if candidate is None:
            return None, None
        opened = [parse_time(gate["lastTransitionTime"]) for gate in map(_open_gate, waiting) if gate is not None]
        left = max(opened) + PREEMPTION_TIMEOUT_S - now if opened else 0.0
        return (None, left) if left > 0 else (candidate, PREEMPTION_TIMEOUT_S)


def _first_blocked(variants: Sequence[Obj]) -> Obj | None:
    """The most preferred variant that only its gate holds back; None while a better one was not looked at yet."""
    for variant in variants:
        if _open_gate(variant) is not None:
            continue
        if conditions.is_true(variant, names.BLOCKED_ON_PREEMPTION_GATES):
            return variant
        if conditions.find(variant, names.QUOTA_RESERVED) is None:
            return None
    return None


def _open_gate(variant: Obj) -> Obj | None:
    for gate in status_of(variant).get("preemptionGates") or ():
        if gate.get("name") == GATE and gate.get("position") == "Open":
            found: Obj = gate
            return found
    return None


class VariantController:
    """Keeps families together."""

    name = "kueue-concurrent-admission-controller"

    def __init__(self, context: Context) -> None:
        self.context = context
        self.caches = context.caches
        self.client = context.client
        self.recorder = context.recorder.named(self.name)

    def setup(self, manager: Manager) -> None:
        manager.add(
            self,
            watches=[
                Watch(WORKLOADS, map=_families),
                Watch(CLUSTER_QUEUES, map=self._of_cluster_queue, when=_flavors_changed),
            ],
            workers=self.context.config.workers.get("Workload.kueue.x-k8s.io", 10),
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
            await self._delete(variant)
            message = (
                f'Variant Workload "{key_of(variant)}" deleted; flavor "{flavor_of(variant)}" no longer in ClusterQueue'
            )
            self.recorder.event(parent, "Normal", "DeletedVariant", message)
        return bool(family.missing() or family.stale)

    async def _delete(self, variant: Obj) -> None:
        try:
            if names.RESOURCE_IN_USE in finalizers_of(variant):
                bare = without_finalizer(variant, names.RESOURCE_IN_USE)
                await self.client.update(WORKLOADS, bare, manager=FIELD_MANAGER)
            await self.client.delete(WORKLOADS, name_of(variant), namespace_of(variant), uid=uid_of(variant))
        except NotFound:
            return

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


def marked_as_parent(workload: Obj) -> Obj:
    return with_labels(workload, {PARENT: "true"})


def _families(workload: Obj) -> Iterable[Key]:
    if is_parent(workload):
        return (key_of(workload),)
    parent = parent_of(workload)
    return (parent,) if parent is not None else ()


def _flavors_changed(old: Obj | None, new: Obj | None) -> bool:
    return old is not None and new is not None and flavors_of(old) != flavors_of(new)
