"""discovery.k8s.io/v1: EndpointSlice."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.kinds.kubernetes.networking import rules as network_rules
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME, limited, text


def _ports(obj: Obj, now: float) -> Cell:
    ports = [str(port.get("port") or port.get("name") or "*") for port in obj.get("ports") or ()]
    return limited(ports, len(ports))


def _endpoints(obj: Obj, now: float) -> Cell:
    found = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return limited(found, len(found))


ENDPOINT_SLICE = kind(
    "discovery.v1.EndpointSlice",
    "endpointslices",
    group="discovery.k8s.io",
    columns=(
        NAME,
        Column("AddressType", cell=text(".addressType")),
        Column("Ports", cell=_ports),
        Column("Endpoints", cell=_endpoints),
        AGE,
    ),
    has_generation=True,
    default=network_rules.default_slice,
    validate=network_rules.check_slice,
    validate_update=network_rules.check_slice_update,
)

KINDS = (ENDPOINT_SLICE,)

ENDPOINT_SLICES = ENDPOINT_SLICE.resource()
