"""The scale subresource: a kind's replica count behind one common face, autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from corral.core import errors, validation
from corral.core.errors import BadRequest
from corral.core.meta import Obj
from corral.core.selectors import from_label_selector
from corral.kinds.machinery.decoding import DecodeError, decoder_of
from corral.kinds.machinery.definition import ScalePaths
from corral.server.verbs.intake import Writing, check_name
from corral.store import Stored

API_VERSION = "autoscaling/v1"
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(stored: Stored, paths: ScalePaths) -> Obj:
    """The Scale that stands for an object."""
    obj = stored.obj
    metadata = {field: obj["metadata"][field] for field in _METADATA if field in obj["metadata"]}
    status: Obj = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _selector(_at(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    replicas = _at(obj, paths.spec_replicas)
    spec: Obj = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status}


def scaled(writing: Writing, obj: Obj, paths: ScalePaths, scale: Obj) -> Obj:
    """`obj` with the replica count and the preconditions of `scale`."""
    try:
        scale = decoder_of("autoscaling/v1.Scale")(scale, [])
    except DecodeError as error:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {error}') from None
    kind, version = scale.get("kind") or "Scale", scale.get("apiVersion") or API_VERSION
    if (kind, version) != ("Scale", API_VERSION):
        raise BadRequest(f"wrong object passed to Scale update: {version}, Kind={kind}")
    metadata = scale.get("metadata") or {}
    check_name(writing, metadata)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        cause = validation.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", writing.name, [cause], group="autoscaling")
    changed = _put(obj, paths.spec_replicas.strip(".").split("."), replicas)
    own = {
        **changed["metadata"],
        **{field: metadata[field] for field in ("resourceVersion", "uid") if metadata.get(field)},
    }
    return {**changed, "metadata": own}


def _at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put(obj: Obj, path: list[str], value: Any) -> Obj:
    head, *rest = path
    return {**obj, head: _put(obj.get(head) or {}, rest, value) if rest else value}


def _selector(found: Any) -> str:
    if isinstance(found, str):
        return found
    if not isinstance(found, dict):
        return ""
    if "matchLabels" in found or "matchExpressions" in found:
        return str(from_label_selector(found))
    return ",".join(f"{key}={found[key]}" for key in sorted(found))
