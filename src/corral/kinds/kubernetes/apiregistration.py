"""apiregistration.k8s.io/v1: APIService."""

from __future__ import annotations

from base64 import b64decode

from corral.core import conditions
from corral.core.errors import Cause
from corral.core.meta import Obj, name_of, spec_of
from corral.core.names import check_label_1035, check_path_segment, check_port_number, check_subdomain
from corral.core.validation import check_metadata_update, go_quote, invalid, required
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME


def _service(obj: Obj, now: float) -> Cell:
    service = spec_of(obj).get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Obj, now: float) -> Cell:
    entry = conditions.find(obj, "Available")
    if entry is None:
        return "Unknown"
    return "True" if entry.get("status") == "True" else f"{entry.get('status')} ({entry.get('reason', '')})"


def _check(obj: Obj) -> list[Cause]:
    """A registration is named by what it registers, and says how it ranks and whom to call."""
    spec = spec_of(obj)
    group, version = spec.get("group") or "", spec.get("version") or ""
    name, wanted = name_of(obj), f"{version}.{group}"
    causes: list[Cause] = []
    if name and name != wanted and not check_path_segment(name):
        causes.append(invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}'))
    if not group and version != "v1":
        causes.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    causes += [invalid("spec.group", group, why) for why in check_subdomain(group)] if group else []
    causes += [invalid("spec.version", version, why) for why in check_label_1035(version)]
    for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field) or 0
        if not 0 < value <= limit:
            causes.append(invalid(f"spec.{field}", value, f"must be positive and less than {limit}"))
    return causes + _check_target(spec)


def _check_target(spec: Obj) -> list[Cause]:
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        shown = f"{len(b64decode(bundle))} bytes" if bundle else ""
        causes = [invalid("spec.caBundle", shown, "local APIServices may not have a caBundle")] if bundle else []
        detail = "local APIServices may not have insecureSkipTLSVerify"
        return [*causes, invalid("spec.insecureSkipTLSVerify", True, detail)] if insecure else causes
    causes = [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port") or 443
    faults = check_port_number(port)
    if faults:
        causes.append(invalid("spec.service.port", port, f"port is not valid: {', '.join(faults)}"))
    if insecure and bundle:
        causes.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return causes


def _check_update(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata_update(new["metadata"], old["metadata"]) + _check(new)


API_SERVICE = kind(
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    "apiservices",
    group="apiregistration.k8s.io",
    namespaced=False,
    categories=("api-extensions",),
    columns=(NAME, Column("Service", cell=_service), Column("Available", cell=_available), AGE),
    status=True,
    allow_unconditional_update=False,
    check_name=check_path_segment,
    validate=_check,
    validate_update=_check_update,
)

KINDS = (API_SERVICE,)

API_SERVICES = API_SERVICE.resource()
