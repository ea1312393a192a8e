"""Object metadata: reading and rebuilding the parts every Kubernetes object shares.

An object is a JSON-shaped dict. Objects that came from a store, a cache or a client are shared and never
mutated: the `with_…` functions return a new object that shares everything they did not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Obj = dict[str, Any]


class Key(NamedTuple):
    """The name of an object within its kind; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> Key:
        """The key written as `namespace/name` or `name`."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


_NOTHING: Obj = {}
_new_key = tuple.__new__
"""What `Key(…)` does behind a function of its own."""


def metadata_of(obj: Obj) -> Obj:
    return obj.get("metadata") or {}


# Asked hundreds of times for a job, so without a call in between.


def key_of(obj: Obj) -> Key:
    metadata = obj.get("metadata") or _NOTHING
    return _new_key(Key, (metadata.get("namespace") or "", metadata.get("name") or ""))


def name_of(obj: Obj) -> str:
    return str((obj.get("metadata") or _NOTHING).get("name") or "")


def namespace_of(obj: Obj) -> str:
    return str((obj.get("metadata") or _NOTHING).get("namespace") or "")


def uid_of(obj: Obj) -> str:
    return str((obj.get("metadata") or _NOTHING).get("uid") or "")


def labels_of(obj: Obj) -> dict[str, str]:
    return (obj.get("metadata") or _NOTHING).get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    return (obj.get("metadata") or _NOTHING).get("annotations") or {}


def resource_version_of(obj: Obj) -> str:
    return str((obj.get("metadata") or _NOTHING).get("resourceVersion") or "")


def generation_of(obj: Obj) -> int:
    return int((obj.get("metadata") or _NOTHING).get("generation") or 0)


def finalizers_of(obj: Obj) -> list[str]:
    return (obj.get("metadata") or _NOTHING).get("finalizers") or []


def owner_references_of(obj: Obj) -> list[Obj]:
    return (obj.get("metadata") or _NOTHING).get("ownerReferences") or []


def is_deleting(obj: Obj) -> bool:
    return (obj.get("metadata") or _NOTHING).get("deletionTimestamp") is not None


def spec_of(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def status_of(obj: Obj) -> Obj:
    return obj.get("status") or {}


def with_metadata(obj: Obj, **changes: Any) -> Obj:
    """A copy of `obj` whose metadata has `changes`; a value of None removes the field."""
    metadata = {**metadata_of(obj), **changes}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if value is not None}}


def with_labels(obj: Obj, labels: Mapping[str, str | None]) -> Obj:
    """A copy with `labels` set; None removes a label."""
    return with_metadata(obj, labels=_merged(labels_of(obj), labels) or None)


def with_annotations(obj: Obj, annotations: Mapping[str, str | None]) -> Obj:
    """A copy with `annotations` set; None removes an annotation."""
    return with_metadata(obj, annotations=_merged(annotations_of(obj), annotations) or None)


def _merged(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**old, **changes}.items() if value is not None}


def with_finalizer(obj: Obj, finalizer: str) -> Obj:
    finalizers = finalizers_of(obj)
    return obj if finalizer in finalizers else with_metadata(obj, finalizers=[*finalizers, finalizer])


def without_finalizer(obj: Obj, finalizer: str) -> Obj:
    kept = [name for name in finalizers_of(obj) if name != finalizer]
    return with_metadata(obj, finalizers=kept or None)


def with_spec(obj: Obj, spec: Obj) -> Obj:
    return {**obj, "spec": spec}


def with_status(obj: Obj, status: Obj) -> Obj:
    return {**obj, "status": status}


def owner_ref(owner: Obj, *, controller: bool = True, block: bool = True) -> Obj:
    """An owner reference to `owner`, which must carry apiVersion and kind."""
    reference: Obj = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
    }
    if controller:
        reference["controller"] = True
    if block:
        reference["blockOwnerDeletion"] = True
    return reference


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference that is marked as controller, if any."""
    return next((ref for ref in owner_references_of(obj) if ref.get("controller")), None)


def is_owned_by(obj: Obj, uid: str) -> bool:
    return any(ref.get("uid") == uid for ref in owner_references_of(obj))
