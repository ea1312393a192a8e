"""apiregistration.k8s.io/v1: APIService."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, spec_of
from corral.kinds.builtin import kind
from corral.kinds.definition import Cell, Column
from corral.kinds.tables import AGE, NAME


def _service(obj: Obj, now: float) -> Cell:
    service = spec_of(obj).get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Obj, now: float) -> Cell:
    entry = conditions.find(obj, "Available")
    if entry is None:
        return "Unknown"
    return "True" if entry.get("status") == "True" else f"{entry.get('status')} ({entry.get('reason', '')})"


API_SERVICE = kind(
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    "apiservices",
    group="apiregistration.k8s.io",
    namespaced=False,
    categories=("api-extensions",),
    columns=(NAME, Column("Service", cell=_service), Column("Available", cell=_available), AGE),
    status=True,
    allow_unconditional_update=False,
)

KINDS = (API_SERVICE,)

API_SERVICES = API_SERVICE.resource()
