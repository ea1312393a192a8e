"""A placement's status: what every cluster says about its binding, and all of them together.

Conditions are walked in order. The first type that some cluster has not reached yet, or has failed at, ends the walk;
later types are not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from corral.core.conditions import condition, find, set_condition
from corral.core.meta import Obj, generation_of, spec_of, status_of
from corral.decide.placement.progress import JOBS_FINISHED, JOBS_STARTED, all_job_conditions
from corral.decide.placement.rollout import fresh
from corral.decide.placement.scheduling import PICK_FIXED, PICK_N


class Form(NamedTuple):
    """Reason and message of a condition in one state; `{n}` is the number of clusters."""

    reason: str
    message: str


APPLY_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")
DIFF_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported")
NO_OVERRIDE: Final = Form("NoOverrideSpecified", "No override rules are configured for the selected resources")
WORK_SYNCED: Final = "Works(s) are succcesfully created or updated in {n} target cluster(s)' namespaces"

UNKNOWN_PER_CLUSTER: Final = {
    "RolloutStarted": Form(
        "RolloutStartedUnknown", "In the process of deciding whether to roll out some version of the resources or not"
    ),
    "Overridden": Form(
        "OverriddenPending", "In the process of overriding the selected resources if there is any override defined"
    ),
    "WorkSynchronized": Form(
        "WorkSynchronizedUnknown", "In the process of creating or updating the work object(s) in the hub cluster"
    ),
    "Applied": Form("ApplyPending", "In the process of applying the resources on the member cluster"),
    "Available": Form("ResourceAvailableUnknown", "The availability of the selected resources is unknown yet "),
    "DiffReported": Form("DiffReportingPending", "Diff reporting has just started; its status is not yet to be known"),
}
UNKNOWN: Final = {
    "RolloutStarted": Form(
        "RolloutStartedUnknown",
        "There are still {n} cluster(s) in the process of deciding whether to roll out the latest resources or not",
    ),
    "Overridden": Form(
        "OverriddenPending",
        "There are still {n} cluster(s) in the process of overriding the selected resources if there is any override"
        " defined",
    ),
    "WorkSynchronized": Form(
        "WorkSynchronizedUnknown",
        "There are still {n} cluster(s) in the process of creating or updating the work object(s) in the hub cluster",
    ),
    "Applied": Form(
        "ApplyPending",
        "There are still {n} cluster(s) in the process of applying the resources on the member cluster",
    ),
    "Available": Form(
        "ResourceAvailableUnknown",
        "There are still {n} cluster(s) in the process of checking the availability of the selected resources",
    ),
    "DiffReported": Form(
        "DiffReportingPending",
        "There are still {n} cluster(s) in the process of checking for configuration differences",
    ),
}
FALSE: Final = {
    "RolloutStarted": Form(
        "RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy in {n} cluster(s)"
    ),
    "Overridden": Form("OverriddenFailed", "Failed to override resources in {n} cluster(s)"),
    "WorkSynchronized": Form(
        "WorkNotSynchronizedYet", "There are {n} cluster(s) which have not finished creating or updating work(s) yet"
    ),
    "Applied": Form(
        "ApplyFailed", "Failed to apply resources to {n} cluster(s), please check the `failedPlacements` status"
    ),
    "Available": Form(
        "ResourceNotAvailableYet", "The selected resources in {n} cluster(s) are still not available yet"
    ),
    "DiffReported": Form(
        "DiffReportingIncompleteOrFailed", "Diff reporting in {n} clusters is still in progress or has failed"
    ),
}
TRUE: Final = {
    "RolloutStarted": Form("RolloutStarted", "All {n} cluster(s) start rolling out the latest resource"),
    "Overridden": Form("OverriddenSucceeded", "The selected resources are successfully overridden in {n} cluster(s)"),
    "WorkSynchronized": Form("WorkSynchronized", WORK_SYNCED),
    "Applied": Form("ApplySucceeded", "The selected resources are successfully applied to {n} cluster(s)"),
    "Available": Form("ResourceAvailable", "The selected resources in {n} cluster(s) are available now"),
    "DiffReported": Form("DiffReportingCompleted", "Diff reporting in {n} cluster(s) has been completed"),
}
EXTERNAL: Final = "RolloutControlledByExternalController"
_EXTERNAL_START: Final = "Rollout is controlled by an external controller and "
_COPIED_ON_FAILURE: Final = ("failedPlacements", "diffedPlacements")


@dataclass(frozen=True, slots=True)
class View:
    """Everything a placement's status is made from."""

    prefix: str
    """ClusterResourcePlacement or ResourcePlacement."""
    placement: Obj
    policy_snapshot: Obj
    bindings: Mapping[str, Obj]
    """Live bindings of the latest policy snapshot, by cluster."""
    snapshot: str
    index: str
    selected: list[Obj]
    now: str
    indexes: Mapping[str, str] = field(default_factory=dict)
    """Index of every resource snapshot by name, for rollouts that others control."""
    contents: Mapping[str, list[Obj]] = field(default_factory=dict)
    """Selected resources of a snapshot index, for rollouts that others control."""
    run_kind: str = "ClusterStagedUpdateRun"

    @property
    def strategy(self) -> Obj:
        return spec_of(self.placement).get("strategy") or {}

    @property
    def external(self) -> bool:
        return bool(self.strategy.get("type") == "External")

    @property
    def steps(self) -> tuple[str, ...]:
        apply: Obj = self.strategy.get("applyStrategy") or {}
        return DIFF_STEPS if apply.get("type") == "ReportDiff" else APPLY_STEPS


def scheduled_condition(view: View) -> Obj:
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


def placement_status(view: View) -> Obj:
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
    entries = [_cluster_status(view, one, before.get(one["clusterName"]) or {}) for one in chosen]
    unplaced = [_unplaced(view, one) for one in others[: _missing(view, len(chosen), len(others))]]
    status["placementStatuses"] = [*entries, *_keep_times(unplaced, old)]
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


def _missing(view: View, chosen: int, others: int) -> int:
    policy = spec_of(view.placement).get("policy") or {}
    match policy.get("placementType"):
        case "PickN":
            wanted = int(policy.get("numberOfClusters") or 0)
        case "PickFixed":
            wanted = len(policy.get("clusterNames") or ())
        case _:
            return 0
    return min(max(0, wanted - chosen), others)


def _unplaced(view: View, decision: Obj) -> Obj:
    entry = condition("Scheduled", False, "ScheduleFailed", decision["reason"], generation_of(view.placement))
    return {"conditions": [{**entry, "lastTransitionTime": view.now}]}


def _keep_times(unplaced: list[Obj], old: Obj) -> list[Obj]:
    """Entries without a cluster keep their old transition time when their text has not changed."""
    known = {
        one["conditions"][0]["message"]: one["conditions"][0]["lastTransitionTime"]
        for one in old.get("placementStatuses") or ()
        if not one.get("clusterName") and one.get("conditions")
    }
    result = []
    for one in unplaced:
        entry = one["conditions"][0]
        result.append(
            {"conditions": [{**entry, "lastTransitionTime": known.get(entry["message"], entry["lastTransitionTime"])}]}
        )
    return result


# One cluster


def _cluster_status(view: View, decision: Obj, before: Obj) -> Obj:
    cluster = decision["clusterName"]
    generation = generation_of(view.placement)
    binding = view.bindings.get(cluster)
    wanted = [condition("Scheduled", True, "Scheduled", decision["reason"], generation)]
    entry: Obj = {"clusterName": cluster}
    if binding is None:
        if not view.external:
            entry["observedResourceIndex"] = view.index
        wanted.append(_unknown("RolloutStarted", generation))
    else:
        snapshot = str(spec_of(binding).get("resourceSnapshotName") or "")
        index = view.indexes.get(snapshot, "") if view.external else view.index
        if index:
            entry["observedResourceIndex"] = index
        if view.external or snapshot == view.snapshot:
            wanted += _copied(view, binding, generation, entry)
            wanted += [
                condition(kind, found["status"], found["reason"], found["message"], generation)
                for kind in (JOBS_STARTED, JOBS_FINISHED)
                if (found := fresh(binding, kind)) is not None
            ]
        else:
            wanted.append(_waiting(binding, generation))
    old = before.get("conditions") or []
    conditions: list[Obj] = []
    for one in wanted:
        conditions += set_condition([c for c in old if c["type"] == one["type"]], one, view.now)
    return {**entry, "conditions": conditions}


def _unknown(step: str, generation: int) -> Obj:
    form = UNKNOWN_PER_CLUSTER[step]
    return condition(step, "Unknown", form.reason, form.message, generation)


def _waiting(binding: Obj, generation: int) -> Obj:
    """A binding that is still on an older snapshot."""
    started = fresh(binding, "RolloutStarted")
    if started is not None and started["status"] == "False":
        text = "The rollout is being blocked by the rollout strategy"
        return condition("RolloutStarted", False, "RolloutNotStartedYet", text, generation)
    return _unknown("RolloutStarted", generation)


def _copied(view: View, binding: Obj, generation: int, entry: Obj) -> list[Obj]:
    """The binding's own conditions up to the first that is not True; lists go into `entry`."""
    result = []
    status = status_of(binding)
    for step in view.steps:
        found = fresh(binding, step)
        if found is None or found["status"] == "Unknown":
            result.append(_unknown(step, generation))
            break
        result.append(condition(step, found["status"], found["reason"], found["message"], generation))
        _copy_lists(step, found["status"] == "True", binding, status, entry)
        if found["status"] != "True":
            break
    return result


def _copy_lists(step: str, succeeded: bool, binding: Obj, status: Obj, entry: Obj) -> None:
    if step == "RolloutStarted" and succeeded:
        spec = spec_of(binding)
        if spec.get("resourceOverrideSnapshots"):
            entry["applicableResourceOverrides"] = spec["resourceOverrideSnapshots"]
        if spec.get("clusterResourceOverrideSnapshots"):
            entry["applicableClusterResourceOverrides"] = spec["clusterResourceOverrideSnapshots"]
    names: tuple[str, ...] = ()
    if step in ("Applied", "Available"):
        names = ("driftedPlacements",) if succeeded else ("driftedPlacements", *_COPIED_ON_FAILURE)
    elif step == "DiffReported" and succeeded:
        names = ("diffedPlacements",)
    for name in names:
        if status.get(name):
            entry[name] = status[name]


# All clusters


def _aggregate(view: View, entries: Sequence[Obj], status: Obj) -> tuple[list[Obj], Obj]:
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


def _external(view: View, entries: Sequence[Obj], status: Obj) -> tuple[Obj | None, Obj]:
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


# Events


class Announcement(NamedTuple):
    reason: str
    message: str


_ANNOUNCED: Final = {
    "RolloutStarted": Announcement("PlacementRolloutStarted", "Started rolling out the latest resources"),
    "Overridden": Announcement("PlacementOverriddenSucceeded", "Placement has been successfully overridden"),
    "WorkSynchronized": Announcement(
        "PlacementWorkSynchronized", "Work(s) have been created or updated successfully for the selected cluster(s)"
    ),
    "Applied": Announcement("PlacementApplied", "Resources have been applied to the selected cluster(s)"),
    "Available": Announcement("PlacementAvailable", "Resources are available on the selected cluster(s)"),
}
COMPLETED: Final = Announcement(
    "PlacementRolloutCompleted", "Placement has finished the rollout process and reached the desired status"
)
CLEANED_UP: Final = Announcement(
    "PlacementCleanupFinalizerRemoved", "Deleted the snapshots and removed the placement cleanup finalizer"
)


def is_complete(view: View, status: Obj) -> bool:
    """Whether every expected condition is True for the placement's generation."""
    policy = spec_of(view.placement).get("policy") or {}
    steps = ("Scheduled", *view.steps)
    if not _has_clusters(status):
        empty = policy.get("placementType") == PICK_N and not policy.get("numberOfClusters")
        empty = empty or (policy.get("placementType") == PICK_FIXED and not policy.get("clusterNames"))
        if not empty:
            return False
        steps = ("Scheduled",)
    return all(_is_current(status, view.prefix + step, view.placement) for step in steps)


def _has_clusters(status: Obj) -> bool:
    return any(one.get("clusterName") for one in status.get("placementStatuses") or ())


def _is_current(status: Obj, kind: str, placement: Obj) -> bool:
    entry = find(status.get("conditions") or [], kind)
    return (
        entry is not None and entry["status"] == "True" and entry.get("observedGeneration") == generation_of(placement)
    )


def announcements(view: View, new: Obj) -> list[Announcement]:
    """The events a change of status is worth."""
    old = status_of(view.placement)
    result = [
        announcement
        for step, announcement in _ANNOUNCED.items()
        if _is_current(new, view.prefix + step, view.placement)
        and not _is_current(old, view.prefix + step, view.placement)
    ]
    if _has_clusters(new) and is_complete(view, new) and not is_complete(view, old):
        result.append(COMPLETED)
    return result
