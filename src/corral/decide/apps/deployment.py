"""A Deployment's rollout: which ReplicaSet is made, scaled or dropped next, and what the status says about it.

One step per look: a new ReplicaSet, or more of the new one, or less of the old ones. Each step's effect shows in the
ReplicaSets' status and wakes the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import (
    Obj,
    annotations_of,
    generation_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
)
from corral.core.timestamps import format_time, parse_time
from corral.core.whole_numbers import whole_number
from corral.decide.apps.replicaset import replicas_of
from corral.decide.apps.revision import HASH_LABEL, same_template, template_hash
from corral.decide.pods.facts import created_at

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_OWN_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
)
NO_DEADLINE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the size of one ReplicaSet."""

    replica_set: Obj
    replicas: int


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """The next step of a rollout."""

    create: Obj | None = None
    scale: tuple[Scale, ...] = ()
    annotate: Obj | None = None
    """The new ReplicaSet with the annotations it should have."""
    delete: tuple[Obj, ...] = ()
    revision: str = ""
    """What the Deployment's own revision annotation should be."""


def split(deployment: Obj, replica_sets: Sequence[Obj]) -> tuple[Obj | None, list[Obj]]:
    """The ReplicaSet of the current template (the oldest, if several), and all others, oldest first."""
    ordered = sorted(replica_sets, key=lambda rs: (created_at(rs), name_of(rs)))
    template = spec_of(deployment).get("template") or {}
    new = next((rs for rs in ordered if same_template(spec_of(rs).get("template") or {}, template)), None)
    return new, [rs for rs in ordered if rs is not new]


def _resolve(value: object, total: int, *, up: bool) -> int:
    text = str(value if value is not None else "25%")
    if text.endswith("%"):
        share = int(text[:-1]) * total / 100
        return math.ceil(share) if up else math.floor(share)
    return int(text)


def is_rolling(deployment: Obj) -> bool:
    return bool((spec_of(deployment).get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def bounds(deployment: Obj) -> tuple[int, int]:
    """How many pods may exist beyond the wanted number, and how many may be missing."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = (spec_of(deployment).get("strategy") or {}).get("rollingUpdate") or {}
    total = replicas_of(deployment)
    surge = _resolve(rolling.get("maxSurge"), total, up=True)
    missing = _resolve(rolling.get("maxUnavailable"), total, up=False)
    if surge == 0 and missing == 0:
        missing = 1  # otherwise nothing could ever move
    return surge, min(missing, total)


def _total(replica_sets: Sequence[Obj]) -> int:
    return sum(map(replicas_of, replica_sets))


def _available(replica_sets: Sequence[Obj]) -> int:
    return sum(int(status_of(rs).get("availableReplicas") or 0) for rs in replica_sets)


def revision_of(obj: Obj) -> int:
    return whole_number(annotations_of(obj).get(REVISION, "0")) or 0


def plan_rollout(deployment: Obj, replica_sets: Sequence[Obj], *, old_pods_left: bool) -> RolloutPlan:
    """The next step. `old_pods_left`: pods of old ReplicaSets are still there (what Recreate waits for)."""
    new, old = split(deployment, replica_sets)
    if spec_of(deployment).get("paused") or _is_resize(deployment, replica_sets):
        return RolloutPlan(scale=tuple(_resize(deployment, new, old)), revision=_own_revision(new))
    if is_rolling(deployment):
        return _roll(deployment, new, old)
    return _recreate(deployment, new, old, old_pods_left)


def _own_revision(new: Obj | None) -> str:
    return annotations_of(new).get(REVISION, "") if new is not None else ""


def _next_revision(new: Obj | None, old: Sequence[Obj]) -> int:
    newest = max(map(revision_of, old), default=0)
    if new is not None and revision_of(new) > newest:
        return revision_of(new)
    return newest + 1


def _annotations(deployment: Obj, new: Obj | None, revision: int) -> dict[str, str]:
    """What the new ReplicaSet is annotated with: the Deployment's own annotations, the revision and the sizes."""
    held = dict(annotations_of(new)) if new is not None else {}
    copied = {name: value for name, value in annotations_of(deployment).items() if name not in _OWN_ANNOTATIONS}
    before = held.get(REVISION, "")
    if before and before != str(revision):
        held[HISTORY] = ",".join(part for part in (held.get(HISTORY, ""), before) if part)
    surge, _ = bounds(deployment)
    wanted = replicas_of(deployment)
    return {**held, **copied, REVISION: str(revision), DESIRED: str(wanted), MAXIMUM: str(wanted + surge)}


def new_replica_set(deployment: Obj, revision: int, replicas: int) -> Obj:
    """The ReplicaSet of the current template."""
    spec, template = spec_of(deployment), spec_of(deployment).get("template") or {}
    suffix = template_hash(template, int(status_of(deployment).get("collisionCount") or 0))
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: suffix}
    selector = spec.get("selector") or {}
    matched = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}}
    body: Obj = {
        "replicas": replicas,
        "selector": matched,
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        body["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)}-{suffix}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "annotations": _annotations(deployment, None, revision),
            "ownerReferences": [owner_ref(deployment)],
        },
        "spec": body,
    }


def _first_size(deployment: Obj, old: Sequence[Obj], current: int) -> int:
    """How large the new ReplicaSet may be now."""
    wanted = replicas_of(deployment)
    if not is_rolling(deployment):
        return wanted
    surge, _ = bounds(deployment)
    room = wanted + surge - _total(old) - current
    return current + max(0, min(room, wanted - current))


def _roll(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> RolloutPlan:
    revision = _next_revision(new, old)
    if new is None:
        body = new_replica_set(deployment, revision, _first_size(deployment, old, 0))
        return RolloutPlan(create=body, revision=str(revision))
    annotate = _annotated(deployment, new, revision)
    wanted, current = replicas_of(deployment), replicas_of(new)
    target = wanted if current > wanted else _first_size(deployment, old, current)
    if target != current:
        return RolloutPlan(scale=(Scale(new, target),), annotate=annotate, revision=str(revision))
    shrink = _shrink_old(deployment, new, old)
    return RolloutPlan(scale=shrink, annotate=annotate, delete=_outdated(deployment, new, old), revision=str(revision))


def _annotated(deployment: Obj, new: Obj, revision: int) -> Obj | None:
    wanted = _annotations(deployment, new, revision)
    minimum = spec_of(deployment).get("minReadySeconds") or 0
    if wanted == annotations_of(new) and minimum == (spec_of(new).get("minReadySeconds") or 0):
        return None
    spec = {**spec_of(new), **({"minReadySeconds": minimum} if minimum else {})}
    return {**new, "metadata": {**metadata_of(new), "annotations": wanted}, "spec": spec}


def _shrink_old(deployment: Obj, new: Obj, old: Sequence[Obj]) -> tuple[Scale, ...]:
    _, missing = bounds(deployment)
    floor = replicas_of(deployment) - missing
    not_yet = replicas_of(new) - int(status_of(new).get("availableReplicas") or 0)
    budget = _total([new, *old]) - floor - not_yet
    if budget <= 0 or _total(old) == 0:
        return ()
    sizes: dict[str, int] = {}
    for rs in old:  # pods that serve nobody go first, whatever their number
        idle = replicas_of(rs) - int(status_of(rs).get("availableReplicas") or 0)
        cut = min(budget - (_total(old) - sum(sizes.get(name_of(o), replicas_of(o)) for o in old)), max(0, idle))
        if cut > 0:
            sizes[name_of(rs)] = replicas_of(rs) - cut
    spare = _available([new, *old]) - floor
    for rs in old:
        size = sizes.get(name_of(rs), replicas_of(rs))
        cut = min(spare, size)
        if cut > 0:
            sizes[name_of(rs)] = size - cut
            spare -= cut
    return tuple(
        Scale(rs, sizes[name_of(rs)]) for rs in old if sizes.get(name_of(rs), replicas_of(rs)) != replicas_of(rs)
    )


def _recreate(deployment: Obj, new: Obj | None, old: Sequence[Obj], old_pods_left: bool) -> RolloutPlan:
    shrink = tuple(Scale(rs, 0) for rs in old if replicas_of(rs) > 0)
    if shrink:
        return RolloutPlan(scale=shrink, revision=_own_revision(new))
    if old_pods_left:
        return RolloutPlan(revision=_own_revision(new))
    revision = _next_revision(new, old)
    if new is None:
        return RolloutPlan(
            create=new_replica_set(deployment, revision, replicas_of(deployment)), revision=str(revision)
        )
    scale = (Scale(new, replicas_of(deployment)),) if replicas_of(new) != replicas_of(deployment) else ()
    return RolloutPlan(
        scale=scale,
        annotate=_annotated(deployment, new, revision),
        delete=_outdated(deployment, new, old),
        revision=str(revision),
    )


def _outdated(deployment: Obj, new: Obj, old: Sequence[Obj]) -> tuple[Obj, ...]:
    """Old ReplicaSets beyond the history limit, once the rollout is complete."""
    if not is_complete(deployment, rollout_counts(deployment, new, old)):
        return ()
    limit = spec_of(deployment).get("revisionHistoryLimit")
    empty = [rs for rs in old if replicas_of(rs) == 0 and not status_of(rs).get("replicas")]
    surplus = len(empty) - (10 if limit is None else int(limit))
    return tuple(sorted(empty, key=revision_of)[: max(0, surplus)])


def _is_resize(deployment: Obj, replica_sets: Sequence[Obj]) -> bool:
    """The Deployment's size changed since its ReplicaSets were last sized."""
    return any(
        replicas_of(rs) > 0
        and annotations_of(rs).get(DESIRED, str(replicas_of(deployment))) != str(replicas_of(deployment))
        for rs in replica_sets
    )


def _resize(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> list[Scale]:
    """Give a changed size to the ReplicaSets in proportion to what they have."""
    wanted = replicas_of(deployment)
    members = [rs for rs in (new, *old) if rs is not None]
    active = [rs for rs in members if replicas_of(rs) > 0]
    if len(active) <= 1:
        only = active[0] if active else new
        return [Scale(only, wanted)] if only is not None and not _is_sized(deployment, only, wanted) else []
    if new is not None and replicas_of(new) == wanted and int(status_of(new).get("availableReplicas") or 0) == wanted:
        return [Scale(rs, 0) for rs in old if replicas_of(rs) > 0]
    if not is_rolling(deployment):
        return []
    surge, _ = bounds(deployment)
    allowed = wanted + surge if wanted > 0 else 0
    add = allowed - _total(active)
    order = sorted(active, key=lambda rs: (-replicas_of(rs), -created_at(rs) if add > 0 else created_at(rs)))
    sizes, left = {}, add
    for rs in order:
        share = _share(deployment, rs, wanted, surge)
        part = max(min(share, left), 0) if add > 0 else min(max(share, left), 0)
        sizes[name_of(rs)] = replicas_of(rs) + part
        left -= part
    sizes[name_of(order[0])] = max(0, sizes[name_of(order[0])] + left)
    return [Scale(rs, sizes[name_of(rs)]) for rs in order if not _is_sized(deployment, rs, sizes[name_of(rs)])]


def _is_sized(deployment: Obj, rs: Obj, size: int) -> bool:
    surge, _ = bounds(deployment)
    wanted = replicas_of(deployment)
    held = annotations_of(rs)
    return replicas_of(rs) == size and held.get(DESIRED) == str(wanted) and held.get(MAXIMUM) == str(wanted + surge)


def _share(deployment: Obj, rs: Obj, wanted: int, surge: int) -> int:
    """How much of a change falls to `rs`: its share of the size the change started from."""
    before = whole_number(annotations_of(rs).get(MAXIMUM, "")) or int(status_of(deployment).get("replicas") or 0) or 1
    return round(replicas_of(rs) * (wanted + surge) / before) - replicas_of(rs)


def scaled(deployment: Obj, step: Scale) -> Obj:
    """The ReplicaSet after a step, with the sizes noted that later changes are measured against."""
    surge, _ = bounds(deployment)
    wanted = replicas_of(deployment)
    annotations = {**annotations_of(step.replica_set), DESIRED: str(wanted), MAXIMUM: str(wanted + surge)}
    return {
        **step.replica_set,
        "metadata": {**metadata_of(step.replica_set), "annotations": annotations},
        "spec": {**spec_of(step.replica_set), "replicas": step.replicas},
    }


# Status


def rollout_counts(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> Obj:
    """The counters of the status, as the ReplicaSets report them."""
    members = [rs for rs in (new, *old) if rs is not None]

    def total(name: str, among: Sequence[Obj]) -> int:
        return sum(int(status_of(rs).get(name) or 0) for rs in among)

    available = total("availableReplicas", members)
    counts = {
        "replicas": total("replicas", members),
        "updatedReplicas": total("replicas", [new]) if new is not None else 0,
        "readyReplicas": total("readyReplicas", members),
        "availableReplicas": available,
        "unavailableReplicas": max(0, _total(members) - available),
    }
    return {name: count for name, count in counts.items() if count}


def is_complete(deployment: Obj, counts: Obj) -> bool:
    wanted = replicas_of(deployment)
    return all(counts.get(name, 0) == wanted for name in ("updatedReplicas", "replicas", "availableReplicas"))


def deployment_status(
    deployment: Obj, replica_sets: Sequence[Obj], now: float, news: tuple[str, str] | None = None
) -> Obj:
    """The status. `news` is the reason and message of a ReplicaSet just made or just found."""
    new, old = split(deployment, replica_sets)
    before = status_of(deployment)
    counts = rollout_counts(deployment, new, old)
    status: Obj = {"observedGeneration": generation_of(deployment), **counts}
    if before.get("collisionCount"):
        status["collisionCount"] = before["collisionCount"]
    entries = list(before.get("conditions") or [])
    entries = _with_availability(deployment, entries, counts, now)
    entries = _with_progress(deployment, entries, counts, new, now, news)
    failures = [entry for rs in replica_sets for entry in [conditions.find(rs, "ReplicaFailure")] if entry]
    entries = [entry for entry in entries if entry["type"] != "ReplicaFailure"]
    if failures:
        entries = _put(entries, "ReplicaFailure", True, failures[0]["reason"], failures[0].get("message", ""), now)
    status["conditions"] = entries
    return status


def _with_availability(deployment: Obj, entries: list[Obj], counts: Obj, now: float) -> list[Obj]:
    _, missing = bounds(deployment)
    if counts.get("availableReplicas", 0) >= replicas_of(deployment) - missing:
        return _put(entries, "Available", True, "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    text = "Deployment does not have minimum availability."
    return _put(entries, "Available", False, "MinimumReplicasUnavailable", text, now)


def _with_progress(
    deployment: Obj, entries: list[Obj], counts: Obj, new: Obj | None, now: float, news: tuple[str, str] | None
) -> list[Obj]:
    limit = spec_of(deployment).get("progressDeadlineSeconds")
    if limit is None or limit == NO_DEADLINE:
        return conditions.without(entries, "Progressing")
    current = conditions.find(entries, "Progressing")
    reason = current["reason"] if current else ""
    if spec_of(deployment).get("paused"):
        return _put(entries, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
    if reason == "DeploymentPaused":
        return _put(entries, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    if news is not None:
        return _put(entries, "Progressing", True, *news, now)
    if reason == "NewReplicaSetAvailable" and counts.get("replicas", 0) == counts.get("updatedReplicas", 0):
        return entries
    subject = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, counts):
        message = f"{subject} has successfully progressed."
        return _put(entries, "Progressing", True, "NewReplicaSetAvailable", message, now)
    if _has_moved(status_of(deployment), counts):
        rest = conditions.without(entries, "Progressing")
        fresh = _entry("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
        if current is not None and current["status"] == "True":
            fresh["lastTransitionTime"] = current["lastTransitionTime"]
        return [*rest, fresh]
    if current is not None and progress_left(deployment, entries, now) == 0:
        message = f"{subject} has timed out progressing."
        return _put(entries, "Progressing", False, "ProgressDeadlineExceeded", message, now)
    return entries


def _has_moved(before: Obj, counts: Obj) -> bool:
    def number(source: Obj, name: str) -> int:
        return int(source.get(name) or 0)

    old_before = number(before, "replicas") - number(before, "updatedReplicas")
    old_now = number(counts, "replicas") - number(counts, "updatedReplicas")
    rising = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_now < old_before or any(number(counts, name) > number(before, name) for name in rising)


def progress_left(deployment: Obj, entries: Sequence[Obj], now: float) -> float | None:
    """Seconds until a rollout that does not move counts as stuck; None when it cannot get stuck now."""
    limit = spec_of(deployment).get("progressDeadlineSeconds")
    current = conditions.find(entries, "Progressing")
    if limit is None or limit == NO_DEADLINE or current is None:
        return None
    if current["reason"] in ("NewReplicaSetAvailable", "DeploymentPaused"):
        return None
    since = parse_time(current.get("lastUpdateTime") or current["lastTransitionTime"])
    return max(0.0, since + float(limit) - now)


def _entry(kind: str, status: str, reason: str, message: str, now: float) -> Obj:
    stamp = format_time(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }


def _put(entries: Sequence[Obj], kind: str, status: bool | str, reason: str, message: str, now: float) -> list[Obj]:
    """The conditions with one replaced at the end; nothing changes while status and reason stay the same."""
    value = status if isinstance(status, str) else ("True" if status else "False")
    old = conditions.find(entries, kind)
    if old is not None and old["status"] == value and old.get("reason") == reason:
        return list(entries)
    fresh = _entry(kind, value, reason, message, now)
    if old is not None and old["status"] == value:
        fresh["lastTransitionTime"] = old["lastTransitionTime"]
    return [*conditions.without(entries, kind), fresh]
