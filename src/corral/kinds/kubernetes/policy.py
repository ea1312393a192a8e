"""policy/v1: PodDisruptionBudget."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of, status_of
from corral.core.names import check_path_segment
from corral.core.validation import at_least_zero, check_label_selector, invalid, not_supported
from corral.kinds.kubernetes.apps.rules import check_int_or_percent, percent_value
from corral.kinds.machinery import go_struct_text as internal
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Column
from corral.kinds.machinery.tables import AGE, NAME, number, text

_MIN, _MAX = text(".spec.minAvailable", "N/A"), text(".spec.maxUnavailable", "N/A")


def check_budget(budget: Obj) -> list[Cause]:
    spec = spec_of(budget)
    causes: list[Cause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        types = ("policy.PodDisruptionBudgetSpec", "policy/v1.PodDisruptionBudgetSpec")
        detail = "minAvailable and maxUnavailable cannot be both set"
        causes.append(internal.invalid("spec", *types, spec, detail))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if value is not None:
            causes += check_int_or_percent(value, f"spec.{field}")
            if (percent_value(value) or 0) > 100:
                causes.append(invalid(f"spec.{field}", value, "must not be greater than 100%"))
    causes += check_label_selector("spec.selector", spec.get("selector"))
    eviction = spec.get("unhealthyPodEvictionPolicy")
    if eviction not in (None, "AlwaysAllow", "IfHealthyBudget"):
        choices = ("AlwaysAllow", "IfHealthyBudget")
        causes.append(not_supported("spec.unhealthyPodEvictionPolicy", eviction, choices))
    return causes


def check_budget_update(new: Obj, old: Obj) -> list[Cause]:
    return check_budget(new)


def check_budget_status(new: Obj, old: Obj) -> list[Cause]:
    status = status_of(new)
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return [cause for field in fields for cause in at_least_zero(f"status.{field}", status.get(field))]


POD_DISRUPTION_BUDGET = kind(
    "policy.v1.PodDisruptionBudget",
    "poddisruptionbudgets",
    group="policy",
    short_names=("pdb",),
    columns=(
        NAME,
        Column("Min Available", cell=lambda obj, now: str(_MIN(obj, now))),
        Column("Max Unavailable", cell=lambda obj, now: str(_MAX(obj, now))),
        Column("Allowed Disruptions", type="integer", cell=number(".status.disruptionsAllowed")),
        AGE,
    ),
    status=True,
    has_generation=True,
    allow_unconditional_update=False,
    check_name=check_path_segment,
    validate=check_budget,
    validate_update=check_budget_update,
    validate_status=check_budget_status,
)

KINDS = (POD_DISRUPTION_BUDGET,)
