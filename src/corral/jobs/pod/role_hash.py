"""The role of a pod in its group: pods of equal scheduling shape have equal hashes.

The hash is upstream's, byte for byte, because it names pod sets in Workloads that other clusters must agree on. It is
taken over JSON as Go writes it: maps sorted by key, structs in the order of their declaration, absent values as null.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from corral.core.meta import Obj

_STRUCT_ORDER = (
    # Toleration, ContainerPort
    "name", "hostPort", "containerPort", "protocol", "hostIP", "key", "operator", "value", "effect", "tolerationSeconds",
    # Affinity
    "nodeAffinity", "podAffinity", "podAntiAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution",
    "weight", "nodeSelectorTerms", "preference", "podAffinityTerm", "matchExpressions", "matchFields", "values",
    # TopologySpreadConstraint, PodAffinityTerm
    "maxSkew", "whenUnsatisfiable", "labelSelector", "matchLabels", "minDomains", "nodeAffinityPolicy",
    "nodeTaintsPolicy", "namespaces", "topologyKey", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys",
    # PodResourceClaim
    "resourceClaimName", "resourceClaimTemplateName",
)  # fmt: skip
_RANK = {name: rank for rank, name in enumerate(_STRUCT_ORDER)}
_RANK_TOPOLOGY_SPREAD = {"maxSkew": 0, "topologyKey": 1, "whenUnsatisfiable": 2, "labelSelector": 3}
_MAPS = frozenset({"matchLabels"})


def role_hash(pod_spec: Obj) -> str:
    """Eight hex digits for the scheduling shape of a pod."""
    text = json.dumps({"spec": _shape(pod_spec)}, separators=(",", ":"), ensure_ascii=False)
    return sha256(_go_escaped(text).encode()).hexdigest()[:8]


def _shape(spec: Obj) -> Obj:
    shape: Obj = {
        "affinity": _struct(spec.get("affinity")),
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "nodeSelector": _map(spec.get("nodeSelector")),
        "overhead": _map(spec.get("overhead")),
        "priority": spec.get("priority"),
        "resourceClaims": _struct(spec.get("resourceClaims")),
        "runtimeClassName": spec.get("runtimeClassName"),
        "tolerations": _struct(spec.get("tolerations")),
        "topologySpreadConstraints": _struct(spec.get("topologySpreadConstraints"), _RANK_TOPOLOGY_SPREAD),
    }
    if spec.get("resources") is not None:
        shape["resources"] = _map(spec["resources"].get("requests"))
    return dict(sorted(shape.items()))


def _containers(containers: list[Obj] | None) -> list[Obj] | None:
    if not containers:
        return None
    return [
        {
            "ports": _struct(container.get("ports")),
            "resources": {"requests": _map((container.get("resources") or {}).get("requests"))},
        }
        for container in containers
    ]


def _map(value: Obj | None) -> Obj | None:
    return dict(sorted(value.items())) if value else None


def _struct(value: Any, ranks: dict[str, int] | None = None) -> Any:
    """`value` with the fields of every struct in declaration order; empty lists and structs stay what Go makes of them."""
    if isinstance(value, list):
        return [_struct(item, ranks) for item in value] if value else None
    if isinstance(value, dict):
        order = {**_RANK, **(ranks or {})}
        fields = sorted(value, key=lambda name: (order.get(name, len(order)), name))
        return {name: _map(value[name]) if name in _MAPS else _struct(value[name]) for name in fields}
    return value


def _go_escaped(text: str) -> str:
    """Go escapes what could hurt inside HTML."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
