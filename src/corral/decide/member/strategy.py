"""How a Work asks to be applied, with its defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass

from corral.core.meta import Obj, spec_of


@dataclass(frozen=True, slots=True)
class Strategy:
    """The `applyStrategy` of a Work and whether it wants statuses reported back."""

    type: str = "ClientSideApply"
    take_over: str = "Always"
    only_undrifted: bool = False
    full_comparison: bool = False
    allow_co_ownership: bool = False
    force: bool = False
    report_back: bool = False

    @property
    def reports_diff(self) -> bool:
        return self.type == "ReportDiff"


def strategy_of(work: Obj) -> Strategy:
    """The strategy of a Work."""
    spec = spec_of(work)
    apply: Obj = spec.get("applyStrategy") or {}
    report: Obj = spec.get("reportBackStrategy") or {}
    return Strategy(
        type=apply.get("type") or "ClientSideApply",
        take_over=apply.get("whenToTakeOver") or "Always",
        only_undrifted=apply.get("whenToApply") == "IfNotDrifted",
        full_comparison=apply.get("comparisonOption") == "FullComparison",
        allow_co_ownership=bool(apply.get("allowCoOwnership")),
        force=bool((apply.get("serverSideApplyConfig") or {}).get("force")),
        # Whether the hub copies it to the original object too is the hub's affair; it reads it here either way.
        report_back=report.get("type") == "Mirror",
    )
