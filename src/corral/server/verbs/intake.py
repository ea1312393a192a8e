"""The single steps of taking in an object: reading what was sent, giving it its system metadata, checking it.

These are plain functions over one private object; `write.py` calls them in order.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from corral.core import errors, validation
from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.errors import BadRequest, Cause, Conflict
from corral.core.meta import Obj
from corral.core.names import check_path_segment
from corral.kinds.kubernetes.pods.rules import check_ephemeral_update
from corral.server.served_resources import Served
from corral.server.verbs.codec import Shape
from corral.server.verbs.options import WriteOptions
from corral.store import ObjectKey

_METADATA_ORDER = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
_KEPT_BY_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
# Registering a node is reporting its status.
_STATUS_ON_CREATE = frozenset({"nodes"})


class Writing(NamedTuple):
    """One write request on its way through. `patched` is set while the object is what a patch made of the stored one,
    `heavy` when its steps are too long for the event loop."""

    user: UserInfo
    served: Served
    shape: Shape
    namespace: str
    name: str
    options: WriteOptions
    subresource: str = ""
    patched: bool = False
    heavy: bool = False

    @property
    def key(self) -> ObjectKey:
        return self.served.key(self.namespace, self.name)

    def repeatable(self) -> Writing:
        """The same where what was sent may have to be read again, so that reading must not use it up."""
        return self._replace(options=self.options._replace(owned=False)) if self.options.owned else self

    def admission(self, operation: str, obj: Obj | None, old: Obj | None) -> AdmissionRequest:
        return AdmissionRequest(
            operation, self.served.resource, self.subresource, self.namespace, self.name, self.user, obj, old,
            self.options.dry_run, self.options.warn,
        )  # fmt: skip


def read(writing: Writing, sent: Obj) -> Obj:
    """A private, canonical, defaulted copy of what was sent; complains about unknown fields as asked."""
    shape, options = writing.shape, writing.options
    check_kind(writing, sent)
    obj, complaints = shape.read(sent, owned=options.owned)
    complaints += options.complaints
    if complaints and options.field_validation != "Ignore":
        if options.field_validation == "Strict":
            raise shape.unreadable(strict_error(complaints))
        for complaint in complaints:
            options.warn(complaint)
    return complete(writing, obj)


def read_status(writing: Writing, sent: Obj, old: Obj) -> Obj | None:
    """The same for a status that was sent along with the rest as it is stored: only the status has to be read. None when
    there is more to it."""
    if writing.options.complaints or any(
        value != old.get(field) for field, value in sent.items() if field not in ("metadata", "status")
    ):
        return None
    obj = writing.shape.read_status(sent, old, owned=writing.options.owned)
    if obj is None:
        return None
    served = writing.served
    drop_repeated_owners(writing, obj["metadata"])
    writing.shape.default_status(obj)
    return {"apiVersion": served.api_version, "kind": served.kind.kind, **obj}


def drop_repeated_owners(writing: Writing, metadata: Obj) -> None:
    """Name every owner once, and say so when somebody did not."""
    references = metadata.get("ownerReferences")
    if not references or len(references) < 2:
        return
    kept: dict[bytes, Obj] = {}
    uids: dict[str, None] = {}
    for reference in references:
        identity = _identity(reference)
        if identity in kept:
            uids[reference.get("uid", "")] = None
        else:
            kept[identity] = reference
    if uids:
        metadata["ownerReferences"] = list(kept.values())
        writing.options.warn(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and "
            "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            f"{', '.join(uids)}"
        )


_identity = msgspec.json.Encoder(order="deterministic").encode


def strict_error(complaints: list[str]) -> str:
    return f"strict decoding error: {', '.join(complaints)}"


def reread(writing: Writing, changed: Obj) -> Obj:
    """What admission made of an object, private and defaulted again."""
    obj, _ = writing.shape.read(changed)
    return complete(writing, obj)


def complete(writing: Writing, obj: Obj) -> Obj:
    served = writing.served
    whole: Obj = {"apiVersion": "", "kind": "", "metadata": {}, **obj}
    whole["apiVersion"], whole["kind"] = served.api_version, served.kind.kind
    whole["metadata"] = whole["metadata"] or {}
    drop_repeated_owners(writing, whole["metadata"])
    writing.shape.default(whole)
    return whole


def check_kind(writing: Writing, sent: Obj) -> None:
    """Refuse an object of another kind or version than the request is for; either may be left out."""
    served = writing.served
    kind, version = sent.get("kind") or "", sent.get("apiVersion") or ""
    if (not kind or kind == served.kind.kind) and (not version or version == served.api_version):
        return
    if served.kind.builtin:
        raise wrong_kind(served, kind or served.kind.kind, version or served.api_version)
    metadata = sent.get("metadata") or {}
    causes = []
    if version and version != served.api_version:
        causes.append(validation.invalid("apiVersion", version, f"must be {served.api_version}"))
    if kind and kind != served.kind.kind:
        causes.append(validation.invalid("kind", kind, f"must be {served.kind.kind}"))
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    raise errors.invalid(kind or served.kind.kind, str(name or ""), causes, group=served.kind.group)


def wrong_kind(served: Served, kind: str, api_version: str) -> BadRequest:
    version = api_version.rpartition("/")[2]
    want = served.kind.kind
    if served.registry.find(api_version, kind) is not None:
        package = served.kind.group.partition(".")[0] or "core"
        why = f"converting ({version}.{kind}) to ({package}.{want}): unknown conversion"
    else:
        why = (
            f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
        )
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {want}: {why}')


def check_name(writing: Writing, metadata: Obj) -> None:
    """The object sent to a URL must carry the URL's name."""
    name = metadata.get("name") or ""
    if not name:
        raise BadRequest(
            f"the name of the object ({writing.name} based on URL) was undeterminable: name must be provided"
        )
    if name != writing.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({writing.name})")


def namespace_of_new(writing: Writing, metadata: Obj) -> str:
    """The namespace an object goes to, taken from the request where the object is silent."""
    if not writing.served.kind.namespaced:
        metadata.pop("namespace", None)  # forgotten rather than refused, as upstream does it
        return ""
    sent = metadata.get("namespace") or ""
    if sent and writing.namespace and sent != writing.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    namespace: str = writing.namespace or sent
    metadata["namespace"] = namespace
    return namespace


def begin_life(writing: Writing, metadata: Obj, uid: str, now: str) -> None:
    """System metadata of a new object; what the caller put there is ignored."""
    for field in ("selfLink", *_KEPT_BY_SYSTEM):
        metadata.pop(field, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now


def prepare_new(writing: Writing, obj: Obj) -> None:
    """Last changes before a new object is checked."""
    kind = writing.served.kind
    if writing.served.version.status and kind.plural not in _STATUS_ON_CREATE:
        obj.pop("status", None)
    kind.prepare_create(obj)
    if kind.has_generation:
        obj["metadata"]["generation"] = 1


def carry_over(writing: Writing, obj: Obj, old: Obj) -> None:
    """Put back what this request may not change: system metadata, and status or everything else."""
    metadata, before = obj["metadata"], old["metadata"]
    for field in (*_KEPT_BY_SYSTEM, "resourceVersion"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    metadata.pop("selfLink", None)
    part = _PARTS.get(writing.subresource)
    if part is not None:
        _keep_only(part, obj, old)
    elif writing.served.version.status:
        _put_part(obj, ("status",), old.get("status"))


# What a write to a subresource may change; scale and resize are computed beforehand.
_PARTS: dict[str, tuple[str, ...]] = {
    "status": ("status",),
    "finalize": ("spec", "finalizers"),
    "ephemeralcontainers": ("spec", "ephemeralContainers"),
    "approval": ("status", "conditions"),
}


def _keep_only(part: tuple[str, ...], obj: Obj, old: Obj) -> None:
    """Make `obj` the old object again but for one part of it, and for who manages what."""
    wanted: object = obj
    for field in part:
        wanted = wanted.get(field) if isinstance(wanted, dict) else None
    managed = obj["metadata"].get("managedFields")
    obj.clear()
    obj.update(old)
    obj["metadata"] = {**old["metadata"]}
    if managed is not None:
        obj["metadata"]["managedFields"] = managed
    _put_part(obj, part, wanted)


def _put_part(obj: Obj, part: tuple[str, ...], value: object) -> None:
    """Set one part of a private object whose other parts may be shared; None removes it."""
    *way, last = part
    for field in way:
        obj[field] = {**(obj.get(field) or {})}
        obj = obj[field]
    if value is None:
        obj.pop(last, None)
    else:
        obj[last] = value


def prepare_changed(writing: Writing, obj: Obj, old: Obj) -> None:
    """Last changes before a changed object is checked."""
    if writing.subresource == "status":
        writing.served.kind.prepare_status(obj, old)
    elif writing.subresource not in _PARTS:
        writing.served.kind.prepare_update(obj, old)


def same(obj: Obj, old: Obj) -> bool:
    """Whether nothing changed, the times in managedFields aside."""
    if obj.keys() != old.keys() or any(obj[field] != old[field] for field in obj if field != "metadata"):
        return False
    new, before = obj["metadata"], old["metadata"]
    if new == before:
        return True
    if any(new.get(field) != before.get(field) for field in {*new, *before} if field != "managedFields"):
        return False
    return _timeless(new) == _timeless(before)


def _timeless(metadata: Obj) -> list[Obj]:
    entries = metadata.get("managedFields") or []
    return [{field: value for field, value in entry.items() if field != "time"} for entry in entries]


def raise_generation(writing: Writing, obj: Obj, old: Obj) -> None:
    """A change of what is wanted, as opposed to what is observed, makes a new generation."""
    kind = writing.served.kind
    if not kind.has_generation or writing.subresource == "status":
        return
    observed = {"metadata", "status"} if writing.served.version.status else {"metadata"}
    fields = {**obj, **old}
    if any(obj.get(field) != old.get(field) for field in fields if field not in observed):
        obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


_ANY_FINALIZERS = frozenset(
    {
        "customresourcedefinitions", "events", "leases", "mutatingwebhookconfigurations", "poddisruptionbudgets", "runtimeclasses",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    }
)  # fmt: skip
"""Kinds of Kubernetes' own whose finalizers need no domain."""


def check_new(writing: Writing, obj: Obj) -> list[Cause]:
    """Everything wrong with a new object."""
    kind = writing.served.kind
    causes = validation.check_metadata(
        obj["metadata"],
        namespaced=kind.namespaced,
        check_name=kind.check_name,
        qualified_finalizers=kind.plural not in _ANY_FINALIZERS,
    )
    return causes + writing.shape.check(obj)


def check_changed(writing: Writing, obj: Obj, old: Obj) -> list[Cause]:
    """Everything wrong with a changed object."""
    metadata = obj["metadata"]
    causes = validation.check_metadata_update(metadata, old["metadata"])
    finalizers = metadata.get("finalizers")
    is_odd = finalizers != old["metadata"].get("finalizers") and validation.check_finalizers("", finalizers)
    if causes or (is_odd and writing.served.kind.builtin):
        # A real server checks the metadata of a changed object twice, and says everything twice.
        namespaced = writing.served.kind.namespaced
        causes = validation.check_metadata(metadata, namespaced=namespaced, check_name=check_path_segment) + causes
    if writing.subresource == "status":
        return causes + writing.shape.check_status(obj, old)
    if writing.subresource == "ephemeralcontainers":
        return check_ephemeral_update(obj, old)
    return causes + writing.shape.check_update(obj, old)


def pass_on_warnings(writing: Writing, obj: Obj, old: Obj | None) -> None:
    """Tell the caller what is allowed but unwise."""
    for warning in writing.served.kind.warnings(obj, old):
        writing.options.warn(warning)


def in_order(obj: Obj) -> Obj:
    """`obj` with its metadata in the usual order and room for the revision."""
    metadata = {"resourceVersion": "", **obj["metadata"]}
    return {**obj, "metadata": {field: metadata[field] for field in _METADATA_ORDER if field in metadata}}


def may_go(served: Served, obj: Obj) -> bool:
    """Whether nothing holds back an object that is being deleted."""
    metadata = obj["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    return served.bucket != "namespaces" or not (obj.get("spec") or {}).get("finalizers")


_REGISTRY = {
    "customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
"""Where a real server keeps kinds of Kubernetes' own that it does not keep under their names; conflicts tell of it."""


def uid_conflict(writing: Writing, sent: str, found: str) -> Conflict:
    kind = writing.served.kind
    folder = _REGISTRY.get(kind.plural, kind.plural) if kind.builtin else f"{kind.group}/{kind.plural}"
    key = "/".join(part for part in ("/registry", folder, writing.namespace, writing.name) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {sent}, UID in object meta: {found}"
    )
    return errors.conflict(writing.served.resource, writing.name, why)


def unconditional(writing: Writing) -> errors.Invalid:
    """A change of this kind must say which version it is based on."""
    cause = validation.invalid("metadata.resourceVersion", 0, "must be specified for an update")
    return errors.invalid(writing.served.resource.plural, writing.name, [cause], group=writing.served.kind.group)
