"""coordination.k8s.io/v1: Lease."""

from __future__ import annotations

from corral.kinds.builtin import kind
from corral.kinds.definition import Column
from corral.kinds.tables import AGE, NAME, text

LEASE = kind(
    "coordination.v1.Lease",
    "leases",
    group="coordination.k8s.io",
    columns=(NAME, Column("Holder", cell=text(".spec.holderIdentity")), AGE),
    allow_create_on_update=True,
    allow_unconditional_update=False,
)

KINDS = (LEASE,)

LEASES = LEASE.resource()
