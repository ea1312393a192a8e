"""Evictions: whether one is valid, and whether the placement's disruption budget lets it happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.core.conditions import condition
from corral.core.meta import Obj, generation_of, is_deleting, spec_of
from corral.decide.placement.bindings import BOUND, UNSCHEDULED, Binding
from corral.decide.placement.rollout import amount
from corral.decide.placement.scheduling import PICK_ALL, PICK_FIXED, PICK_N

_INVALID: Final = "ClusterResourcePlacementEvictionInvalid"
_START: Final = "Eviction is allowed"


@dataclass(frozen=True, slots=True)
class EvictionVerdict:
    """The conditions of an eviction, and the binding to delete if it goes ahead."""

    conditions: list[Obj]
    evict: Binding | None = None


def judge(eviction: Obj, placement: Obj | None, bindings: Sequence[Binding], budget: Obj | None) -> EvictionVerdict:
    """Decide an eviction once and for all."""
    generation = generation_of(eviction)

    def invalid(text: str) -> EvictionVerdict:
        return EvictionVerdict([condition("Valid", False, _INVALID, text, generation)])

    if placement is None:
        return invalid("Failed to find ClusterResourcePlacement targeted by eviction")
    if is_deleting(placement):
        return invalid("Found deleting ClusterResourcePlacement targeted by eviction")
    policy: Obj = spec_of(placement).get("policy") or {}
    if policy.get("placementType") == PICK_FIXED:
        return invalid("Found ClusterResourcePlacement with PickFixed placement type targeted by eviction")
    here = [one for one in bindings if one.cluster == spec_of(eviction).get("clusterName")]
    if len(here) > 1:
        return invalid("Found more than one scheduler decision for placement in cluster targeted by eviction")
    if not here:
        return invalid("Failed to find scheduler decision for placement in cluster targeted by eviction")
    valid = condition("Valid", True, "ClusterResourcePlacementEvictionValid", "Eviction is valid", generation)
    allowed, text = _executes(here[0], policy, bindings, budget)
    reason = "ClusterResourcePlacementEviction" + ("Executed" if allowed else "NotExecuted")
    executed = condition("Executed", allowed, reason, text, generation)
    return EvictionVerdict([valid, executed], here[0] if allowed and not here[0].deleting else None)


def _executes(binding: Binding, policy: Obj, bindings: Sequence[Binding], budget: Obj | None) -> tuple[bool, str]:
    if binding.deleting:
        return True, (
            f"{_START}, resources propagated by placement is currently being removed from cluster targeted by eviction"
        )
    released = BOUND in (binding.state, binding.previous_state if binding.state == UNSCHEDULED else "")
    if not released:
        return False, "Eviction is blocked, placement has not propagated resources to target cluster yet"
    if binding.has_failed or binding.is_diff_reported:
        return True, f"{_START}, placement has failed"
    if budget is None:
        return True, f"{_START}, no ClusterResourcePlacementDisruptionBudget specified"
    limits = spec_of(budget)
    picks_all = (policy.get("placementType") or PICK_ALL) == PICK_ALL
    if picks_all and ("maxUnavailable" in limits or isinstance(limits.get("minAvailable"), str)):
        return False, (
            "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is"
            " specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
        )
    available = sum(one.is_fresh("Available", "True") for one in bindings)
    total = len(bindings)
    wanted = int(policy.get("numberOfClusters") or 0) if policy.get("placementType") == PICK_N else 0
    counts = f"availablePlacements: {available}, totalPlacements: {total}"
    if _leaves_room(limits, wanted, available, total):
        return True, f"{_START} by specified ClusterResourcePlacementDisruptionBudget, {counts}"
    return False, f"Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, {counts}"


def _leaves_room(limits: Obj, wanted: int, available: int, total: int) -> bool:
    if "maxUnavailable" in limits:
        return amount(limits["maxUnavailable"], wanted) - (total - available) > 0
    return available - amount(limits.get("minAvailable", 0), wanted) > 0


def is_over(eviction_conditions: Sequence[Obj]) -> bool:
    """Whether an eviction has had its answer."""
    return any(
        (entry["type"] == "Valid" and entry["status"] == "False") or entry["type"] == "Executed"
        for entry in eviction_conditions
    )
