"""Rules for the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.core.validation import duplicate, forbidden, invalid, not_supported, required
from corral.kinds.kubernetes.pods.downward_rules import VOLUME_FIELDS, check_field_ref, check_resource_ref

_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def check_volumes(volumes: Iterable[Obj], path: str) -> tuple[dict[str, Obj], list[Cause]]:
    """The valid volumes by name, and what is wrong with the others."""
    causes: list[Cause] = []
    found: dict[str, Obj] = {}
    for position, volume in enumerate(volumes):
        where = f"{path}[{position}]"
        name = volume.get("name") or ""
        wrong = _check_source(volume, where)
        if name:
            wrong += [invalid(f"{where}.name", name, text) for text in names.check_label(name)]
        else:
            wrong.append(required(f"{where}.name"))
        if name in found:
            wrong.append(duplicate(f"{where}.name", name))
        if not wrong:
            found[name] = volume
        causes += wrong
    return found, causes


def _check_source(volume: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    given = 0
    for kind in _SOURCES:
        source = volume.get(kind)
        if source is None:
            continue
        given += 1
        if given > 1:
            causes.append(forbidden(f"{path}.{kind}", "may not specify more than 1 volume type"))
        else:
            causes += _SOURCES[kind](source, f"{path}.{kind}")
    if not given:
        causes.append(required(path, "must specify a volume type"))
    return causes


def _check_mode(source: Obj, path: str, field: str = "defaultMode") -> list[Cause]:
    mode = source.get(field)
    return [invalid(f"{path}.{field}", mode, _MODE)] if mode is not None and not 0 <= mode <= 0o777 else []


def _check_items(items: Iterable[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, item in enumerate(items):
        where = f"{path}[{position}]"
        causes += [required(f"{where}.{field}") for field in ("key", "path") if not item.get(field)]
        causes += check_local_path(item.get("path") or "", f"{where}.path")
        causes += _check_mode(item, where, "mode")
    return causes


def check_path_without_backsteps(target: str, path: str) -> list[Cause]:
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def check_descending_path(target: str, path: str) -> list[Cause]:
    """A path that stays below where it starts."""
    causes = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return causes + check_path_without_backsteps(target, path)


def check_local_path(target: str, path: str) -> list[Cause]:
    """A descending path that does not clash with the hidden files of atomic volumes."""
    causes = check_descending_path(target, path)
    if target.startswith("..") and not target.startswith("../"):
        causes.append(invalid(path, target, "must not start with '..'"))
    return causes


def _named(field: str) -> Callable[[Obj, str], list[Cause]]:
    """A source that names one thing and may pick items of it."""

    def check(source: Obj, path: str) -> list[Cause]:
        causes = [] if source.get(field) else [required(f"{path}.{field}")]
        return causes + _check_mode(source, path) + _check_items(source.get("items") or (), f"{path}.items")

    return check


def _requires(*fields: str) -> Callable[[Obj, str], list[Cause]]:
    return lambda source, path: [required(f"{path}.{field}") for field in fields if not source.get(field)]


def _check_empty_dir(source: Obj, path: str) -> list[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit) < Quantity.parse("0"):
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _check_host_path(source: Obj, path: str) -> list[Cause]:
    target = source.get("path") or ""
    if not target:
        return [required(f"{path}.path")]
    causes = check_path_without_backsteps(target, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return causes


def _check_nfs(source: Obj, path: str) -> list[Cause]:
    causes = _requires("server", "path")(source, path)
    target = source.get("path") or ""
    if not target.startswith("/"):
        causes.append(invalid(f"{path}.path", target, "must be an absolute path"))
    return causes


def _check_downward(source: Obj, path: str) -> list[Cause]:
    causes = _check_mode(source, path)
    for item in source.get("items") or ():
        causes += _check_downward_item(item, path)
    return causes


def _check_downward_item(item: Obj, path: str) -> list[Cause]:
    target = item.get("path") or ""
    causes = [] if target else [required(f"{path}.path")]
    causes += check_local_path(target, f"{path}.path")
    if item.get("fieldRef") is not None:
        causes += check_field_ref(item["fieldRef"], f"{path}.fieldRef", VOLUME_FIELDS)
        if item.get("resourceFieldRef") is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(path, "resource", detail))
    elif item.get("resourceFieldRef") is not None:
        causes += check_resource_ref(item["resourceFieldRef"], f"{path}.resourceFieldRef", volume=True)
    else:
        causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return causes + _check_mode(item, path, "mode")


def _check_projected(source: Obj, path: str) -> list[Cause]:
    causes = _check_mode(source, path)
    paths: set[str] = set()
    for position, part in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{position}]"
        given = [
            kind for kind in ("secret", "configMap", "downwardAPI", "serviceAccountToken") if part.get(kind) is not None
        ]
        for kind in given:
            causes += _check_projection(kind, part[kind], f"{where}.{kind}")
            for target in _projected_paths(kind, part[kind]):
                if target in paths:
                    name = part[kind].get("name") or target
                    causes.append(invalid(path, name, "conflicting duplicate paths"))
                paths.add(target)
        if len(given) > 1:
            causes.append(forbidden(where, "may not specify more than 1 volume type per source"))
    return causes


def _check_projection(kind: str, source: Obj, path: str) -> list[Cause]:
    if kind == "downwardAPI":
        return [cause for item in source.get("items") or () for cause in _check_downward_item(item, path)]
    if kind == "serviceAccountToken":
        seconds = source.get("expirationSeconds") or 0
        causes = []
        if seconds < 600:
            causes.append(
                invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            )
        if seconds > 1 << 32:
            causes.append(
                invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
            )
        target = source.get("path") or ""
        return causes + (check_local_path(target, f"{path}.path") if target else [required(f"{path}.path")])
    causes = [] if source.get("name") else [required(f"{path}.name")]
    return causes + _check_items(source.get("items") or (), f"{path}.items")


def _projected_paths(kind: str, source: Obj) -> list[str]:
    if kind == "serviceAccountToken":
        return [source["path"]] if source.get("path") else []
    return [item["path"] for item in source.get("items") or () if item.get("path")]


def _check_ephemeral(source: Obj, path: str) -> list[Cause]:
    return [] if source.get("volumeClaimTemplate") else [required(f"{path}.volumeClaimTemplate")]


def _check_image(source: Obj, path: str) -> list[Cause]:
    policy = source.get("pullPolicy")
    allowed = ("Always", "IfNotPresent", "Never")
    return [] if policy in allowed else [not_supported(f"{path}.pullPolicy", policy, allowed)]


def _unchecked(source: Obj, path: str) -> list[Cause]:
    return []


_SOURCES: dict[str, Callable[[Obj, str], list[Cause]]] = {
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "gitRepo": _requires("repository"),
    "gcePersistentDisk": _requires("pdName"),
    "awsElasticBlockStore": _requires("volumeID"),
    "secret": _named("secretName"),
    "nfs": _check_nfs,
    "iscsi": _requires("targetPortal", "iqn"),
    "glusterfs": _requires("endpoints", "path"),
    "flocker": _unchecked,
    "persistentVolumeClaim": _requires("claimName"),
    "rbd": _requires("monitors", "image"),
    "cinder": _requires("volumeID"),
    "cephfs": _requires("monitors"),
    "quobyte": _requires("registry", "volume"),
    "downwardAPI": _check_downward,
    "fc": _unchecked,
    "flexVolume": _requires("driver"),
    "configMap": _named("name"),
    "azureFile": _requires("secretName", "shareName"),
    "vsphereVolume": _requires("volumePath"),
    "photonPersistentDisk": _requires("pdID"),
    "portworxVolume": _requires("volumeID"),
    "azureDisk": _requires("diskName", "diskURI"),
    "storageos": _unchecked,
    "scaleIO": _requires("gateway", "system", "volumeName"),
    "projected": _check_projected,
    "csi": _requires("driver"),
    "ephemeral": _check_ephemeral,
    "image": _check_image,
}
"""Volume sources in the order they are looked at."""
