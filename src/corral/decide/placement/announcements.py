"""The events a change of a placement's status is worth."""

from __future__ import annotations

from typing import Final, NamedTuple

from corral.core.conditions import find
from corral.core.meta import Obj, generation_of, spec_of, status_of
from corral.decide.placement.scheduling import PICK_FIXED, PICK_N
from corral.decide.placement.status_view import PlacementView


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


def is_complete(view: PlacementView, status: Obj) -> bool:
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


def announcements(view: PlacementView, new: Obj) -> list[Announcement]:
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
