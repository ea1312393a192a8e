"""The status of a Work after a look at all its manifests, and of its AppliedWork."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from corral.core.conditions import condition, set_condition, without
from corral.core.meta import Obj, annotations_of, generation_of, status_of, uid_of
from corral.decide.member.availability import NOT_TRACKABLE
from corral.decide.member.manifests import Manifest, identity
from corral.decide.member.outcome import Outcome, applied_condition, available_condition, diff_condition

STATUS_LIMIT: Final = 1_415_578
PREPARING: Final = "PreparingToProcess"
PLAN: Final = "corral.dev/planned-manifests"
PLAN_GENERATION: Final = "corral.dev/planned-generation"
PLAN_LIMIT: Final = 32_768
_KINDS: Final = ("Applied", "Available", "DiffReported")


def prepared(work: Obj, manifests: Sequence[Manifest], now: str) -> Obj:
    """The status written ahead of applying a new generation: every manifest is named before it is touched."""
    known = _known(work)
    entry = condition(
        "Applied", False, PREPARING, "The manifest is being prepared for processing.", generation_of(work)
    )
    entries = [
        {"identifier": manifest.identifier, "conditions": set_condition([], entry, now)}
        if (before := known.get(identity(manifest.identifier))) is None
        else {**before, "identifier": manifest.identifier}
        for manifest in manifests
    ]
    status = status_of(work)
    return {**status, "conditions": status.get("conditions") or [], "manifestConditions": entries}


def refreshed(
    work: Obj, outcomes: Sequence[Outcome], now: str, *, report_diff: bool, count_degraded: bool = True
) -> Obj:
    """The status of a Work whose manifests had these outcomes.

    `count_degraded` counts manifests compared in degraded mode as reported on, which they are; upstream does not."""
    known = _known(work)
    entries = [
        _manifest(outcome, known.get(identity(outcome.manifest.identifier)), now, report_diff) for outcome in outcomes
    ]
    conditions = list(status_of(work).get("conditions") or [])
    for kind, entry in _work_conditions(outcomes, report_diff, count_degraded, generation_of(work)).items():
        conditions = without(conditions, kind) if entry is None else set_condition(conditions, entry, now)
    return _fitting(
        {**status_of(work), "conditions": conditions, "manifestConditions": entries}, generation_of(work), now
    )


def applied_resources(outcomes: Sequence[Outcome]) -> Obj:
    """The status of an AppliedWork: what of its Work is there."""
    there = [
        {**outcome.manifest.identifier, "uid": uid_of(outcome.live)}
        for outcome in outcomes
        if outcome.is_applied and outcome.live is not None
    ]
    return {"appliedResources": there} if there else {}


def is_settled(status: Obj) -> bool:
    """Whether nothing more is expected to happen to a Work by itself."""
    conditions = status.get("conditions") or []
    return any(entry["type"] in ("Available", "DiffReported") and entry["status"] == "True" for entry in conditions)


def plan(work: Obj, manifests: Sequence[Manifest]) -> dict[str, str]:
    """Annotations of a new AppliedWork: what is going to be made for this generation. Nothing when that is too much."""
    text = json.dumps([manifest.identifier for manifest in manifests], separators=(",", ":"))
    return {} if len(text) > PLAN_LIMIT else {PLAN: text, PLAN_GENERATION: str(generation_of(work))}


def planned(applied: Obj) -> list[Obj]:
    """Identifiers of what an AppliedWork was made for."""
    try:
        found = json.loads(annotations_of(applied).get(PLAN, "[]"))
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def is_planned(applied: Obj, work: Obj, manifests: Sequence[Manifest]) -> bool:
    """Whether the AppliedWork names everything this generation makes, so that the Work need not do it first."""
    if annotations_of(applied).get(PLAN_GENERATION) != str(generation_of(work)):
        return False
    return planned(applied) == [manifest.identifier for manifest in manifests]


def left_over(
    work: Obj, manifests: Sequence[Manifest], planned: Sequence[Obj] = (), *, only_healthy: bool = False
) -> list[Obj]:
    """Identifiers of objects that an earlier generation may have made and this one does not name; what was `planned`
    stands for a generation that was never reported on.

    `only_healthy` leaves out those that had drifted or failed, as upstream does."""
    wanted = {identity(manifest.identifier) for manifest in manifests}
    if not _known(work):
        return [one for one in planned if identity(one) not in wanted and one.get("resource")]
    return [
        entry["identifier"]
        for who, entry in _known(work).items()
        if who not in wanted and _may_be_there(entry, only_healthy) and entry["identifier"].get("resource")
    ]


def _may_be_there(entry: Obj, only_healthy: bool) -> bool:
    """Applied, on its way, or drifted: everything that may have been made for this Work."""
    applied = next((one for one in entry.get("conditions") or () if one["type"] == "Applied"), None)
    if applied is None or not only_healthy:
        return applied is not None
    return bool(applied["status"] == "True" or applied["reason"] == PREPARING)


def _known(work: Obj) -> dict[tuple[str, ...], Obj]:
    entries = status_of(work).get("manifestConditions") or []
    return {identity(entry.get("identifier") or {}): entry for entry in reversed(entries)}


def _manifest(outcome: Outcome, before: Obj | None, now: str, report_diff: bool) -> Obj:
    entries: dict[str, Obj | None] = dict.fromkeys(_KINDS)
    if report_diff:
        entries["DiffReported"] = diff_condition(outcome)
    else:
        entries["Applied"], entries["Available"] = applied_condition(outcome), available_condition(outcome)
    conditions: list[Obj] = list((before or {}).get("conditions") or [])
    for kind, entry in entries.items():
        conditions = without(conditions, kind) if entry is None else set_condition(conditions, entry, now)
    result: Obj = {"identifier": outcome.manifest.identifier, "conditions": conditions}
    if outcome.drifts:
        first = ((before or {}).get("driftDetails") or {}).get("firstDriftedObservedTime", now)
        result["driftDetails"] = {
            "observationTime": now,
            "observedInMemberClusterGeneration": outcome.generation or 0,
            "firstDriftedObservedTime": first,
            "observedDrifts": list(outcome.drifts),
        }
    if outcome.diffs:
        first = ((before or {}).get("diffDetails") or {}).get("firstDiffedObservedTime", now)
        details: Obj = {"observationTime": now, "firstDiffedObservedTime": first, "observedDiffs": list(outcome.diffs)}
        if outcome.live is not None:
            details["observedInMemberClusterGeneration"] = outcome.generation or 0
        result["diffDetails"] = details
    if outcome.reported is not None:
        result["backReportedStatus"] = _report(outcome.reported, (before or {}).get("backReportedStatus"), now)
    return result


def _report(observed: Obj, before: Obj | None, now: str) -> Obj:
    """The time of a report moves only when there is something new in it."""
    if before is not None and before.get("observedStatus") == observed:
        return before
    return {"observedStatus": observed, "observationTime": now}


def _work_conditions(
    outcomes: Sequence[Outcome], report_diff: bool, count_degraded: bool, generation: int
) -> Mapping[str, Obj | None]:
    if report_diff:
        reported = [one for one in outcomes if one.is_diff_reported and (count_degraded or not one.is_degraded)]
        return {
            "Applied": None,
            "Available": None,
            "DiffReported": _diff_reported(len(reported), len(outcomes), generation),
        }
    applied = _applied(outcomes, generation)
    available = _available(outcomes, generation) if applied["status"] == "True" else None
    return {"Applied": applied, "Available": available, "DiffReported": None}


def _applied(outcomes: Sequence[Outcome], generation: int) -> Obj:
    count = sum(outcome.is_applied for outcome in outcomes)
    if count == len(outcomes):
        text = "All the specified manifests have been applied"
        return condition("Applied", True, "AllManifestsApplied", text, generation)
    text = f"Failed to apply all manifests ({count} of {len(outcomes)} manifests are applied)"
    return condition("Applied", False, "SomeManifestsAreNotApplied", text, generation)


def _available(outcomes: Sequence[Outcome], generation: int) -> Obj:
    count = sum(outcome.is_available for outcome in outcomes)
    if count < len(outcomes):
        text = f"Some manifests are not available ({count} of {len(outcomes)} manifests are available)"
        return condition("Available", False, "SomeManifestsAreNotAvailable", text, generation)
    if any(outcome.availability == NOT_TRACKABLE for outcome in outcomes):
        text = "Some of the applied manifests cannot be tracked for availability"
        return condition("Available", True, "WorkNotTrackable", text, generation)
    text = "All of the applied manifests are available"
    return condition("Available", True, "AllManifestsAvailable", text, generation)


def _diff_reported(count: int, total: int, generation: int) -> Obj:
    if count == total:
        text = "All the specified manifests have reported diff"
        return condition("DiffReported", True, "AllManifestsDiffReported", text, generation)
    text = f"Failed to report diff on all manifests ({count} of {total} manifests have reported diff)"
    return condition("DiffReported", False, "SomeManifestsHaveNotReportedDiff", text, generation)


def _fitting(status: Obj, generation: int, now: str) -> Obj:
    """The status, without its details when it would be larger than the API takes."""
    size = len(json.dumps(status, separators=(",", ":"), ensure_ascii=False).encode())
    conditions = status["conditions"]
    if size <= STATUS_LIMIT:
        return {**status, "conditions": without(conditions, "StatusTrimmed")}
    text = (
        "The status data (drift/diff details and back-reported status) has been trimmed due to size constraints"
        f" ({size - STATUS_LIMIT} bytes over limit {STATUS_LIMIT})"
    )
    trimmed = condition("StatusTrimmed", True, "Oversized", text, generation)
    return {
        **status,
        "conditions": set_condition(conditions, trimmed, now),
        "manifestConditions": [_summary(entry) for entry in status["manifestConditions"]],
    }


def _summary(entry: Obj) -> Obj:
    result = {name: value for name, value in entry.items() if name != "backReportedStatus"}
    for details, listed in (("driftDetails", "observedDrifts"), ("diffDetails", "observedDiffs")):
        if details in result:
            count = len(result[details][listed])
            result[details] = {**result[details], listed: [{"path": "/", "valueInMember": f"({count} paths differ)"}]}
    return result
