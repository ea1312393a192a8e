"""Rules for PersistentVolumes: what every volume must say, whatever it is made of."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.quantity import Quantity
from corral.core.validation import (
    check_metadata_update,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)  # fmt: skip

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_POLICIES = ("Delete", "Recycle", "Retain")
_NOT_SOURCES = frozenset({
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
})  # fmt: skip


def check_volume(volume: Obj) -> list[Cause]:
    spec, path = spec_of(volume), "spec"
    causes = [*_check_modes(spec.get("accessModes") or []), *_check_capacity(spec.get("capacity") or {})]
    policy = spec.get("persistentVolumeReclaimPolicy") or ""
    if policy and policy not in _POLICIES:
        causes.append(not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _POLICIES))
    sources = _sources(spec)
    if not sources:
        causes.append(required(path, "must specify a volume type"))
    for extra in sources[1:]:
        causes.append(forbidden(f"{path}.{extra}", "may not specify more than 1 volume type"))
    host_path = (spec.get("hostPath") or {}).get("path")
    if policy == "Recycle" and host_path == "/":
        causes.append(
            forbidden(f"{path}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
        )
    mode = spec.get("volumeMode")
    if mode is not None and mode not in ("Block", "Filesystem"):
        causes.append(not_supported(f"{path}.volumeMode", mode, ("Block", "Filesystem")))
    return causes


def check_volume_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"]) + check_volume(new)
    now, before = spec_of(new), spec_of(old)
    if any(now.get(field) != before.get(field) for field in {*_sources(now), *_sources(before)}):
        where = "spec.persistentvolumesource"
        causes.append(forbidden(where, f"{where} is immutable after creation"))
    return causes + immutable("volumeMode", now.get("volumeMode"), before.get("volumeMode"))


def _sources(spec: Obj) -> list[str]:
    return sorted(field for field in spec if field not in _NOT_SOURCES)


def _check_modes(modes: list[str]) -> list[Cause]:
    path = "spec.accessModes"
    causes = [] if modes else [required(path)]
    causes += [not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES[:3] for mode in modes):
        causes.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return causes


def _check_capacity(capacity: Obj) -> list[Cause]:
    path = "spec.capacity"
    causes = [] if capacity else [required(path)]
    if "storage" not in capacity or len(capacity) > 1:
        causes.append(not_supported(path, capacity or None, ("storage",)))
    for name, amount in sorted(capacity.items()):
        if Quantity.parse(amount) <= Quantity.parse(0):
            causes.append(invalid(f"{path}[{name}]", amount, "must be greater than zero"))
    return causes
