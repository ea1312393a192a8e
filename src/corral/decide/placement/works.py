"""From Works to a binding: what the members report about each Work, summed up as the binding's conditions and lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.core.conditions import condition, find
from corral.core.meta import Obj, generation_of, labels_of, name_of, status_of
from corral.decide.member.queue import JobEndings
from corral.decide.placement.progress import MAX_TEXT, job_conditions
from corral.kinds.fleet.names import ENVELOPE_NAME, ENVELOPE_NAMESPACE, ENVELOPE_WORK

MAX_REPORTED: Final = 100
MAX_REPORTED_TEXT: Final = 16 * 1024
"""Characters of one list. What a member says about itself is shown on objects that tell of all members."""
IN_PROGRESS: Final = condition("Applied", False, "ApplyInProgress", "Resources are being applied")
DIFF_IN_PROGRESS: Final = condition(
    "DiffReported", False, "DiffReportInProgress", "Diff reporting on resources is in progress"
)


@dataclass(frozen=True, slots=True)
class Summary:
    """Conditions in order, and what failed, drifted or differs."""

    conditions: list[Obj]
    failed: list[Obj]
    drifted: list[Obj]
    diffed: list[Obj]


def summarize(works: Sequence[Obj], endings: JobEndings, *, report_diff: bool) -> Summary:
    """What all Works of a binding, ordered by name, say together."""
    if report_diff:
        conditions = [_diff_reported(works)]
        return Summary(conditions, *_reports(works))
    applied = _applied(works)
    if applied["status"] != "True":
        return Summary([applied, *job_conditions(works, endings)], *_reports(works))
    return Summary([applied, _available(works), *job_conditions(works, endings)], *_reports(works))


def _split(works: Sequence[Obj], kind: str) -> tuple[Obj | None, Obj | None]:
    """The first Work that has not reported on its generation, and the first that reported False."""
    pending = failed = None
    for work in works:
        entry = find(work, kind)
        if entry is None or entry.get("observedGeneration", 0) < generation_of(work) or entry["status"] == "Unknown":
            pending = pending or work
        elif entry["status"] != "True":
            failed = failed or work
    return pending, failed


def is_answered(works: Sequence[Obj], *, report_diff: bool) -> bool:
    """Whether the members have said all there is to say for now about these Works."""
    kinds = ("DiffReported",) if report_diff else ("Applied", "Available")
    for work in works:
        for kind in kinds:
            entry = find(work, kind)
            if (
                entry is not None
                and entry["status"] == "False"
                and entry.get("observedGeneration") == generation_of(work)
            ):
                break
            if entry is None or entry.get("observedGeneration", 0) < generation_of(work):
                return False
    return True


def nothing_reported(works: Sequence[Obj]) -> bool:
    """Whether no member has said anything yet about these Works."""
    return bool(works) and not any(
        status_of(work).get("manifestConditions") or find(work, "Applied") is not None for work in works
    )


def _applied(works: Sequence[Obj]) -> Obj:
    texts = ("has not yet completed the apply op", "has failed to apply")
    return _unless_all("Applied", works, "NotAllWorkHaveBeenApplied", *texts) or condition(
        "Applied", True, "AllWorkHaveBeenApplied", "All corresponding work objects are applied"
    )


def _available(works: Sequence[Obj]) -> Obj:
    texts = ("has not yet completed availability check", "is not yet available")
    unavailable = _unless_all("Available", works, "NotAllWorkAreAvailable", *texts)
    if unavailable is not None:
        return unavailable
    for work in works:
        if (find(work, "Available") or {}).get("reason") == "WorkNotTrackable":
            text = f"The availability of work object {name_of(work)} is not trackable"
            return condition("Available", True, "NotAllWorkAreAvailabilityTrackable", text)
    return condition("Available", True, "AllWorkAreAvailable", "All corresponding work objects are available")


def _diff_reported(works: Sequence[Obj]) -> Obj:
    texts = ("has not yet completed diff reporting", "has failed to report diff")
    return _unless_all("DiffReported", works, "NotAllWorkHaveDiffReported", *texts) or condition(
        "DiffReported", True, "AllWorkHaveDiffReported", "All corresponding work objects have reported diff"
    )


def _unless_all(kind: str, works: Sequence[Obj], reason: str, if_pending: str, if_failed: str) -> Obj | None:
    """The condition while a work has not got there, or failed; None when all have."""
    pending, failed = _split(works, kind)
    if pending is not None:
        return condition(kind, False, reason, f"Work object {name_of(pending)} {if_pending}")
    if failed is not None:
        return condition(kind, False, reason, f"Work object {name_of(failed)} {if_failed}")
    return None


def _reports(works: Sequence[Obj]) -> tuple[list[Obj], list[Obj], list[Obj]]:
    failed: list[Obj] = []
    drifted: list[Obj] = []
    diffed: list[Obj] = []
    for work in works:
        is_failing = any((find(work, kind) or {}).get("status") == "False" for kind in ("Applied", "Available"))
        for manifest in status_of(work).get("manifestConditions") or ():
            named = _named(manifest.get("identifier") or {}, work)
            problem = _problem(manifest) if is_failing else None
            if problem is not None:
                failed.append({**named, "condition": problem})
            if details := manifest.get("driftDetails"):
                drifted.append({**named, **_details(details, "firstDriftedObservedTime", "observedDrifts")})
            if details := manifest.get("diffDetails"):
                diffed.append({**named, **_details(details, "firstDiffedObservedTime", "observedDiffs")})
    return (
        _bounded(failed),
        _bounded(sorted(drifted, key=_identity)),
        _bounded(sorted(diffed, key=_identity)),
    )


def _bounded(entries: Sequence[Obj]) -> list[Obj]:
    """As many entries as there is room for, and at least one; a long one with the first of its details."""
    kept: list[Obj] = _shortened(list(entries[:MAX_REPORTED]), MAX_REPORTED_TEXT)
    return kept


def _shortened(value: Any, room: int) -> Any:
    """A value with every text cut, and of every list as much as there is room for, and at least one item."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"
    if isinstance(value, dict):
        return {name: _shortened(item, room) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    kept: list[Any] = []
    for item in value:
        short = _shortened(item, room)
        room -= _size(short)
        if kept and room < 0:
            break
        kept.append(short)
    return kept


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(name) + _size(item) for name, item in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else len(str(value))


def _identity(entry: Obj) -> tuple[str, ...]:
    return tuple(str(entry.get(part) or "") for part in ("group", "version", "kind", "namespace", "name"))


def _named(identifier: Obj, work: Obj) -> Obj:
    named = {
        part: identifier.get(part, "")
        for part in ("group", "version", "kind", "name", "namespace")
        if identifier.get(part) or part == "name"  # a generated name is not known yet
    }
    labels = labels_of(work)
    if ENVELOPE_NAME in labels:
        envelope = {"name": labels[ENVELOPE_NAME], "type": _envelope_type(labels)}
        if labels.get(ENVELOPE_NAMESPACE):
            envelope["namespace"] = labels[ENVELOPE_NAMESPACE]
        named["envelope"] = envelope
    return named


def _envelope_type(labels: dict[str, str]) -> str:
    return labels.get(ENVELOPE_WORK) or "ResourceEnvelope"


def _problem(manifest: Obj) -> Obj | None:
    for kind in ("Applied", "Available"):
        entry = find(manifest.get("conditions") or [], kind)
        if entry is not None and entry["status"] == "False":
            return entry
    return None


def _details(details: Obj, first: str, observed: str) -> Obj:
    entry = {
        "observationTime": details.get("observationTime"),
        "targetClusterObservedGeneration": details.get("observedInMemberClusterGeneration"),
        first: details.get(first),
        observed: details.get(observed),
    }
    return {name: value for name, value in entry.items() if value is not None}
