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

from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
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
)
from corral.core.timestamps import parse_time
from corral.kinds.kueue import WORKLOADS, names
from corral.workload import workload as wl

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


def marked_as_parent(workload: Obj) -> Obj:
    return with_labels(workload, {PARENT: "true"})


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


class VariantSwitch(NamedTuple):
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

    def changes(self) -> Iterator[VariantSwitch]:
        """Variants whose turn is over, and those whose turn may come."""
        for change in self._switches():
            if wl.is_active(change.variant) is not change.active:
                yield change

    def _switches(self) -> Iterator[VariantSwitch]:
        if not wl.is_active(self.parent):
            why = f'Parent Workload "{key_of(self.parent)}" not active'
            yield from (VariantSwitch(variant, False, why) for variant in self.variants)
            return
        admitted = self.admitted
        if admitted is None:
            yield from (VariantSwitch(variant, True, "no other Variant being admitted") for variant in self.variants)
            return
        last = str((self.policy.get("constraints") or {}).get("lastAcceptableFlavorName") or "")
        for variant in self.variants:
            if variant is not admitted:
                yield self._beside(variant, admitted, last)

    def _beside(self, variant: Obj, admitted: Obj, last: str) -> VariantSwitch:
        """What becomes of a variant while another one runs."""
        name = f'"{key_of(admitted)}"'
        if self.policy.get("mode") == RETAIN_FIRST:
            return VariantSwitch(variant, False, f"RetainFirstAdmission: another Variant {name} is admitted")
        mine, running = self.order[flavor_of(variant)], self.order[flavor_of(admitted)]
        if last and mine > self.order.get(last, len(self.order)):
            return VariantSwitch(
                variant, False, f'being below lastAcceptableFlavor: "{last}" and another Variant admitted {name}'
            )
        if mine > running:
            return VariantSwitch(variant, False, f"being lower priority than admitted Variant {name}")
        if last:
            return VariantSwitch(
                variant,
                True,
                f'being at least lastAcceptableFlavor: "{last}" and higher priority than admitted Variant {name}',
            )
        return VariantSwitch(variant, True, f"being higher priority than admitted Variant {name}")

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
