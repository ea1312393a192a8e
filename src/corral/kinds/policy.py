"""policy/v1: PodDisruptionBudget."""

from __future__ import annotations

from corral.kinds.builtin import kind
from corral.kinds.definition import Column
from corral.kinds.tables import AGE, NAME, number, text

_MIN, _MAX = text(".spec.minAvailable", "N/A"), text(".spec.maxUnavailable", "N/A")

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
)

KINDS = (POD_DISRUPTION_BUDGET,)

POD_DISRUPTION_BUDGETS = POD_DISRUPTION_BUDGET.resource()
