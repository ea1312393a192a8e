"""autoscaling.x-k8s.io: ProvisioningRequest, by which one asks a cluster autoscaler for room for pods before they exist.

Stored in v1, served in v1beta1 too; both have the same shape. What is asked for never changes: another wish is another
request. Whoever provisions answers with conditions.
"""

from __future__ import annotations

from typing import Final

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import KindDef, Schema, VersionDef, age_column

GROUP: Final = "autoscaling.x-k8s.io"

# Annotations of pods that use provisioned room
CONSUME: Final = f"{GROUP}/consume-provisioning-request"
CLASS_NAME: Final = f"{GROUP}/provisioning-class-name"

# Condition types
ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def _schema() -> Schema:
    fixed = (s.rule("self == oldSelf", "Value is immutable"),)
    template = s.obj({"name": s.string(max_length=253, pattern=_SUBDOMAIN)}, required=("name",))
    pod_set = s.obj({"count": s.integer(minimum=1), "podTemplateRef": template}, required=("count", "podTemplateRef"))
    spec = s.obj(
        {
            "parameters": s.mapping(s.string(max_length=255), max_properties=100, rules=fixed),
            "podSets": s.array(pod_set, min_items=1, max_items=32, rules=fixed),
            "provisioningClassName": s.string(max_length=253, pattern=_SUBDOMAIN, rules=fixed),
        },
        required=("podSets", "provisioningClassName"),
    )
    details = s.mapping(s.string(max_length=32768), max_properties=64)
    status = s.obj({"conditions": s.conditions(), "provisioningClassDetails": details})
    return s.root(spec=spec, status=status, required=("spec",))


PROVISIONING_REQUEST = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.provisioning_descriptions:DESCRIPTIONS",
    kind="ProvisioningRequest",
    plural="provisioningrequests",
    short_names=("provreq", "provreqs"),
    versions=(
        VersionDef("v1", _schema, storage=True, status=True, columns=(age_column(),)),
        VersionDef("v1beta1", _schema, storage=False, status=True, columns=(age_column(),)),
    ),
)
PROVISIONING_REQUESTS = PROVISIONING_REQUEST.resource()
KINDS = (PROVISIONING_REQUEST,)
