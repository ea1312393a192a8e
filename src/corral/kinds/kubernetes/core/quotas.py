"""Defaults and rules of ResourceQuotas and LimitRanges."""

from __future__ import annotations

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of, status_of
from corral.core.quantity import Quantity
from corral.core.validation import (
    IMMUTABLE,
    check_metadata,
    check_metadata_update,
    duplicate,
    forbidden,
    invalid,
    required,
)
from corral.kinds.kubernetes.pods.container_rules import check_amount, check_container_resource, check_resource_name
from corral.kinds.kubernetes.pods.downward_rules import check_all

_COUNTED = frozenset({"pods"})
_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_QUOTA = _COUNTED | _COMPUTE | _CLAIMS | {
    "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "resourcequotas", "services",
    "replicationcontrollers", "secrets", "configmaps", "services.nodeports", "services.loadbalancers",
}  # fmt: skip
_SCOPES = {
    "Terminating": _COUNTED | _COMPUTE,
    "NotTerminating": _COUNTED | _COMPUTE,
    "NotBestEffort": _COUNTED | _COMPUTE,
    "PriorityClass": _COUNTED | _COMPUTE,
    "CrossNamespacePodAffinity": _COUNTED | _COMPUTE,
    "BestEffort": _COUNTED,
    "VolumeAttributesClass": _CLAIMS,
}


def _is_quota_resource(name: str) -> bool:
    return name in _QUOTA or name.startswith(("hugepages-", "requests.hugepages-"))


def check_quota(quota: Obj) -> list[Cause]:
    spec = spec_of(quota)
    return _check_amounts(spec.get("hard"), "spec.hard") + _check_scopes(spec)


def _check_amounts(amounts: Obj | None, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, amount in sorted((amounts or {}).items()):
        where = f"{path}[{name}]"
        causes += check_resource_name(name, where)
        if "/" not in name and not _is_quota_resource(name):
            causes.append(invalid(where, name, "must be a standard resource for quota"))
        causes += check_amount(name, amount, where)
    return causes


def check_quota_status(new: Obj, old: Obj) -> list[Cause]:
    status = status_of(new)
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + [cause for f in ("hard", "used") for cause in _check_amounts(status.get(f), f"status.{f}")]


def _check_scopes(spec: Obj) -> list[Cause]:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    causes: list[Cause] = []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(invalid(path, scopes, "unsupported scope"))
        for name in sorted(spec.get("hard") or {}):
            if scope in _SCOPES and _is_quota_resource(name) and name not in _SCOPES[scope]:
                causes.append(invalid(path, scopes, "unsupported scope applied to resource"))
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= {*scopes}:
            causes.append(invalid(path, scopes, "conflicting scopes"))
    return causes


def check_quota_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"]) + check_quota(new)
    scopes = spec_of(new).get("scopes")
    if {*(scopes or ())} != {*(spec_of(old).get("scopes") or ())}:
        causes.append(invalid("spec.scopes", scopes, IMMUTABLE))
    return causes


def default_limit_range(limit_range: Obj) -> None:
    for item in spec_of(limit_range).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests


def prepare_limit_range(limit_range: Obj) -> None:
    """A LimitRange may come without a name; its uid serves."""
    metadata = limit_range["metadata"]
    if not metadata.get("name"):
        metadata["name"] = metadata["uid"]


def check_limit_range(limit_range: Obj) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for position, item in enumerate(spec_of(limit_range).get("limits") or ()):
        where = f"spec.limits[{position}]"
        kind = item.get("type") or ""
        causes += _check_limit_type(kind, f"{where}.type")
        if kind in seen:
            causes.append(duplicate(f"{where}.type", kind))
        seen.add(kind)
        causes += _check_limit_names(item, kind, where)
        causes += _check_limit_amounts(item, where)
    return causes


def _check_limit_type(kind: str, path: str) -> list[Cause]:
    complaints = names.check_qualified_name(kind)
    if complaints:
        return check_all(path, kind, complaints)
    if "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        return [invalid(path, kind, "must be a standard limit type or fully qualified")]
    return []


def _check_limit_names(item: Obj, kind: str, path: str) -> list[Cause]:
    check = check_container_resource if kind in ("Pod", "Container") else check_resource_name
    causes: list[Cause] = []
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        given = sorted(item.get(field) or {})
        if kind == "Pod" and field in ("default", "defaultRequest"):
            detail = "may not be specified when `type` is 'Pod'"
            causes += [forbidden(f"{path}.{field}", detail)] if given else []
            continue
        for name in given:
            causes += check(name, f"{path}.{field}[{name}]")
        missing = "storage" not in (item.get("min") or {}) and "storage" not in (item.get("max") or {})
        if field == "defaultRequest" and kind == "PersistentVolumeClaim" and missing:
            detail = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(required(f"{path}.limits", detail))
    return causes


_ORDER = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""What must not exceed what, where it is reported, and in which words. The value shown is upstream's choice."""
_SHOWN = {("min", "defaultRequest"): 1, ("default", "max"): 1}


def _check_limit_amounts(item: Obj, path: str) -> list[Cause]:
    fields = {field: item.get(field) or {} for field in ("min", "max", "default", "defaultRequest")}
    causes: list[Cause] = []
    for name in sorted({name for amounts in fields.values() for name in amounts}):
        for low, high, where, text in _ORDER:
            if name not in fields[low] or name not in fields[high]:
                continue
            pair = (fields[low][name], fields[high][name])
            if Quantity.parse(pair[0]) > Quantity.parse(pair[1]):
                value = pair[_SHOWN.get((low, high), 0)]
                causes.append(invalid(f"{path}.{where}[{name}]", value, text.format(*pair)))
    return causes


def check_limit_range_update(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata(new["metadata"], namespaced=True) + check_limit_range(new)
