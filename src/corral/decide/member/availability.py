"""Whether an applied object is available: by its status for the kinds that have one to tell, at once for plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from corral.core import conditions
from corral.core.meta import Obj, generation_of, spec_of, status_of

AVAILABLE: Final = "Available"
NOT_YET: Final = "ManifestNotAvailableYet"
NOT_TRACKABLE: Final = "NotTrackable"
_DATA: Final = frozenset(
    (
        "/Namespace",
        "/Secret",
        "/ConfigMap",
        "/ServiceAccount",
        "/LimitRange",
        "/ResourceQuota",
        "apps/ControllerRevision",
        "rbac.authorization.k8s.io/Role",
        "rbac.authorization.k8s.io/ClusterRole",
        "rbac.authorization.k8s.io/RoleBinding",
        "rbac.authorization.k8s.io/ClusterRoleBinding",
        "networking.k8s.io/NetworkPolicy",
        "networking.k8s.io/IngressClass",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/StorageClass",
        "storage.k8s.io/CSIStorageCapacity",
        "scheduling.k8s.io/PriorityClass",
    )
)


def availability(live: Obj) -> str:
    """AVAILABLE, NOT_YET or NOT_TRACKABLE."""
    group = str(live.get("apiVersion") or "").rpartition("/")[0]
    name = f"{group}/{live.get('kind')}"
    if name in _DATA:
        return AVAILABLE
    track = _TRACKERS.get(name)
    if track is None:
        return NOT_TRACKABLE
    is_there = track(live)
    return NOT_TRACKABLE if is_there is None else AVAILABLE if is_there else NOT_YET


def _is_observed(live: Obj) -> bool:
    return bool(status_of(live).get("observedGeneration", 0) == generation_of(live))


def _count(live: Obj, name: str) -> int:
    return int(status_of(live).get(name) or 0)


def _replicas(live: Obj) -> int:
    wanted = spec_of(live).get("replicas")
    return 1 if wanted is None else int(wanted)


def _deployment(live: Obj) -> bool:
    wanted = _replicas(live)
    return (
        _is_observed(live)
        and _count(live, "availableReplicas") == wanted
        and _count(live, "updatedReplicas") == wanted
        and _count(live, "unavailableReplicas") == 0
    )


def _stateful_set(live: Obj) -> bool:
    status = status_of(live)
    return (
        _is_observed(live)
        and _count(live, "availableReplicas") == _replicas(live)
        and _count(live, "currentReplicas") == _count(live, "updatedReplicas")
        and status.get("currentRevision") == status.get("updateRevision")
    )


def _daemon_set(live: Obj) -> bool:
    return (
        _is_observed(live)
        and _count(live, "numberAvailable") == _count(live, "desiredNumberScheduled")
        and _count(live, "currentNumberScheduled") == _count(live, "updatedNumberScheduled")
    )


def _service(live: Obj) -> bool | None:
    match spec_of(live).get("type") or "ClusterIP":
        case "ClusterIP" | "NodePort":
            addresses = spec_of(live).get("clusterIPs") or []
            return bool(addresses and addresses[0])
        case "LoadBalancer":
            ingress = (status_of(live).get("loadBalancer") or {}).get("ingress") or []
            return bool(ingress and (ingress[0].get("ip") or ingress[0].get("hostname")))
    return None


def _definition(live: Obj) -> bool:
    return conditions.is_true(live, "Established") and conditions.is_true(live, "NamesAccepted")


def _disruption_budget(live: Obj) -> bool:
    """Up to date rather than True: a budget that allows no disruption is there too."""
    entry = conditions.find(live, "DisruptionAllowed")
    if entry is None or entry.get("observedGeneration", 0) != generation_of(live):
        return False
    return bool((entry["status"] == "True") == (_count(live, "disruptionsAllowed") > 0))


_TRACKERS: Final[dict[str, Callable[[Obj], bool | None]]] = {
    "apps/Deployment": _deployment,
    "apps/StatefulSet": _stateful_set,
    "apps/DaemonSet": _daemon_set,
    "/Service": _service,
    "apiextensions.k8s.io/CustomResourceDefinition": _definition,
    "policy/PodDisruptionBudget": _disruption_budget,
}
