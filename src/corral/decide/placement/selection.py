"""What a placement selects: which kinds may travel, in which order, and what is taken off an object before it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.core.meta import (
    Obj,
    annotations_of,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
)
from corral.core.selectors import from_label_selector
from corral.kinds.fleet.names import CLUSTER_GROUP, PLACEMENT_GROUP

NAMESPACE_ONLY: Final = "NamespaceOnly"
WITH_SELECTORS: Final = "NamespaceWithResourceSelectors"
CLIENT_ERROR: Final = "failed to process the request due to a client error: "

_ORDER: Final = (
    "PriorityClass Namespace NetworkPolicy ResourceQuota LimitRange PodDisruptionBudget ServiceAccount Secret ConfigMap"
    " StorageClass PersistentVolume PersistentVolumeClaim CustomResourceDefinition ClusterRole ClusterRoleBinding Role"
    " RoleBinding Service DaemonSet Pod ReplicationController ReplicaSet Deployment HorizontalPodAutoscaler StatefulSet"
    " Job CronJob IngressClass Ingress APIService MutatingWebhookConfiguration ValidatingWebhookConfiguration"
)
RANKS: Final = {kind: rank for rank, kind in enumerate(_ORDER.split())}

_DISABLED_GROUPS: Final = frozenset({CLUSTER_GROUP, "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"})
_ENVELOPES: Final = frozenset({"ClusterResourceEnvelope", "ResourceEnvelope"})
_NETWORKING: Final = frozenset({"ServiceImport", "TrafficManagerProfile", "TrafficManagerBackend"})
_CORE: Final = frozenset({"Pod", "Node", "Event", "Binding"})


class SelectionError(ValueError):
    """The user's selectors cannot be served."""


def split_api_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def is_selectable(group: str, kind: str) -> bool:
    """Whether objects of this kind ever travel."""
    if group in _DISABLED_GROUPS:
        return False
    if group == PLACEMENT_GROUP:
        return kind in _ENVELOPES
    if group == "networking.fleet.azure.com":
        return kind not in _NETWORKING
    return not (group == "" and kind in _CORE)


def is_reserved(namespace: str) -> bool:
    """Namespaces of the system and of the fleet itself never travel."""
    return namespace == "default" or namespace.startswith(("kube-", "fleet-"))


def travels(obj: Obj, *, has_service: bool = False, runs_workloads: bool = False) -> bool:
    """Whether a selected object travels; what a cluster makes by itself stays.

    `has_service` is for Endpoints; on a hub that `runs_workloads` claims may be those of its own StatefulSets."""
    if is_deleting(obj):
        return False
    group, _ = split_api_version(str(obj.get("apiVersion", "")))
    match (group, obj.get("kind")):
        case ("apps", "ReplicaSet" | "ControllerRevision"):
            return not owner_references_of(obj)
        case ("", "ConfigMap"):
            return name_of(obj) != "kube-root-ca.crt"
        case ("", "ServiceAccount"):
            return name_of(obj) != "default"
        case ("", "Secret"):
            return obj.get("type") != "kubernetes.io/service-account-token"
        case ("", "PersistentVolumeClaim"):
            return not runs_workloads
        case ("", "Endpoints"):
            return not has_service
        case ("discovery.k8s.io", "EndpointSlice"):
            return "endpointslice.kubernetes.io/managed-by" not in labels_of(obj)
    return True


def matches(selector: Obj, obj: Obj) -> bool:
    """Whether a resource selector, whose kind is the object's, picks this object."""
    name = selector.get("name")
    if name:
        return bool(name_of(obj) == name)
    wanted = selector.get("labelSelector")
    return wanted is None or bool(from_label_selector(wanted).matches(labels_of(obj)))


def sort_key(obj: Obj) -> tuple[int, str, str, str]:
    """The order in which objects are applied."""
    kind = str(obj.get("kind", ""))
    rank = RANKS.get(kind)
    if rank is not None:
        return rank, "", namespace_of(obj), name_of(obj)
    group, version = split_api_version(str(obj.get("apiVersion", "")))
    return len(RANKS), f"{group}/{version}, Kind={kind}", namespace_of(obj), name_of(obj)


def ordered(objects: Iterable[Obj]) -> list[Obj]:
    return sorted(objects, key=sort_key)


_DROPPED_METADATA: Final = frozenset(
    [
        "resourceVersion",
        "generation",
        "uid",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "creationTimestamp",
        "ownerReferences",
        "annotations",
    ]
)
_DROPPED_ANNOTATIONS: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"}
)
_UID_LABELS: Final = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid"})


def strip(obj: Obj) -> Obj:
    """What of an object travels: nothing that belongs to the hub alone."""
    metadata = {name: value for name, value in metadata_of(obj).items() if name not in _DROPPED_METADATA}
    annotations = {name: text for name, text in annotations_of(obj).items() if name not in _DROPPED_ANNOTATIONS}
    if annotations:
        metadata["annotations"] = annotations
    kept = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    kept["metadata"] = metadata
    group, _ = split_api_version(str(obj.get("apiVersion", "")))
    if group == "batch" and obj.get("kind") == "Job" and not spec_of(obj).get("manualSelector"):
        kept["spec"] = _job_spec(spec_of(obj))
    elif group == "" and obj.get("kind") == "Service":
        kept["spec"] = _service_spec(spec_of(obj))
    return kept


def _job_spec(spec: Obj) -> Obj:
    """A Job's spec without what the hub generated for it. An emptied matchLabels stays, as upstream leaves it."""
    result = dict(spec)
    selector = spec.get("selector")
    if selector and "matchLabels" in selector:
        result["selector"] = {**selector, "matchLabels": _without(selector["matchLabels"], _UID_LABELS)}
    template = spec.get("template")
    if template and template.get("metadata"):
        metadata = _without(template["metadata"], frozenset({"creationTimestamp"}))
        if "labels" in metadata:
            metadata["labels"] = _without(metadata["labels"], _UID_LABELS)
        result["template"] = {**template, "metadata": metadata}
    return result


def _service_spec(spec: Obj) -> Obj:
    dropped = {"healthCheckNodePort"}
    if spec.get("clusterIP") != "None":
        dropped |= {"clusterIP", "clusterIPs"}
    result = _without(spec, frozenset(dropped))
    if spec.get("ports"):
        result["ports"] = [_without(port, frozenset({"nodePort"})) for port in spec["ports"]]
    return result


def _without(value: Obj | None, names: frozenset[str]) -> Obj:
    return {name: item for name, item in (value or {}).items() if name not in names}


def identifier(obj: Obj) -> Obj:
    """How a status names an object."""
    group, version = split_api_version(str(obj.get("apiVersion", "")))
    named = {
        "group": group,
        "version": version,
        "kind": str(obj.get("kind", "")),
        "name": name_of(obj),
        "namespace": namespace_of(obj),
    }
    return {field: value for field, value in named.items() if value}


def check_duplicates(objects: Iterable[Obj]) -> None:
    """Refuse an object that two selectors picked."""
    seen: set[tuple[str, ...]] = set()
    for obj in objects:
        group, version = split_api_version(str(obj.get("apiVersion", "")))
        identity = (group, version, str(obj.get("kind", "")), name_of(obj), namespace_of(obj))
        if identity in seen:
            raise SelectionError(f"found duplicate resource {go_identifier(*identity)}")
        seen.add(identity)


def go_identifier(group: str, version: str, kind: str, name: str, namespace: str) -> str:
    """A resource identifier as upstream prints it."""
    return f"{{Group:{group} Version:{version} Kind:{kind} Name:{name} Namespace:{namespace} Envelope:<nil>}}"
