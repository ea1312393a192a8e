"""Places of an elastic job that changes its size: pods that run stay where they are, only new ones are placed.

The slice that is replaced counts until the new one has taken over, so what its pods use is not free for the new pods
already; only in an empty cluster it has to be counted here.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from corral.decide.queueing.model.amounts import add_into
from corral.decide.queueing.model.settings import Features
from corral.decide.queueing.model.values import Amounts, TopologyAssignment, TopologyDomain
from corral.decide.queueing.topology.capacity import FlavorCapacity, PodSetPlacement
from corral.decide.queueing.topology.tree import Values

Places = dict[str, TopologyAssignment]
"""Assignments by pod set."""


def resize(
    capacity: FlavorCapacity,
    workers: PodSetPlacement,
    leader: PodSetPlacement | None,
    assumed: Mapping[Values, Amounts],
    features: Features,
    *,
    empty: bool,
) -> tuple[Places, Places] | str | None:
    """All places and the new ones among them, or why there are none; None when there is nothing to go on from."""
    held = [pods for pods in (workers, leader) if pods is not None and pods.previous is not None]
    if workers.previous is None or any(capacity.is_stale(pods.previous) for pods in held if pods.previous is not None):
        return None
    kept = {pods.name: _cut(pods.previous, pods.count) for pods in held if pods.previous is not None}
    missing = workers.count - _pods(workers.previous)
    if missing <= 0:
        return kept, {}
    if empty:
        assumed = _with_kept(capacity, assumed, held)
    placed = capacity.place(
        structs.replace(workers, count=missing, previous=None),
        None if leader is None or leader.name in kept else leader,
        assumed,
        mixed=features.topology_profile_mixed,
        balanced=features.topology_balanced,
        empty=empty,
    )
    if isinstance(placed, str):
        return placed
    whole = {**placed, **kept, workers.name: capacity.merged(placed[workers.name], kept[workers.name].domains)}
    return whole, placed


def _pods(assignment: TopologyAssignment) -> int:
    return sum(domain.pods for domain in assignment.domains)


def _cut(assignment: TopologyAssignment, pods: int) -> TopologyAssignment:
    """The first `pods` places."""
    left, domains = pods, list[TopologyDomain]()
    for domain in assignment.domains:
        if left > 0:
            domains.append(TopologyDomain(domain.values, min(domain.pods, left)))
        left -= domain.pods
    return TopologyAssignment(assignment.levels, tuple(domains))


def _with_kept(
    capacity: FlavorCapacity, assumed: Mapping[Values, Amounts], held: list[PodSetPlacement]
) -> dict[Values, Amounts]:
    taken = {key: dict(amounts) for key, amounts in assumed.items()}
    for pods in held:
        for domain in pods.previous.domains if pods.previous is not None else ():
            used = taken.setdefault(capacity.tree.leaf_key(domain.values), {})
            add_into(used, {**pods.per_pod, "pods": 1}, domain.pods)
    return taken
