"""A StatefulSet's next step: pods with fixed names, started in order, stopped in reverse, updated from the end.

With OrderedReady one pod changes at a time and only when its predecessors are ready; with Parallel all missing pods
start and all surplus pods stop at once. Pods are made from one of two template revisions, the current or the updated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.meta import Obj, generation_of, is_deleting, labels_of, name_of, spec_of, status_of
from corral.core.whole_numbers import whole_number
from corral.decide.apps.replicaset import pod_from_template, replicas_of
from corral.decide.pods.facts import is_available, is_ready, is_terminal, phase_of
from corral.decide.pods.growth import STEP, at_once

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class Revisions:
    """The two templates pods may be made from, by revision name."""

    current: str
    update: str
    templates: Mapping[str, Obj]


@dataclass(frozen=True, slots=True)
class StatefulPlan:
    """Pods to make and to delete now."""

    create: tuple[Obj, ...] = ()
    delete: tuple[Obj, ...] = ()
    replaced: frozenset[str] = field(default_factory=frozenset)
    """Names among `delete` of pods that ended and are made anew."""


def ordinal_of(owner: str, pod: Obj) -> int | None:
    """The ordinal in a pod's name, or None when the name is not of this set."""
    prefix, _, text = name_of(pod).rpartition("-")
    return whole_number(text) if prefix == owner else None


def ordinals(stateful_set: Obj) -> range:
    start = int((spec_of(stateful_set).get("ordinals") or {}).get("start") or 0)
    return range(start, start + replicas_of(stateful_set))


def is_ordered(stateful_set: Obj) -> bool:
    return bool(spec_of(stateful_set).get("podManagementPolicy") != "Parallel")


def _strategy(stateful_set: Obj) -> Obj:
    return spec_of(stateful_set).get("updateStrategy") or {}


def _partition(stateful_set: Obj) -> int:
    return int((_strategy(stateful_set).get("rollingUpdate") or {}).get("partition") or 0)


def _is_healthy(pod: Obj) -> bool:
    return phase_of(pod) == "Running" and is_ready(pod) and not is_deleting(pod)


def _min_ready(stateful_set: Obj) -> float:
    return float(spec_of(stateful_set).get("minReadySeconds") or 0)


def revision_for(stateful_set: Obj, revisions: Revisions, ordinal: int) -> str:
    """Which revision a pod that is made now gets: pods below the partition stay with the current one."""
    if _strategy(stateful_set).get("type", "RollingUpdate") == "OnDelete":
        return revisions.update
    below = ordinal < ordinals(stateful_set).start + _partition(stateful_set)
    return revisions.current if below else revisions.update


def new_pod(stateful_set: Obj, revisions: Revisions, ordinal: int) -> Obj:
    """The pod of one ordinal, with its identity and its claims."""
    revision = revision_for(stateful_set, revisions, ordinal)
    name = f"{name_of(stateful_set)}-{ordinal}"
    pod = pod_from_template(stateful_set, revisions.templates[revision], name=name)
    labels = {
        **(pod["metadata"].get("labels") or {}),
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        REVISION: revision,
    }
    pod["metadata"] = {**pod["metadata"], "labels": labels}
    claims = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(claim, name)}}
        for claim in spec_of(stateful_set).get("volumeClaimTemplates") or ()
    ]
    taken = {volume["name"] for volume in claims}
    volumes = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in taken] + claims
    identity = {"hostname": name, "subdomain": spec_of(stateful_set).get("serviceName") or ""}
    pod["spec"] = {**pod["spec"], **{key: value for key, value in identity.items() if value}}
    if volumes:
        pod["spec"]["volumes"] = volumes
    return pod


def claim_name(template: Obj, pod_name: str) -> str:
    return f"{template['metadata']['name']}-{pod_name}"


def plan_stateful(
    stateful_set: Obj, pods: Sequence[Obj], revisions: Revisions, now: float, room: int = STEP
) -> StatefulPlan:
    """The next step towards the wanted pods, of which at most `room` are made."""
    if is_deleting(stateful_set):
        return StatefulPlan()
    by_ordinal = _by_ordinal(stateful_set, pods)
    ordered = is_ordered(stateful_set)
    room = at_once(room, sum(phase_of(pod) == "Pending" for pod in pods))
    create: list[Obj] = []
    delete: list[Obj] = []
    replaced: set[str] = set()
    for ordinal in ordinals(stateful_set):
        pod = by_ordinal.get(ordinal)
        if pod is None and len(create) >= room:
            return StatefulPlan(tuple(create), tuple(delete), frozenset(replaced))
        if pod is None:
            create.append(new_pod(stateful_set, revisions, ordinal))
        elif is_terminal(pod) and not is_deleting(pod):
            delete.append(pod)
            replaced.add(name_of(pod))
        elif (_is_healthy(pod) and is_available(pod, _min_ready(stateful_set), now)) or not ordered:
            continue
        if ordered:
            return StatefulPlan(tuple(create), tuple(delete), frozenset(replaced))
    surplus = _surplus(stateful_set, by_ordinal, ordered)
    if surplus is not None:
        delete += surplus
    if create or delete or surplus is not None:
        return StatefulPlan(tuple(create), tuple(delete), frozenset(replaced))
    return StatefulPlan(delete=_outdated(stateful_set, by_ordinal, revisions, now))


def _by_ordinal(stateful_set: Obj, pods: Sequence[Obj]) -> dict[int, Obj]:
    found = ((ordinal_of(name_of(stateful_set), pod), pod) for pod in pods)
    return {ordinal: pod for ordinal, pod in found if ordinal is not None}


def _surplus(stateful_set: Obj, by_ordinal: Mapping[int, Obj], ordered: bool) -> list[Obj] | None:
    """Surplus pods to delete now, highest first; None when there are none, empty when one must be waited for."""
    wanted = ordinals(stateful_set)
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in wanted]
    if not condemned:
        return None
    if not ordered:
        return [pod for pod in condemned if not is_deleting(pod)]
    return [] if is_deleting(condemned[0]) else [condemned[0]]


def _outdated(stateful_set: Obj, by_ordinal: Mapping[int, Obj], revisions: Revisions, now: float) -> tuple[Obj, ...]:
    """The pod to replace next in a rolling update: the highest that is outdated, when all above it are healthy."""
    if _strategy(stateful_set).get("type", "RollingUpdate") != "RollingUpdate":
        return ()
    wanted = ordinals(stateful_set)
    for ordinal in reversed(range(wanted.start + _partition(stateful_set), wanted.stop)):
        pod = by_ordinal[ordinal]
        if labels_of(pod).get(REVISION) != revisions.update and not is_deleting(pod):
            return (pod,)
        if not _is_healthy(pod) or not is_available(pod, _min_ready(stateful_set), now):
            return ()
    return ()


def stateful_status(stateful_set: Obj, pods: Sequence[Obj], revisions: Revisions, now: float) -> Obj:
    """The status, with the update revision made current once every pod has it and is ready."""
    members = list(_by_ordinal(stateful_set, pods).values())
    alive = [pod for pod in members if not is_deleting(pod)]
    ready = [pod for pod in members if phase_of(pod) == "Running" and is_ready(pod)]
    updated = sum(labels_of(pod).get(REVISION) == revisions.update for pod in alive)
    current = sum(labels_of(pod).get(REVISION) == revisions.current for pod in alive)
    current_revision = revisions.current
    rolling = _strategy(stateful_set).get("type", "RollingUpdate") == "RollingUpdate"
    if rolling and updated == len(ready) == len(members) == replicas_of(stateful_set):
        current, current_revision = updated, revisions.update
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": current,
        "updatedReplicas": updated,
    }
    status: Obj = {
        "observedGeneration": generation_of(stateful_set),
        "replicas": len(members),
        "availableReplicas": sum(is_available(pod, _min_ready(stateful_set), now) for pod in ready),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current_revision,
        "updateRevision": revisions.update,
        "collisionCount": int(status_of(stateful_set).get("collisionCount") or 0),
    }
    return status
