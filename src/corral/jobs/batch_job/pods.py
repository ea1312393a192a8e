"""Which pods a Job needs next, and what they look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.meta import Obj, is_deleting, name_of, namespace_of, owner_ref, spec_of
from corral.decide.pods.facts import by_least_loss, finished_at, is_terminating
from corral.jobs.batch_job.failure import judge, pause_left
from corral.jobs.batch_job.indexes import Indexes
from corral.jobs.batch_job.plan import (
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    TRACKING,
    PodFacts,
    SyncView,
    completions_of,
    has_limit_per_index,
    ignored_index_failures,
    index_failures,
    index_of,
    is_indexed,
    is_suspended,
    parallelism_of,
    replaces_only_failed,
)

MAX_PER_SYNC = 500
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
MAX_PREFIX = 58


@dataclass(frozen=True, slots=True)
class PodPlan:
    """Pods to delete or to make; never both in one sync."""

    delete: tuple[Obj, ...] = ()
    release_first: bool = False
    """Given-up pods lose their finalizer before they are deleted, so that they are not counted."""
    create: tuple[Obj, ...] = ()
    wait_s: float | None = None
    """Nothing may be made before this many seconds have passed."""
    managed: bool = False
    """The number of pods was looked at; only then may suspension be reported."""


def plan_pods(view: SyncView, facts: PodFacts) -> PodPlan:
    """What to do about the Job's pods now."""
    if facts.verdict is not None:
        return PodPlan(delete=facts.active)
    if not view.current or is_deleting(view.job):
        return PodPlan()
    surplus = _surplus(view.job, facts)
    if surplus:
        limit = len(surplus) if is_suspended(view.job) else MAX_PER_SYNC
        return PodPlan(delete=tuple(surplus[:limit]), release_first=True, managed=True)
    return _growth(view, facts)


def wanted_active(job: Obj, facts: PodFacts) -> int:
    """How many pods should be running."""
    if is_suspended(job):
        return 0
    completions = completions_of(job)
    if completions is None:
        # A work queue: after the first success nobody new starts, the others finish.
        return len(facts.active) if facts.succeeded > 0 else parallelism_of(job)
    return max(0, min(parallelism_of(job), completions - facts.succeeded))


def _surplus(job: Obj, facts: PodFacts) -> list[Obj]:
    """Active pods to give up: second pods of an index, then those that would be missed least."""
    at_least = max(0, len(facts.active) - wanted_active(job, facts))
    kept: list[Obj] = list(facts.active)
    removed: list[Obj] = []
    if is_indexed(job):
        kept, removed = _without_duplicates(facts.active, completions_of(job) or 0)
    if len(removed) < at_least:
        removed += by_least_loss(kept)[: at_least - len(removed)]
    return removed


def _without_duplicates(active: Sequence[Obj], completions: int) -> tuple[list[Obj], list[Obj]]:
    kept: dict[int, Obj] = {}
    removed: list[Obj] = []
    for pod in reversed(by_least_loss(active)):
        index = index_of(pod)
        if index is None or index >= completions or index in kept:
            removed.append(pod)
        else:
            kept[index] = pod
    return [kept[index] for index in sorted(kept)], removed


def _growth(view: SyncView, facts: PodFacts) -> PodPlan:
    job = view.job
    terminating = facts.terminating if replaces_only_failed(job) else 0
    missing = wanted_active(job, facts) - terminating - len(facts.active)
    if missing <= 0:
        return PodPlan(managed=True)
    if not has_limit_per_index(job):
        pause = facts.backoff.remaining(view.now)
        if pause > 0:
            return PodPlan(wait_s=pause, managed=True)
    missing = min(missing, MAX_PER_SYNC)
    if not is_indexed(job):
        return PodPlan(create=tuple(_pod(job) for _ in range(missing)), managed=True)
    indexes, wait_s = _ready_indexes(view, facts, _pending_indexes(view, facts, missing))
    if not indexes and wait_s is not None:
        return PodPlan(wait_s=wait_s, managed=True)
    return PodPlan(create=tuple(_indexed_pod(job, index, facts.held.get(index)) for index in indexes), managed=True)


def _pending_indexes(view: SyncView, facts: PodFacts, limit: int) -> list[int]:
    taken = facts.succeeded_indexes | _indexes(facts.active)
    if replaces_only_failed(view.job):
        taken |= _indexes([pod for pod in view.pods if is_terminating(pod)])
    if facts.failed_indexes is not None:
        taken |= facts.failed_indexes
    return taken.missing(completions_of(view.job) or 0, limit)


def _indexes(pods: Sequence[Obj]) -> Indexes:
    return Indexes.of(index for pod in pods if (index := index_of(pod)) is not None)


def _ready_indexes(view: SyncView, facts: PodFacts, pending: Sequence[int]) -> tuple[list[int], float | None]:
    """The pending indexes whose own pause is over; when there are none, how long the shortest pause lasts."""
    ready, pauses = [], []
    for index in pending:
        last = facts.held.get(index)
        pause = 0.0
        if last is not None:
            failures = index_failures(last) + ignored_index_failures(last) + 1
            pause = pause_left(failures, finished_at(last, view.now), view.now)
        if pause > 0:
            pauses.append(pause)
        else:
            ready.append(index)
    return ready, min(pauses, default=None)


def _pod(job: Obj) -> Obj:
    template = spec_of(job).get("template") or {}
    metadata = template.get("metadata") or {}
    body: Obj = {
        "generateName": f"{name_of(job)}-",
        "namespace": namespace_of(job),
        "finalizers": list(dict.fromkeys((*(metadata.get("finalizers") or ()), TRACKING))),
        "ownerReferences": [owner_ref({"apiVersion": "batch/v1", "kind": "Job", **job})],
    }
    for field in ("labels", "annotations"):
        if metadata.get(field):
            body[field] = metadata[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": body, "spec": template.get("spec") or {}}


def _indexed_pod(job: Obj, index: int, replaced: Obj | None) -> Obj:
    pod = _pod(job)
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = {**(metadata.get("annotations") or {}), INDEX: str(index)}
    if has_limit_per_index(job):
        annotations.update(_failure_counts(job, replaced))
    containers = {
        field: [_with_index_variable(container) for container in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    pod["metadata"] = {
        **metadata,
        "generateName": _indexed_prefix(name_of(job), index),
        "annotations": annotations,
        "labels": {**(metadata.get("labels") or {}), INDEX: str(index)},
    }
    pod["spec"] = {**spec, **containers, "hostname": f"{name_of(job)}-{index}"}
    return pod


def _failure_counts(job: Obj, replaced: Obj | None) -> dict[str, str]:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counts = judge(job, replaced).counts
    failures = index_failures(replaced) + (1 if counts else 0)
    ignored = ignored_index_failures(replaced) + (0 if counts else 1)
    return {INDEX_FAILURES: str(failures), **({INDEX_IGNORED: str(ignored)} if ignored else {})}


def _with_index_variable(container: Obj) -> Obj:
    env = container.get("env") or []
    if any(entry.get("name") == INDEX_VARIABLE for entry in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": INDEX_VARIABLE, "valueFrom": source}]}


def _indexed_prefix(name: str, index: int) -> str:
    suffix = f"-{index}-"
    return name[: MAX_PREFIX - len(suffix)] + suffix
