"""Everything a placement's status is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from corral.core.meta import Obj
from corral.decide.placement.bindings import Binding
from corral.decide.placement.strategy import Strategy, strategy_of


@dataclass(frozen=True)
class PlacementView:
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

    @cached_property
    def strategy(self) -> Strategy:
        return strategy_of(self.placement)

    @property
    def external(self) -> bool:
        return self.strategy.external

    @property
    def steps(self) -> tuple[str, ...]:
        return self.strategy.steps
