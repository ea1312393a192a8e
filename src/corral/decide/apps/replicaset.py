"""What a ReplicaSet does about its pods, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import Obj, generation_of, is_deleting, labels_of, name_of, namespace_of, owner_ref, spec_of
from corral.core.meta import status_of as _status_of
from corral.core.timestamps import format_time
from corral.decide.pods.facts import by_least_loss, is_active, is_available, is_ready, ready_since

MAX_PER_SYNC = 500


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """Pods to make or to delete."""

    create: tuple[Obj, ...] = ()
    delete: tuple[Obj, ...] = ()


def replicas_of(owner: Obj) -> int:
    value = spec_of(owner).get("replicas")
    return 1 if value is None else int(value)


def pod_from_template(owner: Obj, template: Obj, **metadata: object) -> Obj:
    """A pod body made from `template`, owned by `owner`, named by `metadata` (name or generateName)."""
    described = template.get("metadata") or {}
    kept = {field: described[field] for field in ("labels", "annotations", "finalizers") if described.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace_of(owner),
            **kept,
            "ownerReferences": [owner_ref(owner)],
            **metadata,
        },
        "spec": template.get("spec") or {},
    }


def plan_replicas(replica_set: Obj, pods: Sequence[Obj]) -> ReplicaPlan:
    """Bring the active pods to the wanted number."""
    if is_deleting(replica_set):
        return ReplicaPlan()
    active = [pod for pod in pods if is_active(pod)]
    missing = replicas_of(replica_set) - len(active)
    if missing > 0:
        template = spec_of(replica_set).get("template") or {}
        body = pod_from_template(replica_set, template, generateName=f"{name_of(replica_set)}-")
        return ReplicaPlan(create=(body,) * min(missing, MAX_PER_SYNC))
    return ReplicaPlan(delete=tuple(by_least_loss(active)[: min(-missing, MAX_PER_SYNC)]))


def replica_status(replica_set: Obj, pods: Sequence[Obj], now: float, failure: str = "") -> Obj:
    """The status that `pods` add up to; `failure` is why the last creation or deletion did not work."""
    spec, old = spec_of(replica_set), _status_of(replica_set)
    wanted = (spec.get("template") or {}).get("metadata", {}).get("labels") or {}
    active = [pod for pod in pods if is_active(pod)]
    minimum = float(spec.get("minReadySeconds") or 0)
    status: Obj = {"replicas": len(active), "observedGeneration": generation_of(replica_set)}
    counts = {
        "fullyLabeledReplicas": sum(wanted.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, minimum, now) for pod in active),
    }
    status.update({name: count for name, count in counts.items() if count})
    entries = _failure_conditions(old.get("conditions") or [], failure, len(active) < replicas_of(replica_set), now)
    if entries:
        status["conditions"] = entries
    return status


def _failure_conditions(old: Sequence[Obj], failure: str, short: bool, now: float) -> list[Obj]:
    others = conditions.without(old, "ReplicaFailure")
    if not failure:
        return others
    entry = conditions.condition("ReplicaFailure", True, "FailedCreate" if short else "FailedDelete", failure)
    return [*others, {**entry, "lastTransitionTime": format_time(now)}]


def until_available(pods: Sequence[Obj], min_ready_s: float, now: float) -> float | None:
    """Seconds until the next ready pod counts as available; None when none is waiting."""
    waits = [
        since + min_ready_s - now
        for pod in pods
        if is_active(pod) and (since := ready_since(pod)) is not None and since + min_ready_s > now
    ]
    return min(waits, default=None)
