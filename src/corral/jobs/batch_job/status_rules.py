"""Rules for a Job's status: counters, conditions and times must tell one consistent story."""

from __future__ import annotations

from corral.core import conditions
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.core.validation import (
    IMMUTABLE,
    OMIT,
    at_least_zero,
    check_metadata_update,
    duplicate,
    invalid,
    required,
)  # fmt: skip
from corral.jobs.batch_job.rules import parse_intervals


class _Change:
    """A Job before and after, and what is different."""

    def __init__(self, new: Obj, old: Obj) -> None:
        self.new, self.old = new, old
        self.spec, self.status, self.before = spec_of(new), status_of(new), status_of(old)

    def is_true(self, kind: str) -> bool:
        return conditions.is_true(self.new, kind)

    def turned(self, *kinds: str) -> bool:
        """Whether any of these conditions became or ceased to be true."""
        return any(self.is_true(kind) != conditions.is_true(self.old, kind) for kind in kinds)

    def moved(self, *fields: str) -> bool:
        """Whether any of these status fields changed."""
        return any((self.status.get(field) or None) != (self.before.get(field) or None) for field in fields)

    @property
    def finished(self) -> bool:
        return self.is_true("Complete") or self.is_true("Failed")

    @property
    def finish_turned(self) -> bool:
        was = any(conditions.is_true(self.old, kind) for kind in ("Complete", "Failed"))
        return was != self.finished


def check_job_status(new: Obj, old: Obj) -> list[Cause]:
    """Everything wrong with a change of a Job's status, in upstream's order."""
    change = _Change(new, old)
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += _check_counters(change.status)
    causes += _check_terminal(change)
    causes += _check_finished(change)
    causes += _check_indexes(change)
    causes += _check_pods(change)
    return causes + _check_history(change)


def _conditions(detail: str) -> Cause:
    return invalid("status.conditions", OMIT, detail)


def _check_counters(status: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        causes += at_least_zero(f"status.{field}", status.get(field))
    uncounted = status.get("uncountedTerminatedPods") or {}
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for position, uid in enumerate(uncounted.get(field) or ()):
            where = f"status.uncountedTerminatedPods.{field}[{position}]"
            if not uid:
                causes.append(invalid(where, uid, "must not be empty"))
            elif uid in seen:
                causes.append(duplicate(where, uid))
            seen.add(uid)
    return causes


def _check_terminal(change: _Change) -> list[Cause]:
    complete, failed, target = change.is_true("Complete"), change.is_true("Failed"), change.is_true("FailureTarget")
    start, end = change.status.get("startTime"), change.status.get("completionTime")
    where = "status.completionTime"
    causes: list[Cause] = []
    if complete and failed and change.turned("Complete", "Failed"):
        causes.append(_conditions("cannot set Complete=True and Failed=true conditions"))
    if complete and target and change.turned("Complete", "FailureTarget"):
        causes.append(_conditions("cannot set Complete=True and FailureTarget=true conditions"))
    if change.turned("Complete") or change.moved("completionTime"):
        if end is not None and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            causes.append(invalid(where, end, detail))
        if end is None and complete:
            causes.append(required(where, "completionTime is required for Complete jobs"))
    if start and end and change.moved("startTime", "completionTime") and parse_time(end) < parse_time(start):
        causes.append(invalid(where, end, "must be equal to or after `startTime`"))
    if failed and not target and (change.turned("Failed") or change.moved("failedIndexes")):
        causes.append(_conditions("cannot set Failed=True condition without the FailureTarget=true condition"))
    if complete and not change.is_true("SuccessCriteriaMet") and change.turned("Complete", "SuccessCriteriaMet"):
        causes.append(_conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
    return causes


def _check_finished(change: _Change) -> list[Cause]:
    if not change.finished:
        return []
    status, turned = change.status, change.finish_turned
    causes: list[Cause] = []
    if (status.get("active") or 0) > 0 and (turned or change.moved("active")):
        causes.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    excused = bool(change.spec.get("suspend")) and change.spec.get("completions") == 0
    if status.get("startTime") is None and (turned or change.moved("startTime")) and not excused:
        causes.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (turned or change.moved("uncountedTerminatedPods")):
        shown = {field.capitalize(): uncounted.get(field) for field in ("succeeded", "failed")}
        causes.append(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    return causes


def _check_indexes(change: _Change) -> list[Cause]:
    spec, status = change.spec, change.status
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex") is not None
    completed_moved, failed_moved = change.moved("completedIndexes"), failed != change.before.get("failedIndexes")
    causes: list[Cause] = []
    if completed_moved and completions is not None:
        causes += _check_format("completedIndexes", completed, completions)
    if failed_moved and completions is not None and per_index and failed is not None:
        causes += _check_format("failedIndexes", failed, completions)
    if completed_moved and completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.append(invalid("status.completedIndexes", completed, detail))
    if failed_moved and failed is not None and not per_index:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.append(invalid("status.failedIndexes", failed, detail))
    if (failed_moved or completed_moved) and completions is not None and failed:
        overlap = _overlap(completed, failed, completions)
        if overlap is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            causes.append(invalid("status.failedIndexes", failed, detail))
    return causes


def _check_format(field: str, text: str, completions: int) -> list[Cause]:
    try:
        parse_intervals(text, completions)
    except ValueError as error:
        return [invalid(f"status.{field}", text, f"error parsing {field}: {error}")]
    return []


def _overlap(completed: str, failed: str, completions: int) -> int | None:
    try:
        left, right = parse_intervals(completed, completions), parse_intervals(failed, completions)
    except ValueError:
        return None
    shared = (max(a, c) for a, b in left for c, d in right if a <= d and c <= b)
    return min(shared, default=None)


def _check_pods(change: _Change) -> list[Cause]:
    status = change.status
    ready, active, terminating = status.get("ready"), status.get("active") or 0, status.get("terminating") or 0
    met = change.is_true("SuccessCriteriaMet")
    causes: list[Cause] = []
    if terminating > 0 and change.finished and (change.finish_turned or change.moved("terminating")):
        causes.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if ready is not None and ready > active and change.moved("ready", "active"):
        causes.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    if met and change.is_true("Failed"):
        causes.append(_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if met and change.is_true("FailureTarget"):
        causes.append(_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if change.spec.get("successPolicy") is not None and not met and change.is_true("Complete"):
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        causes.append(_conditions(detail))
    return causes


def _check_history(change: _Change) -> list[Cause]:
    status, before, spec = change.status, change.before, change.spec
    causes = [
        _conditions(f"cannot disable the terminal {kind}=True condition")
        for kind in ("Failed", "Complete", "FailureTarget")
        if conditions.is_true(change.old, kind) and not change.is_true(kind)
    ]
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        now, then = status.get(field) or 0, before.get(field) or 0
        if now < then and not (field == "succeeded" and elastic):
            causes.append(invalid(f"status.{field}", now, f"cannot decrease the {field} counter"))
    end, was_end = status.get("completionTime"), before.get("completionTime")
    if end is not None and was_end is not None and end != was_end:
        causes.append(invalid("status.completionTime", end, IMMUTABLE))
    resuming = conditions.is_true(change.old, "Suspended") and conditions.is_false(change.new, "Suspended")
    if before.get("startTime") is not None and change.moved("startTime") and not resuming and not spec.get("suspend"):
        causes.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    met, was_met = change.is_true("SuccessCriteriaMet"), conditions.is_true(change.old, "SuccessCriteriaMet")
    if was_met and not met:
        causes.append(_conditions("cannot disable the SuccessCriteriaMet=True condition"))
    if conditions.is_true(change.old, "Complete") and not was_met and met:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        causes.append(_conditions(detail))
    return causes
