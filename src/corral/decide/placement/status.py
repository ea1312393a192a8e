"""A placement's status: what every cluster says about its binding, and all of them together.

Conditions are walked in order. The first type that some cluster has not reached yet, or has failed at, ends the walk;
later types are not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.core.conditions import condition, find, set_condition
from corral.core.meta import Obj, generation_of, status_of
from corral.decide.placement.cluster_status import status_of_cluster, statuses_of_nobody
from corral.decide.placement.progress import all_job_conditions
from corral.decide.placement.status_texts import FALSE, NO_OVERRIDE, TRUE, UNKNOWN
from corral.decide.placement.status_view import PlacementView

EXTERNAL: Final = "RolloutControlledByExternalController"
_EXTERNAL_START: Final = "Rollout is controlled by an external controller and "


def scheduled_condition(view: PlacementView) -> Obj:
    """The placement's Scheduled condition: the policy snapshot's if that is up to date."""
    generation = generation_of(view.placement)
    snapshot = view.policy_snapshot
    entry = find(snapshot, "Scheduled")
    stale = (
        entry is None
        or entry.get("observedGeneration", 0) < generation_of(snapshot)
        or int(status_of(snapshot).get("observedCRPGeneration") or 0) < generation
        or entry["status"] == "Unknown"
    )
    kind = view.prefix + "Scheduled"
    if entry is None or stale:
        return condition(kind, "Unknown", "SchedulePending", "Scheduling has not completed", generation)
    return condition(kind, entry["status"], entry["reason"], entry["message"], generation)


def invalid_selectors(prefix: str, placement: Obj, message: str) -> Obj:
    return condition(
        prefix + "Scheduled",
        False,
        "InvalidResourceSelectors",
        f"The resource selectors are invalid: {message}",
        generation_of(placement),
    )


def placement_status(view: PlacementView) -> Obj:
    """The whole status of a placement whose selectors are valid."""
    old = status_of(view.placement)
    scheduled = scheduled_condition(view)
    conditions = set_condition(old.get("conditions") or [], scheduled, view.now)
    status: Obj = {**old, "selectedResources": view.selected, "observedResourceIndex": view.index}
    if scheduled["status"] == "Unknown":
        status["placementStatuses"] = []
        return _tidy({**status, "conditions": conditions})
    decisions = status_of(view.policy_snapshot).get("targetClusters") or ()
    chosen = [one for one in decisions if one.get("selected")]
    others = [one for one in decisions if not one.get("selected")]
    before = {one.get("clusterName"): one for one in old.get("placementStatuses") or ()}
    entries = [status_of_cluster(view, one, before.get(one["clusterName"]) or {}) for one in chosen]
    nobody = statuses_of_nobody(view, others, len(chosen))
    status["placementStatuses"] = [*entries, *nobody]
    shown = [scheduled]
    if entries:
        aggregated, status = _aggregate(view, entries, status)
        shown += [*aggregated, *all_job_conditions(entries, generation_of(view.placement))]
    kept: list[Obj] = []
    for entry in shown:
        kept += set_condition([one for one in conditions if one["type"] == entry["type"]], entry, view.now)
    synced = find(conditions, view.prefix + "StatusSynced")
    return _tidy({**status, "conditions": [*kept, *([synced] if synced else [])]})


def _tidy(status: Obj) -> Obj:
    return {name: value for name, value in status.items() if value not in ("", [], None)}


def _aggregate(view: PlacementView, entries: Sequence[Obj], status: Obj) -> tuple[list[Obj], Obj]:
    generation = generation_of(view.placement)
    if view.external:
        blocked, status = _external(view, entries, status)
        if blocked is not None:
            return [blocked], status
    result = []
    for step in view.steps:
        states = [(find(one["conditions"], step) or {}).get("status", "Unknown") for one in entries]
        table, value = TRUE, "True"
        if "Unknown" in states:
            table, value = UNKNOWN, "Unknown"
        elif "False" in states:
            table, value = FALSE, "False"
        form = table[step]
        if step == "Overridden" and value == "True" and not any(_is_overridden(one) for one in entries):
            form = NO_OVERRIDE
        message = form.message.replace("{n}", str(states.count(value)))
        result.append(condition(view.prefix + step, value, form.reason, message, generation))
        if value != "True":
            break
    return result, status


def _is_overridden(entry: Obj) -> bool:
    return bool(entry.get("applicableResourceOverrides") or entry.get("applicableClusterResourceOverrides"))


def _external(view: PlacementView, entries: Sequence[Obj], status: Obj) -> tuple[Obj | None, Obj]:
    """While others roll out: why nothing can be said yet, or None with the index all clusters agree on."""
    generation = generation_of(view.placement)
    seen = {str(entry.get("observedResourceIndex") or "") for entry in entries}
    kind = view.prefix + "RolloutStarted"
    unset = {**status, "observedResourceIndex": "", "selectedResources": []}
    if seen == {""}:
        text = (
            f"{_EXTERNAL_START}no resource snapshot name is observed across clusters. To determine rollout status,"
            f" check the {view.run_kind} resources with spec.placementName matching this placement"
        )
        return condition(kind, "Unknown", EXTERNAL, text, generation), unset
    if len(seen) > 1:
        text = f"{_EXTERNAL_START}different resource snapshot versions are observed across clusters"
        return condition(kind, "Unknown", EXTERNAL, text, generation), unset
    index = next(iter(seen))
    agreed = {**status, "observedResourceIndex": index, "selectedResources": view.contents.get(index, [])}
    for entry in entries:
        if (find(entry["conditions"], "RolloutStarted") or {}).get("status") == "Unknown":
            text = f"{_EXTERNAL_START}cluster {entry['clusterName']} is in RolloutStarted Unknown state"
            return condition(kind, "Unknown", EXTERNAL, text, generation), agreed
    return None, agreed
