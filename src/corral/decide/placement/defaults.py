"""What a placement means where its user left something out."""

from __future__ import annotations

from corral.core.meta import Obj, spec_of


def with_defaults(placement: Obj) -> Obj:
    """A ClusterResourcePlacement with everything a user may leave out."""
    spec = dict(spec_of(placement))
    policy = dict(spec.get("policy") or {})
    policy.setdefault("placementType", "PickAll")
    if policy.get("topologySpreadConstraints"):
        policy["topologySpreadConstraints"] = [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **one} for one in policy["topologySpreadConstraints"]
        ]
    if policy.get("tolerations"):
        policy["tolerations"] = [{"operator": "Equal", **one} for one in policy["tolerations"]]
    strategy = dict(spec.get("strategy") or {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        defaults: Obj = {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60}
        strategy["rollingUpdate"] = {**defaults, **(strategy.get("rollingUpdate") or {})}
    apply: Obj = {
        "comparisonOption": "PartialComparison",
        "type": "ClientSideApply",
        "whenToApply": "Always",
        "whenToTakeOver": "Always",
        **(strategy.get("applyStrategy") or {}),
    }
    if apply["type"] == "ServerSideApply":
        apply["serverSideApplyConfig"] = {"force": False, **(apply.get("serverSideApplyConfig") or {})}
    strategy["applyStrategy"] = apply
    spec.update(policy=policy, strategy=strategy)
    spec.setdefault("revisionHistoryLimit", 10)
    return placement if spec == spec_of(placement) else {**placement, "spec": spec}
