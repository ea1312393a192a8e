"""The manifests of a Work: who each of them is, which cannot be applied at all, and what of them is applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.core.meta import Key, Obj, annotations_of, key_of, metadata_of, name_of, namespace_of
from corral.core.resource import Resource
from corral.decide.member.compare import trimmed
from corral.kinds.fleet.names import LAST_APPLIED, SPEC_HASH

ANNOTATION_LIMIT: Final = 262_144
_KUBECTL: Final = "kubectl.kubernetes.io/last-applied-configuration"
_REVISION: Final = "deployment.kubernetes.io/revision"
_NOT_OURS: Final = (
    "ownerReferences", "managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "generation", "resourceVersion", "selfLink", "uid",
)  # fmt: skip

GroupVersionKind = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a manifest is not processed: the reason of its Applied condition and the error in its message."""

    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest of a Work. Without a resource, or with a problem, it is only reported on."""

    ordinal: int
    obj: Obj
    resource: Resource | None
    problem: Problem | None = None

    @property
    def key(self) -> Key:
        return key_of(self.obj)

    @property
    def identifier(self) -> Obj:
        """Who it is, as a Work's status names it; empty parts are left out."""
        group, version, kind = group_version_kind(self.obj)
        parts = {
            "group": group,
            "version": version,
            "kind": kind,
            "resource": self.resource.plural if self.resource else "",
            "namespace": namespace_of(self.obj),
            "name": name_of(self.obj),
        }
        return {"ordinal": self.ordinal, **{part: value for part, value in parts.items() if value}}


def group_version_kind(obj: Obj) -> GroupVersionKind:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return group, version, str(obj.get("kind") or "")


def identity(identifier: Obj) -> tuple[str, ...]:
    """What makes two identifiers the same object, wherever they stand in a Work."""
    return tuple(str(identifier.get(part) or "") for part in ("group", "version", "kind", "namespace", "name"))


def identify(objects: Sequence[Obj], known: Mapping[GroupVersionKind, Resource | None]) -> list[Manifest]:
    """The manifests of a Work, given what the member serves; the second of two alike is a duplicate."""
    found: list[Manifest] = []
    seen: set[tuple[str, ...]] = set()
    for ordinal, obj in enumerate(objects):
        resource = known.get(group_version_kind(obj))
        manifest = Manifest(ordinal, obj, resource, _problem(obj, resource))
        who = identity(manifest.identifier)
        if manifest.problem is None and who in seen:
            manifest = Manifest(ordinal, obj, resource, Problem("Duplicated", "a duplicate manifest has been found"))
        seen.add(who)
        found.append(manifest)
    return found


def _problem(obj: Obj, resource: Resource | None) -> Problem | None:
    if resource is None:
        group, version, kind = group_version_kind(obj)
        where = f"{group}/{version}" if group else version
        missing = f'no matches for kind "{kind}" in version "{where}"'
        text = f"failed to decode manifest: failed to find GVR from member cluster client REST mapping: {missing}"
        return Problem("DecodingErred", text)
    if not name_of(obj):
        return Problem("FoundGenerateName", "objects with only generate name are not supported")
    return None


def hash_of(manifest: Obj) -> str:
    """Changes with anything in the manifest that matters; what clusters add by themselves does not."""
    return hashlib.sha256(_encode(trimmed(manifest)).encode()).hexdigest()


def clean(manifest: Obj) -> Obj:
    """The manifest without what only a cluster may say, and without the notes of other appliers."""
    metadata = {name: value for name, value in metadata_of(manifest).items() if name not in _NOT_OURS}
    notes = {SPEC_HASH, LAST_APPLIED, _KUBECTL, _REVISION}
    annotations = {name: value for name, value in annotations_of(manifest).items() if name not in notes}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}


def to_apply(manifest: Obj, owners: Sequence[Obj], *, remember: bool, remembered: Obj | None = None) -> Obj:
    """What is sent to the member: the clean manifest, its hash, its owners, and itself as last applied if asked for.

    `remembered` is remembered in its stead when the manifest was bent to the live object, and of its owners only the last,
    which is us: the others are not ours to take back. When all annotations together would be too large for the API the
    memory is left empty, which asks for server-side apply."""
    body = _owned(clean(manifest), owners, hash_of(remembered or manifest))
    if not remember:
        return body
    before = _owned(clean(remembered or manifest), owners[-1:], hash_of(remembered or manifest))
    annotations = {**annotations_of(body), LAST_APPLIED: _encode(before)}
    size = sum(len(name) + len(value) for name, value in annotations.items())
    if size > ANNOTATION_LIMIT:
        annotations[LAST_APPLIED] = ""
    return _annotated(body, annotations)


def _owned(body: Obj, owners: Sequence[Obj], digest: str) -> Obj:
    body = _annotated(body, {**annotations_of(body), SPEC_HASH: digest})
    return {**body, "metadata": {**body["metadata"], "ownerReferences": list(owners)}}


def _annotated(body: Obj, annotations: Mapping[str, str]) -> Obj:
    return {**body, "metadata": {**body["metadata"], "annotations": dict(annotations)}}


def last_applied(live: Obj) -> Obj:
    """What was last applied to an object, {} when that is not known."""
    text = annotations_of(live).get(LAST_APPLIED)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _encode(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
