"""Matching pods to node labels and taints, for flavors (which know some labels) and nodes (which know all)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from corral.decide.queueing.model.values import FlavorSpec, PodConstraints, Requirement, Taint, Toleration

_BLOCKING = ("NoSchedule", "NoExecute")


def untolerated_taint(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that keeps a pod away."""
    for taint in taints:
        if taint.effect in _BLOCKING and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


def flavor_matches(constraints: PodConstraints, flavor: FlavorSpec) -> bool:
    """Do the pod's node constraints allow the flavor's nodes? Only label keys the flavor declares are looked at."""
    labels = flavor.node_labels
    if any(labels[key] != value for key, value in constraints.node_selector if key in labels):
        return False
    terms = [[entry for entry in term if entry.key in labels] for term in constraints.affinity_terms]
    if not terms or not all(terms):
        # Terms are alternatives: one that says nothing about this flavor lets everything in.
        return True
    return any(all(requirement_matches(entry, labels) for entry in term) for term in terms)


def node_matches(constraints: PodConstraints, labels: Mapping[str, str], name: str) -> bool:
    """Would the kube-scheduler's node affinity filter accept the node?"""
    if any(labels.get(key) != value for key, value in constraints.node_selector):
        return False
    if not constraints.affinity_terms:
        return True
    known = {**labels, "metadata.name": name}
    return any(
        bool(term) and all(requirement_matches(entry, known) for entry in term) for term in constraints.affinity_terms
    )


def affinity_score(constraints: PodConstraints, labels: Mapping[str, str], name: str) -> int:
    """The weights of all preferred terms the node satisfies."""
    known = {**labels, "metadata.name": name}
    return sum(
        weight
        for weight, term in constraints.preferred
        if term and all(requirement_matches(entry, known) for entry in term)
    )


def requirement_matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(requirement, value)
    return False


def _compares(requirement: Requirement, value: str) -> bool:
    try:
        number, bound = int(value), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.operator == "Gt" else number < bound
