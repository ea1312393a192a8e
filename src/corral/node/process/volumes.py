"""A pod's volumes as folders on disk, ready to be mounted into its containers.

Content from ConfigMaps, Secrets and the downward API is written to files; an emptyDir is a folder of the pod, a hostPath
the machine's own. What is missing and not optional is a MissingError, and the pod waits, as with a kubelet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from corral.core.meta import Obj, namespace_of, spec_of
from corral.core.names import check_subdomain
from corral.node.environment import MissingError, NodeFacts, Sources, field_value, resource_value, secret_data
from corral.node.process.ownership import hand_to_group
from corral.node.process.paths import (
    OutsideError,
    checked_parts,
    child,
    open_entry,
    open_folder,
    read_below,
    remove_others,
    resolve_below,
    write_below,
)
from corral.node.process.view import Mount

DEFAULT_MODE = 0o644
CONTENT = ("configMap", "secret", "downwardAPI", "projected")
RENEW_AT = 0.8
"""The part of a token's life after which a new one is fetched."""

Contents = dict[str, bytes]
Files = dict[str, tuple[bytes, int]]
TokenSource = Callable[[Obj, Obj], Awaitable[str]]
"""A token for a pod's service account: (pod, serviceAccountToken projection) -> token."""


@dataclass(frozen=True, slots=True)
class VolumeContext:
    """Everything volumes are made from."""

    pod: Obj
    folder: Path
    sources: Sources
    facts: NodeFacts
    token: TokenSource
    claims: Path
    """Where persistent volume claims live, one folder each."""
    now: float = 0.0
    is_new: bool = True
    """Whether no container of the pod has run yet: only then do its volumes change their group."""


async def prepare_volumes(context: VolumeContext) -> dict[str, Path]:
    """Create or refresh every volume of the pod; returns where each one is."""
    places: dict[str, Path] = {}
    for volume in spec_of(context.pod).get("volumes") or ():
        try:
            places[volume["name"]] = await _prepare(context, volume)
            _hand_over(context, volume, places[volume["name"]])
        except (MissingError, OSError) as error:
            raise MissingError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error
    return places


def _hand_over(context: VolumeContext, volume: Obj, place: Path) -> None:
    """Keep `fsGroup`. The machine's own folders stay as they are, as with a kubelet."""
    security = spec_of(context.pod).get("securityContext") or {}
    if (group := security.get("fsGroup")) is None or "hostPath" in volume:
        return
    if any(kind in volume for kind in CONTENT):
        hand_to_group(place, group, is_read_only=True)  # each time: what is written anew belongs to nobody yet
    elif context.is_new:
        hand_to_group(place, group, only_on_mismatch=security.get("fsGroupChangePolicy") == "OnRootMismatch")


def content_volumes(pod: Obj) -> frozenset[str]:
    """The volumes whose content is the cluster's: nobody in a container writes to them, as with a kubelet."""
    volumes = spec_of(pod).get("volumes") or ()
    return frozenset(volume["name"] for volume in volumes if any(kind in volume for kind in CONTENT))


def container_mounts(
    container: Obj, places: dict[str, Path], variables: dict[str, str], read_only: frozenset[str] = frozenset()
) -> tuple[Mount, ...]:
    """The mounts of one container, with `subPath` and `subPathExpr` applied."""
    from corral.node.environment import expand

    mounts = []
    for mount in container.get("volumeMounts") or ():
        place = places.get(mount["name"])
        if place is None:
            raise MissingError(f'volume "{mount["name"]}" not found')
        sub = expand(mount["subPathExpr"], variables) if mount.get("subPathExpr") else mount.get("subPath") or ""
        target = "/" + mount["mountPath"].strip("/")
        below = _sub_path(place, sub, mount["name"]) if sub else ""
        mounts.append(Mount(str(place), target, bool(mount.get("readOnly")) or mount["name"] in read_only, below))
    return tuple(mounts)


def _sub_path(place: Path, sub: str, volume: str) -> str:
    """The folder or file `sub` of a volume, made a folder when it is not there."""
    try:
        parts = resolve_below(place, sub)
        try:
            with open_entry(place, parts):
                pass
        except FileNotFoundError:
            with open_folder(place, parts, create=True):
                pass
    except (OSError, OutsideError) as error:
        raise OutsideError(f'failed to prepare subPath for volumeMount "{volume}" : {error}') from error
    return "/".join(parts)


async def _prepare(context: VolumeContext, volume: Obj) -> Path:
    place = child(context.folder, str(volume["name"]))
    if "hostPath" in volume:
        return _host_path(volume["hostPath"])
    if "persistentVolumeClaim" in volume:
        name = str(volume["persistentVolumeClaim"]["claimName"])
        if check_subdomain(name):  # no claim can have this name
            raise OutsideError(f'persistentvolumeclaim "{name}" not found')
        claim = child(child(context.claims, namespace_of(context.pod)), name)
        claim.mkdir(parents=True, exist_ok=True)
        return claim
    place.mkdir(parents=True, exist_ok=True)
    if "ephemeral" in volume or "emptyDir" in volume:
        if context.is_new:
            place.chmod(0o777)
        return place
    files = await _content(context, volume)
    if files is None:
        raise MissingError(f'volume "{volume["name"]}": this kind of volume is not supported by the process runtime')
    _write(place, files)
    return place


def _host_path(source: Obj) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    if not path.exists() or (kind == "Directory" and not path.is_dir()) or (kind == "File" and not path.is_file()):
        raise MissingError(f"hostPath type check failed: {path} is not a {kind.lower() or 'path'}")
    return path


async def _content(context: VolumeContext, volume: Obj) -> Files | None:
    if source := volume.get("configMap"):
        return _with_modes(_from_config_map(context, source), source)
    if source := volume.get("secret"):
        return _with_modes(_from_secret(context, {**source, "name": source["secretName"]}), source)
    if source := volume.get("downwardAPI"):
        return _with_modes(_from_downward(context, source), source)
    if source := volume.get("projected"):
        files: Files = {}
        for part in source.get("sources") or ():
            given: Obj = next(iter(part.values()), {})
            files.update(_with_modes(await _projected(context, part, volume["name"]), given, source))
        return files
    return None


def _with_modes(files: Contents, source: Obj, outer: Obj | None = None) -> Files:
    """Each file with the permissions its item, its source or its volume asks for."""
    default = int(source.get("defaultMode") or (outer or {}).get("defaultMode") or DEFAULT_MODE)
    modes = {item["path"]: item["mode"] for item in source.get("items") or () if item.get("mode") is not None}
    return {path: (content, modes.get(path, default)) for path, content in files.items()}


async def _projected(context: VolumeContext, part: Obj, volume: str) -> Contents:
    if source := part.get("configMap"):
        return _from_config_map(context, source)
    if source := part.get("secret"):
        return _from_secret(context, source)
    if source := part.get("downwardAPI"):
        return _from_downward(context, source)
    if source := part.get("serviceAccountToken"):
        return {source["path"]: await _token(context, source, child(context.folder, volume))}
    return {}


async def _token(context: VolumeContext, source: Obj, place: Path) -> bytes:
    """A token; the one that is there while most of its time is left."""
    lifetime = float(source.get("expirationSeconds") or 3600)
    checked_parts(source["path"])  # before a token is asked for
    if found := read_below(place, source["path"]):
        content, written = found
        if 0 <= context.now - written < lifetime * RENEW_AT:
            return content
    return (await context.token(context.pod, source)).encode()


def _from_config_map(context: VolumeContext, source: Obj) -> Contents:
    import base64

    found = context.sources.config_maps.get(source["name"])
    if found is None:
        return _absent(source, f'configmap "{source["name"]}" not found')
    data = {key: text.encode() for key, text in (found.get("data") or {}).items()}
    data.update((key, base64.b64decode(text)) for key, text in (found.get("binaryData") or {}).items())
    return _picked(source, data)


def _from_secret(context: VolumeContext, source: Obj) -> Contents:
    found = context.sources.secrets.get(source["name"])
    if found is None:
        return _absent(source, f'secret "{source["name"]}" not found')
    return _picked(source, secret_data(found))


def _absent(source: Obj, message: str) -> Contents:
    if source.get("optional"):
        return {}
    raise MissingError(message)


def _picked(source: Obj, data: Contents) -> Contents:
    items = source.get("items")
    if not items:
        return data
    for item in items:
        if item["key"] not in data and not source.get("optional"):
            raise MissingError(f"references non-existent config key: {item['key']}")
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data}


def _from_downward(context: VolumeContext, source: Obj) -> Contents:
    files: Contents = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            text = field_value(context.pod, reference["fieldPath"], context.facts)
        else:
            text = resource_value(context.pod, {}, item["resourceFieldRef"], context.facts)
        files[item["path"]] = text.encode()
    return files


def _write(place: Path, files: Files) -> None:
    for name, (content, mode) in files.items():
        found = read_below(place, name)
        if found is None or found[0] != content:
            write_below(place, name, content, mode)
    remove_others(place, {checked_parts(name) for name in files})
