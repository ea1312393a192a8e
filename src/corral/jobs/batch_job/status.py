"""The status of a Job, in the order in which it may be written.

`plan_status` says what the status becomes once the pod actions are done and which pods it now counts. Only after that
write may those pods lose their finalizer; `settle` then moves them into the counters and, when nothing is left open,
ends the Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, spec_of, status_of, uid_of
from corral.core.timestamps import format_time
from corral.decide.pods.facts import is_ready, phase_of
from corral.jobs.batch_job.failure import judge
from corral.jobs.batch_job.indexes import Indexes
from corral.jobs.batch_job.plan import (
    COMPLETIONS_REACHED,
    PodFacts,
    SyncView,
    completions_of,
    has_limit_per_index,
    index_of,
    is_failed,
    is_indexed,
    is_suspended,
    job_condition,
)
from corral.jobs.batch_job.pods import PodPlan

MAX_UNCOUNTED = 500

Events = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class StatusPlan:
    """The next status, and the pods that may be released once it is written."""

    status: Obj
    write: bool
    release: tuple[Obj, ...]
    verdict: Obj | None
    events: Events = ()
    still_tracked: frozenset[str] = frozenset()
    truncated: bool = False
    """More pods wait to be counted than one status may carry; the Job cannot end yet."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The status after the finalizers are gone."""

    status: Obj
    write: bool
    events: Events = ()


def plan_status(view: SyncView, facts: PodFacts, plan: PodPlan, created: int, deleted: Sequence[Obj]) -> StatusPlan:
    """The status after `created` of the planned pods were made and `deleted` of them were deleted."""
    job, old = view.job, status_of(view.job)
    active = len(facts.active) + created - len(deleted)
    ready = sum(map(is_ready, facts.active)) - sum(map(is_ready, deleted))
    terminating = facts.terminating + len(deleted)
    verdict = facts.verdict
    if verdict is not None and (len(deleted) != len(facts.active) or not view.current):
        verdict = None  # pods may be left that nobody has seen yet
    status: Obj = {**old, "terminating": terminating, "ready": ready}
    if "startTime" not in old and not is_suspended(job):
        status["startTime"] = format_time(view.now)
    events: Events = ()
    if facts.verdict is None:
        if _is_complete(job, facts, active):
            verdict = job_condition("SuccessCriteriaMet", True, *COMPLETIONS_REACHED, view.now)
        elif plan.managed:
            status, events = _with_suspension(view, status)
    _set_count(status, "active", active)
    write = bool(events) or any(_number(status, name) != _number(old, name) for name in ("active",))
    write = write or any(status[name] != old.get(name) for name in ("ready", "terminating"))
    return _count_finished(view, facts, status, write, verdict, events)


def _is_complete(job: Obj, facts: PodFacts, active: int) -> bool:
    completions = completions_of(job)
    enough = facts.succeeded > 0 if completions is None else facts.succeeded >= completions
    return enough and active == 0


def _with_suspension(view: SyncView, status: Obj) -> tuple[Obj, Events]:
    """Report that the Job was suspended or resumed, once each time; resuming starts its clock anew."""
    if is_suspended(view.job):
        entry, event = ("JobSuspended", "Job suspended"), ("Normal", "Suspended", "Job suspended")
    else:
        entry, event = ("JobResumed", "Job resumed"), ("Normal", "Resumed", "Job resumed")
    updated = _ensure(
        status.get("conditions") or [], job_condition("Suspended", is_suspended(view.job), *entry, view.now)
    )
    if updated is None:
        return status, ()
    status = {**status, "conditions": updated}
    if not is_suspended(view.job):
        status["startTime"] = format_time(view.now)
    return status, (event,)


def _ensure(entries: Sequence[Obj], new: Obj) -> list[Obj] | None:
    """The conditions with `new`, or None when they say it already. A negative condition is never added afresh."""
    old = conditions.find(entries, new["type"])
    if old is None:
        return [*entries, new] if new["status"] == "True" else None
    if all(old.get(name) == new[name] for name in ("status", "reason", "message")):
        return None
    return [new if entry is old else entry for entry in entries]


def _count_finished(
    view: SyncView, facts: PodFacts, status: Obj, write: bool, verdict: Obj | None, events: Events
) -> StatusPlan:
    job = view.job
    pods = sorted(view.pods, key=lambda pod: index_of(pod) or 0) if is_indexed(job) else view.pods
    tracked = frozenset(uid_of(pod) for pod in pods if view.is_uncounted(pod))
    status, moved = _clean(status, tracked)
    known = {name: list(uids) for name, uids in (status.get("uncountedTerminatedPods") or {}).items()}
    before = {name: set(uids) for name, uids in known.items()}
    release: list[Obj] = []
    new_indexes: list[int] = []
    for pod in pods:
        if uid_of(pod) not in tracked or not _may_release(view, facts, verdict, pod):
            continue
        release.append(pod)
        kind = _kind(view, verdict, pod, before)
        if kind == "succeeded" and is_indexed(job):
            index = index_of(pod)
            if index is not None and index < (completions_of(job) or 0) and index not in facts.recorded:
                new_indexes.append(index)
        elif kind and uid_of(pod) not in before.get(kind, ()):
            known.setdefault(kind, []).append(uid_of(pod))
        if len(new_indexes) + sum(map(len, known.values())) >= MAX_UNCOUNTED:
            break
    counted = {name: uids for name, uids in known.items() if uids}
    write = write or moved or bool(new_indexes) or "uncountedTerminatedPods" not in status_of(job)
    write = write or counted != (status.get("uncountedTerminatedPods") or {})
    status["uncountedTerminatedPods"] = counted
    if is_indexed(job):
        write = _set_indexes(status, facts, new_indexes, job) or write
    verdict, write = _announce(status, verdict, view.now, write)
    truncated = len(new_indexes) + sum(map(len, known.values())) >= MAX_UNCOUNTED
    return StatusPlan(status, write, tuple(release), verdict, events, tracked, truncated)


def _may_release(view: SyncView, facts: PodFacts, verdict: Obj | None, pod: Obj) -> bool:
    if is_deleting(view.job) or verdict is not None or phase_of(pod) == "Succeeded":
        return True
    if not is_failed(view.job, pod):
        return False
    index = index_of(pod)
    if not has_limit_per_index(view.job) or index is None or index not in facts.held:
        return True
    return uid_of(facts.held[index]) != uid_of(pod)


def _kind(view: SyncView, verdict: Obj | None, pod: Obj, known: dict[str, set[str]]) -> str:
    """Which counter a pod that is released belongs to; empty when it is not counted."""
    job = view.job
    if phase_of(pod) == "Succeeded" and uid_of(pod) not in known.get("failed", ()):
        return "succeeded"
    ended = verdict is not None and verdict["type"] != "SuccessCriteriaMet"
    if not (is_failed(job, pod) or ended):
        return ""
    if is_indexed(job):
        index = index_of(pod)
        if index is None or index >= (completions_of(job) or 0):
            return ""
    return "failed" if judge(job, pod).counts else ""


def _set_indexes(status: Obj, facts: PodFacts, new: Iterable[int], job: Obj) -> bool:
    old = status_of(job)
    done = facts.succeeded_indexes | Indexes.of(new)
    _set_count(status, "succeeded", len(done))
    if str(done) or "completedIndexes" in old:
        status["completedIndexes"] = str(done)
    if not str(done):
        status.pop("completedIndexes", None)
    if facts.failed_indexes is None:
        status.pop("failedIndexes", None)
    else:
        status["failedIndexes"] = str(facts.failed_indexes)
    return any(status.get(name) != old.get(name) for name in ("completedIndexes", "failedIndexes"))


def _announce(status: Obj, verdict: Obj | None, now: float, write: bool) -> tuple[Obj | None, bool]:
    """Record the interim condition of a new verdict, and turn the verdict into the condition that will end the Job."""
    if verdict is None or verdict["type"] == "Failed":
        return verdict, write
    entries = status.get("conditions") or []
    if conditions.find(entries, verdict["type"]) is None:
        status["conditions"] = [*entries, verdict]
        write = True
    final = "Complete" if verdict["type"] == "SuccessCriteriaMet" else "Failed"
    return job_condition(final, True, verdict["reason"], verdict.get("message", ""), now), write


def _clean(status: Obj, tracked: frozenset[str]) -> tuple[Obj, bool]:
    """Move pods that lost their finalizer from the uncounted list into the counters."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    kept: Obj = {}
    result, moved = {**status}, 0
    for name in ("succeeded", "failed"):
        uids = uncounted.get(name) or []
        left = [uid for uid in uids if uid in tracked]
        if len(left) != len(uids):
            moved += len(uids) - len(left)
            _set_count(result, name, _number(result, name) + len(uids) - len(left))
        if left:
            kept[name] = left
    if "uncountedTerminatedPods" in status:
        result["uncountedTerminatedPods"] = kept
    return result, moved > 0


def settle(view: SyncView, plan: StatusPlan, released: Iterable[str]) -> Settlement:
    """The status after the pods `released` lost their finalizer; ends the Job when nothing is left open."""
    status, write = _clean(plan.status, plan.still_tracked - frozenset(released))
    verdict = plan.verdict
    if verdict is None or plan.truncated or status.get("uncountedTerminatedPods") or status.get("terminating"):
        return Settlement(status, write)
    status["conditions"] = _ensure(status.get("conditions") or [], verdict) or status["conditions"]
    if verdict["type"] == "Failed":
        return Settlement(status, True, (("Warning", verdict["reason"], verdict["message"]),))
    status["completionTime"] = verdict["lastTransitionTime"]
    events: Events = (("Normal", "Completed", "Job completed"),)
    completions = spec_of(view.job).get("completions")
    if completions is not None and _number(status, "succeeded") > int(completions):
        events = (("Warning", "TooManySucceededPods", "Too many succeeded pods recorded"), *events)
    return Settlement(status, True, events)


def _number(status: Obj, name: str) -> int:
    return int(status.get(name) or 0)


def _set_count(status: Obj, name: str, value: int) -> None:
    """Counters of zero are left out."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)
