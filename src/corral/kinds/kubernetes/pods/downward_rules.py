"""Rules for references from a container or a volume to fields and resources of its own pod."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.validation import invalid, not_supported, required

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_RESOURCE_FIELDS = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_DOWNWARD_FIELDS = frozenset({*ENV_FIELDS, "metadata.labels", "metadata.annotations", "spec.schedulerName"})
_SUBSCRIPT = re.compile(r"^(.*)\['(.*)'\]$")

VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")


def check_all(path: str, value: Any, complaints: Iterable[str]) -> list[Cause]:
    """One Invalid cause for each complaint."""
    return [invalid(path, value, complaint) for complaint in complaints]


def check_field_ref(reference: Obj, path: str, allowed: tuple[str, ...]) -> list[Cause]:
    """A reference to a field of the pod itself."""
    field = reference.get("fieldPath") or ""
    if not reference.get("apiVersion"):
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    subscript = _SUBSCRIPT.match(field)
    base = subscript[1] if subscript else field
    if reference["apiVersion"] != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {reference['apiVersion']}"
        return [invalid(f"{path}.fieldPath", field, detail)]
    if base not in _DOWNWARD_FIELDS:
        return [invalid(f"{path}.fieldPath", field, f"error converting fieldPath: field label not supported: {field}")]
    if subscript:
        if base == "metadata.annotations":
            return check_all(path, subscript[2].lower(), names.check_qualified_name(subscript[2].lower()))
        if base == "metadata.labels":
            return check_all(path, subscript[2], names.check_qualified_name(subscript[2]))
        return [invalid(path, base, "does not support subscript")]
    return [] if field in allowed else [not_supported(f"{path}.fieldPath", field, allowed)]


def check_resource_ref(reference: Obj, path: str, *, volume: bool) -> list[Cause]:
    """A reference to a container's resources."""
    resource = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        return [required(f"{path}.containerName")]
    if not resource:
        return [required(f"{path}.resource")]
    if resource in _RESOURCE_FIELDS or resource.startswith(("requests.hugepages-", "limits.hugepages-")):
        return []
    return [not_supported(f"{path}.resource", resource, _RESOURCE_FIELDS)]


def shown_selector(selector: Obj | None) -> Obj | None:
    """A LabelSelector as an error shows it: labels sorted."""
    labels = (selector or {}).get("matchLabels")
    return {**(selector or {}), "matchLabels": dict(sorted(labels.items()))} if labels else selector
