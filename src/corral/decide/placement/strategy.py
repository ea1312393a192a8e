"""How a placement is rolled out, applied and taken back: its `strategy`, decoded, with the defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.core.meta import Obj, spec_of

DEFAULT_BUDGET: Final = "25%"
DEFAULT_PERIOD_S: Final = 60.0
DEFAULT_APPLY: Final[Obj] = {
    "comparisonOption": "PartialComparison",
    "type": "ClientSideApply",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
}
REPORT_DIFF: Final = "ReportDiff"
APPLY_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")
DIFF_STEPS: Final = ("RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported")


@dataclass(frozen=True, slots=True)
class Strategy:
    """The strategy of a placement."""

    apply: Obj
    """How its objects are applied, as bindings and Works carry it."""
    external: bool = False
    """Whether others roll the placement out, in staged update runs."""
    max_unavailable: int | str = DEFAULT_BUDGET
    max_surge: int | str = DEFAULT_BUDGET
    unavailable_period: float = DEFAULT_PERIOD_S
    """Seconds until what cannot be watched counts as ready."""
    report_back: Obj | None = None
    abandons: bool = False
    """Whether what was placed outlives the placement."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The conditions a binding goes through, in order."""
        return DIFF_STEPS if self.apply.get("type") == REPORT_DIFF else APPLY_STEPS


def strategy_of(placement: Obj) -> Strategy:
    """The strategy of a ClusterResourcePlacement or ResourcePlacement."""
    strategy: Obj = spec_of(placement).get("strategy") or {}
    rolling: Obj = strategy.get("rollingUpdate") or {}
    return Strategy(
        apply={**DEFAULT_APPLY, **(strategy.get("applyStrategy") or {})},
        external=strategy.get("type") == "External",
        max_unavailable=rolling.get("maxUnavailable", DEFAULT_BUDGET),
        max_surge=rolling.get("maxSurge", DEFAULT_BUDGET),
        unavailable_period=float(rolling.get("unavailablePeriodSeconds", DEFAULT_PERIOD_S)),
        report_back=strategy.get("reportBackStrategy"),
        abandons=(strategy.get("deleteStrategy") or {}).get("propagationPolicy") == "Abandon",
    )
