"""Everything a placement's status is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.core.meta import Obj, spec_of
from corral.decide.placement.bindings import Binding

APPLY_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")
DIFF_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported")


@dataclass(frozen=True, slots=True)
class View:
    """Everything a placement's status is made from."""

    prefix: str
    """ClusterResourcePlacement or ResourcePlacement."""
    placement: Obj
    policy_snapshot: Obj
    bindings: Mapping[str, Binding]
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
