"""Where a cluster of Corral's keeps what it wants to be known about itself: one ConfigMap, a key for each topic."""

from __future__ import annotations

from corral.core.meta import Obj

NAMESPACE = "kube-system"
NAME = "corral-notices"


def sentences(config_map: Obj) -> list[str]:
    """All that is said, a line each."""
    data: dict[str, str] = config_map.get("data") or {}
    return [line for topic in sorted(data) for line in data[topic].splitlines()]
