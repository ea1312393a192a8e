"""The Sweep and its schema."""

from __future__ import annotations

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, VersionDef, age_column

GROUP = "sweeps.example.com"
TRIALS = "How many pods try it, each a name with a number."
DESCRIPTIONS = {"Sweep": ("One program, tried with many parameters.", {"spec.trials": TRIALS})}


def _v1() -> s.Schema:
    spec = s.obj(
        {
            "trials": s.integer(minimum=1, default=1),
            "suspend": s.boolean(default=False),
            "managedBy": s.string(),
            "template": s.pod_template(),
        },
        required=("template",),
    )
    counts = {name: s.integer() for name in ("active", "succeeded", "failed")}
    return s.root(spec=spec, status=s.obj({**counts, "conditions": s.conditions()}))


SWEEP = KindDef(
    group=GROUP,
    descriptions="sweeps.kind:DESCRIPTIONS",
    kind="Sweep",
    plural="sweeps",
    versions=(
        VersionDef("v1", schema=_v1, status=True, columns=(Column("Trials", path=".spec.trials"), age_column())),
    ),
)
SWEEPS = SWEEP.resource()
KINDS = (SWEEP,)
