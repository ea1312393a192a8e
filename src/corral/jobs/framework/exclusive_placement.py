"""Pods that keep a place to themselves: a group of pods together in one domain that no other such group has a part of."""

from __future__ import annotations

from corral.core.meta import Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def exclusive(spec: Obj, label: str, key: str, topology: str | None) -> Obj:
    """A pod spec that wants to be where the pods labelled `label: key` are, and where none with another value is."""
    if not topology:
        return spec
    affinity = dict(spec.get("affinity") or {})
    mine = {"key": label, "operator": "In", "values": [key]}
    others = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [key]}]
    for name, expressions in (("podAffinity", [mine]), ("podAntiAffinity", others)):
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}
        held = dict(affinity.get(name) or {})
        affinity[name] = {**held, REQUIRED: [*(held.get(REQUIRED) or ()), term]}
    return {**spec, "affinity": affinity}
