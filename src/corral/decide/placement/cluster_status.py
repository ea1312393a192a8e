"""What one cluster says about its binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.core.conditions import condition, set_condition
from corral.core.meta import Obj, generation_of, spec_of, status_of
from corral.decide.placement.bindings import Binding
from corral.decide.placement.progress import JOBS_FINISHED, JOBS_STARTED
from corral.decide.placement.status_texts import UNKNOWN_PER_CLUSTER
from corral.decide.placement.status_view import PlacementView

_COPIED_ON_FAILURE: Final = ("failedPlacements", "diffedPlacements")


def statuses_of_nobody(view: PlacementView, decisions: Sequence[Obj], chosen: int) -> list[Obj]:
    """Entries for the clusters a placement still lacks: why that many of the rejected clusters were not chosen."""
    texts = [decision["reason"] for decision in decisions[: max(0, _wanted(view) - chosen)]]
    since = {
        one["conditions"][0]["message"]: one["conditions"][0]["lastTransitionTime"]
        for one in status_of(view.placement).get("placementStatuses") or ()
        if not one.get("clusterName") and one.get("conditions")
    }
    generation = generation_of(view.placement)
    failed = [condition("Scheduled", False, "ScheduleFailed", text, generation) for text in texts]
    return [
        {"conditions": [{**entry, "lastTransitionTime": since.get(entry["message"], view.now)}]} for entry in failed
    ]


def _wanted(view: PlacementView) -> int:
    """How many clusters the placement asks for; 0 when it takes what there is."""
    policy = spec_of(view.placement).get("policy") or {}
    match policy.get("placementType"):
        case "PickN":
            return int(policy.get("numberOfClusters") or 0)
        case "PickFixed":
            return len(policy.get("clusterNames") or ())
    return 0


def status_of_cluster(view: PlacementView, decision: Obj, before: Obj) -> Obj:
    """The entry of a chosen cluster; `before` is the one it had."""
    generation = generation_of(view.placement)
    binding = view.bindings.get(decision["clusterName"])
    entry: Obj = {"clusterName": decision["clusterName"]}
    wanted = [condition("Scheduled", True, "Scheduled", decision["reason"], generation)]
    if binding is None:
        index = "" if view.external else view.index
        wanted.append(_unknown("RolloutStarted", generation))
    else:
        snapshot = binding.snapshot
        index = view.indexes.get(snapshot, "") if view.external else view.index
        if view.external or snapshot == view.snapshot:
            wanted += [*_copied(view, binding, generation), *_job_conditions(binding, generation)]
            entry |= _lists(wanted, binding)
        else:
            wanted.append(_waiting(binding, generation))
    if index:
        entry["observedResourceIndex"] = index
    old = before.get("conditions") or []
    conditions: list[Obj] = []
    for one in wanted:
        conditions += set_condition([known for known in old if known["type"] == one["type"]], one, view.now)
    return {**entry, "conditions": conditions}


def _job_conditions(binding: Binding, generation: int) -> list[Obj]:
    found = (binding.fresh(kind) for kind in (JOBS_STARTED, JOBS_FINISHED))
    return [
        condition(entry["type"], entry["status"], entry["reason"], entry["message"], generation)
        for entry in found
        if entry is not None
    ]


def _unknown(step: str, generation: int) -> Obj:
    form = UNKNOWN_PER_CLUSTER[step]
    return condition(step, "Unknown", form.reason, form.message, generation)


def _waiting(binding: Binding, generation: int) -> Obj:
    """A binding that is still on an older snapshot."""
    if binding.is_held:
        text = "The rollout is being blocked by the rollout strategy"
        return condition("RolloutStarted", False, "RolloutNotStartedYet", text, generation)
    return _unknown("RolloutStarted", generation)


def _copied(view: PlacementView, binding: Binding, generation: int) -> list[Obj]:
    """The binding's own conditions up to the first that is not True."""
    result: list[Obj] = []
    for step in view.steps:
        found = binding.fresh(step)
        if found is None or found["status"] == "Unknown":
            return [*result, _unknown(step, generation)]
        result.append(condition(step, found["status"], found["reason"], found["message"], generation))
        if found["status"] != "True":
            break
    return result


def _lists(shown: Sequence[Obj], binding: Binding) -> Obj:
    """What a binding lists beside the conditions that are shown of it: overrides, and objects that differ or failed."""
    states = {entry["type"]: entry["status"] for entry in shown}
    spec, status = spec_of(binding.obj), status_of(binding.obj)
    lists: Obj = {}
    if states.get("RolloutStarted") == "True":
        lists["applicableResourceOverrides"] = spec.get("resourceOverrideSnapshots")
        lists["applicableClusterResourceOverrides"] = spec.get("clusterResourceOverrideSnapshots")
    applying = {states.get("Applied"), states.get("Available")}
    if applying & {"True", "False"}:
        lists["driftedPlacements"] = status.get("driftedPlacements")
    if "False" in applying:
        lists |= {name: status.get(name) for name in _COPIED_ON_FAILURE}
    if states.get("DiffReported") == "True":
        lists["diffedPlacements"] = status.get("diffedPlacements")
    return {name: value for name, value in lists.items() if value}
