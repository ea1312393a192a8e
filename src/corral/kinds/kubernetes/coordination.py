"""coordination.k8s.io/v1: Lease."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.validation import at_least_zero, check_metadata_update, forbidden, invalid
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Column
from corral.kinds.machinery.tables import AGE, NAME, text


def check_lease(lease: Obj) -> list[Cause]:
    spec = spec_of(lease)
    duration = spec.get("leaseDurationSeconds")
    causes: list[Cause] = []
    if duration is not None and duration <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    causes += at_least_zero("spec.leaseTransitions", spec.get("leaseTransitions"))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        causes.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return causes


def check_lease_update(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata_update(new["metadata"], old["metadata"]) + check_lease(new)


LEASE = kind(
    "coordination.v1.Lease",
    "leases",
    group="coordination.k8s.io",
    columns=(NAME, Column("Holder", cell=text(".spec.holderIdentity")), AGE),
    allow_create_on_update=True,
    allow_unconditional_update=False,
    validate=check_lease,
    validate_update=check_lease_update,
)

KINDS = (LEASE,)

LEASES = LEASE.resource()
