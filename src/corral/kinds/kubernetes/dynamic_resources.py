"""resource.k8s.io/v1: device classes, claims and slices of dynamic resource allocation."""

from __future__ import annotations

from corral.core.meta import Obj, is_deleting, spec_of, status_of
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME, text

GROUP = "resource.k8s.io"


def _claim_state(claim: Obj, now: float) -> Cell:
    status = status_of(claim)
    words = ["deleted"] if is_deleting(claim) else []
    words.append("allocated" if status.get("allocation") is not None else "pending")
    if status.get("reservedFor"):
        words.append("reserved")
    return ",".join(words)


DEVICE_CLASS = kind(
    "resource.v1.DeviceClass",
    "deviceclasses",
    group=GROUP,
    namespaced=False,
    columns=(NAME, AGE),
    has_generation=True,
)
RESOURCE_CLAIM = kind(
    "resource.v1.ResourceClaim",
    "resourceclaims",
    group=GROUP,
    columns=(NAME, Column("State", cell=_claim_state), AGE),
    status=True,
)
RESOURCE_CLAIM_TEMPLATE = kind(
    "resource.v1.ResourceClaimTemplate", "resourceclaimtemplates", group=GROUP, columns=(NAME, AGE)
)
RESOURCE_SLICE = kind(
    "resource.v1.ResourceSlice",
    "resourceslices",
    group=GROUP,
    namespaced=False,
    columns=(
        NAME,
        Column("Node", cell=text(".spec.nodeName")),
        Column("Driver", cell=text(".spec.driver")),
        Column("Pool", cell=text(".spec.pool.name")),
        AGE,
    ),
    has_generation=True,
    fields={
        "spec.nodeName": lambda obj: spec_of(obj).get("nodeName") or "",
        "spec.driver": lambda obj: spec_of(obj).get("driver") or "",
    },
)

KINDS = (DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE)

DEVICE_CLASSES = DEVICE_CLASS.resource()
RESOURCE_CLAIM_TEMPLATES = RESOURCE_CLAIM_TEMPLATE.resource()
RESOURCE_SLICES = RESOURCE_SLICE.resource()
