"""Works of one binding: the manifests of a snapshot group after overrides, envelopes unpacked into Works of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.core.meta import Key, Obj, annotations_of, labels_of, name_of, namespace_of, spec_of
from corral.decide.placement.bindings import Binding
from corral.decide.placement.delivery import Delivery
from corral.decide.placement.overrides import apply_overrides
from corral.decide.placement.snapshots import compact_json, is_master, sha256_of
from corral.kinds.fleet.names import (
    CLUSTER_OVERRIDE_HASH,
    ENVELOPE_NAME,
    ENVELOPE_NAMESPACE,
    ENVELOPE_WORK,
    OVERRIDE_HASH,
    PARENT_BINDING,
    PARENT_NAMESPACE,
    PARENT_PLACEMENT,
    PARENT_SNAPSHOT_INDEX,
    PARENT_SNAPSHOT_NAME,
    PLACEMENT_GROUP,
    RESOURCE_INDEX,
    SUB_INDEX,
    member_namespace,
)

ENVELOPES: Final = frozenset({"ClusterResourceEnvelope", "ResourceEnvelope"})


class EnvelopeError(ValueError):
    """An envelope wraps what it may not."""


def is_envelope(obj: Obj) -> bool:
    return obj.get("kind") in ENVELOPES and str(obj.get("apiVersion", "")).startswith(PLACEMENT_GROUP + "/")


def unpack(envelope: Obj, is_namespaced: Callable[[Obj], bool | None]) -> list[Obj]:
    """The wrapped objects, ordered by their JSON, the last first: of two that are one object the first is applied. In which
    order the others are applied is the member's to say. `is_namespaced` says None of a kind the hub does not know."""
    own = namespace_of(envelope)
    wrapped = []
    for name, obj in sorted((envelope.get("data") or {}).items()):
        scope = is_namespaced(obj)
        namespace = namespace_of(obj)
        inside = f"{name} ({namespace}/{name_of(obj)})" if namespace else f"{name} ({name_of(obj)})"
        if envelope["kind"] == "ResourceEnvelope":
            if scope is False or (scope is None and not namespace):
                raise EnvelopeError(
                    f"a cluster-scoped object {inside} has been wrapped in a resource envelope ({own}/{name_of(envelope)})"
                )
            if namespace != own:
                raise EnvelopeError(
                    f"a namespaced object {inside} in has been wrapped in a resource envelope from another namespace"
                    f" ({own}/{name_of(envelope)})"
                )
        elif scope or (scope is None and namespace):
            raise EnvelopeError(
                f"a namespaced object {inside} has been wrapped in a cluster resource envelope ({name_of(envelope)})"
            )
        wrapped.append(obj)
    return sorted(wrapped, key=compact_json, reverse=True)


@dataclass(frozen=True, slots=True)
class Order:
    """What is needed to make the Works of a binding."""

    binding: Binding
    placement: Key
    member: Obj
    snapshots: Sequence[Obj]
    """The snapshot group, master first."""
    overrides: Sequence[Obj]
    """Override snapshots named by the binding, in order of precedence."""
    is_namespaced: Callable[[Obj], bool | None]
    delivery: Delivery = field(default_factory=Delivery)


def work_base(placement: Key) -> str:
    return f"{placement.namespace}.{placement.name}" if placement.namespace else placement.name


def make_works(order: Order) -> list[Obj]:
    """Every Work the binding should have, ordered by name. Raises OverrideError or EnvelopeError."""
    works = []
    for snapshot in order.snapshots:
        base = work_base(order.placement)
        name = f"{base}-work" if is_master(snapshot) else f"{base}-{annotations_of(snapshot)[SUB_INDEX]}"
        manifests: list[Obj] = []
        for resource in spec_of(snapshot).get("selectedResources") or ():
            obj = apply_overrides(resource, order.member, order.overrides)
            if obj is None:
                continue
            if not is_envelope(obj):
                manifests.append(obj)
                continue
            inside = [
                kept
                for one in unpack(obj, order.is_namespaced)
                if (kept := apply_overrides(one, order.member, order.overrides)) is not None
            ]
            works.append(_envelope_work(order, snapshot, name, obj, inside))
        works.append(_work(order, snapshot, name, manifests, {}))
    return sorted(works, key=name_of)


def _envelope_work(order: Order, snapshot: Obj, prefix: str, envelope: Obj, manifests: list[Obj]) -> Obj:
    labels = {ENVELOPE_WORK: str(envelope["kind"]), ENVELOPE_NAME: name_of(envelope)}
    if namespace_of(envelope):
        labels[ENVELOPE_NAMESPACE] = namespace_of(envelope)
    identity = f"{envelope['kind']}/{namespace_of(envelope)}/{name_of(envelope)}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return _work(order, snapshot, f"{prefix}-envelope-{digest}", manifests, labels)


def _work(order: Order, snapshot: Obj, name: str, manifests: list[Obj], labels: dict[str, str]) -> Obj:
    binding = order.binding
    chosen = binding.overrides
    labels = {
        **labels,
        PARENT_PLACEMENT: order.placement.name,
        PARENT_BINDING: binding.name,
        PARENT_SNAPSHOT_INDEX: labels_of(snapshot).get(RESOURCE_INDEX, ""),
    }
    if order.placement.namespace:
        labels[PARENT_NAMESPACE] = order.placement.namespace
    namespaced = [{"name": name, "namespace": namespace} for namespace, name in chosen.namespaced]
    spec: Obj = {"workload": {"manifests": manifests}}
    if binding.apply_strategy:
        spec["applyStrategy"] = binding.apply_strategy
    if order.delivery.report_back:
        spec["reportBackStrategy"] = order.delivery.report_back
    return {
        "metadata": {
            "name": name,
            "namespace": member_namespace(name_of(order.member)),
            "labels": labels,
            "annotations": {
                PARENT_SNAPSHOT_NAME: name_of(snapshot),
                CLUSTER_OVERRIDE_HASH: sha256_of(list(chosen.cluster) or None),
                OVERRIDE_HASH: sha256_of(namespaced or None),
                **order.delivery.annotations,
            },
        },
        "spec": spec,
    }
