"""What a worker's queue has to give, flavor by flavor, and whether a Workload fits into it.

Every pod set gets one flavor of each resource group, as the worker itself will give it: one whose nodes its pods may use and
which has the topology they ask for. Single nodes are not looked at; the worker does that, and says so when it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from corral.core.meta import Obj, spec_of
from corral.decide.queueing.model.affinity import flavor_matches, untolerated_taint
from corral.decide.queueing.model.constraints import constraints_from, topology_request_from
from corral.decide.queueing.model.requests import pod_requests
from corral.decide.queueing.model.values import Amounts, FlavorSpec, PodConstraints


class PodSetDemand(NamedTuple):
    """What one pod set wants: amounts for all its pods, nodes it may use, and the topology levels it names."""

    requests: Amounts
    constraints: PodConstraints
    has_topology: bool
    levels: tuple[str, ...]


class FlavorRoom(NamedTuple):
    """A flavor of a worker's queue, `levels` being those of its topology, if it has one.

    `free` is unused of the queue's own quota, `lent` what its cohort would lend on top now, `nominal` its own quota and `most`
    what it could have if nobody else used anything.
    """

    spec: FlavorSpec
    levels: tuple[str, ...] | None = None
    free: Mapping[str, int] = {}
    lent: Mapping[str, int] = {}
    nominal: Mapping[str, int] = {}
    most: Mapping[str, int] = {}


Group = tuple[FlavorRoom, ...]
Measure = Callable[[FlavorRoom, str], int]


def now(flavor: FlavorRoom, resource: str) -> int:
    """What can be had without preempting anybody."""
    return flavor.free.get(resource, 0) + flavor.lent.get(resource, 0)


def own(flavor: FlavorRoom, resource: str) -> int:
    """What can be had without borrowing either."""
    return flavor.free.get(resource, 0)


def most(flavor: FlavorRoom, resource: str) -> int:
    """What could ever be had."""
    return flavor.most.get(resource, 0)


def demands_of(workload: Obj) -> tuple[PodSetDemand, ...]:
    """What the pod sets of a Workload want."""
    found = []
    for pod_set in spec_of(workload).get("podSets") or []:
        count, spec = int(pod_set.get("count") or 0), (pod_set.get("template") or {}).get("spec") or {}
        requests = {name: amount * count for name, amount in pod_requests(spec).items()}
        topology = topology_request_from(pod_set.get("topologyRequest"))
        levels: tuple[str, ...] = ()
        has_topology = topology is not None and topology.explicit
        if topology is not None:
            named = (topology.required, topology.preferred, *(layer.topology for layer in topology.slices))
            levels = tuple(filter(None, named))
        found.append(PodSetDemand({**requests, "pods": count}, constraints_from(spec), has_topology, levels))
    return tuple(found)


def total(demands: Iterable[PodSetDemand]) -> Amounts:
    """What all pod sets want together."""
    amounts: Amounts = {}
    for demand in demands:
        for resource, amount in demand.requests.items():
            amounts[resource] = amounts.get(resource, 0) + amount
    return amounts


def unsuitable(demands: Sequence[PodSetDemand], groups: Sequence[Group]) -> str:
    """Why a queue can never take the pod sets, however empty it is; empty when it can."""
    covered = {resource for group in groups for resource in _covers(group)}
    for demand in demands:
        for resource, amount in demand.requests.items():
            if amount and resource not in covered and resource != "pods":
                return f"has no quota for {resource}"
        for group in groups:
            if _wanted(demand, group) and not any(_suits(demand, flavor) for flavor in group):
                topology = demand.has_topology and any(_allows(demand, flavor) for flavor in group)
                return f"has no flavor with {'the topology' if topology else 'nodes'} its pods ask for"
    short = lacking(demands, groups, most)
    return f"can never give so much {short[0]}" if short else ""


def lacking(
    demands: Sequence[PodSetDemand],
    groups: Sequence[Group],
    measure: Measure,
    promised: Mapping[str, int] | None = None,
) -> list[str]:
    """The resources there is too little of for all pod sets at once, when `promised` is taken off first; none when all fit."""
    for group in groups:
        left = [{resource: measure(flavor, resource) for resource in _covers(group)} for flavor in group]
        _take(left, promised or {})
        for demand in demands:
            wanted = _wanted(demand, group)
            suited = [rest for flavor, rest in zip(group, left, strict=True) if _suits(demand, flavor)]
            chosen = next(
                (rest for rest in suited if all(rest[name] >= amount for name, amount in wanted.items())), None
            )
            if chosen is None:
                return [name for name, amount in wanted.items() if all(rest[name] < amount for rest in suited)] or [
                    *wanted
                ]
            for name, amount in wanted.items():
                chosen[name] -= amount
    return []


def summed(groups: Sequence[Group], measure: Measure) -> Amounts:
    """Amounts of all flavors together."""
    amounts: Amounts = {}
    for group in groups:
        for resource in _covers(group):
            amounts[resource] = sum(measure(flavor, resource) for flavor in group)
    return amounts


def _take(left: list[dict[str, int]], promised: Mapping[str, int]) -> None:
    """Take off what others will use: nobody knows from which flavor, so from the first that has some."""
    for resource, amount in promised.items():
        for rest in left:
            taken = min(amount, max(rest.get(resource, 0), 0))
            if taken:
                rest[resource] -= taken
                amount -= taken


def _covers(group: Group) -> list[str]:
    if len(group) == 1:
        return list(group[0].nominal)
    return list(dict.fromkeys(resource for flavor in group for resource in flavor.nominal))


def _wanted(demand: PodSetDemand, group: Group) -> Amounts:
    return {name: demand.requests[name] for name in _covers(group) if demand.requests.get(name)}


def _suits(demand: PodSetDemand, flavor: FlavorRoom) -> bool:
    if not _allows(demand, flavor):
        return False
    if not demand.has_topology:
        return True
    return flavor.levels is not None and all(level in flavor.levels for level in demand.levels)


def _allows(demand: PodSetDemand, flavor: FlavorRoom) -> bool:
    tolerations = (*demand.constraints.tolerations, *flavor.spec.tolerations)
    return untolerated_taint(flavor.spec.taints, tolerations) is None and flavor_matches(
        demand.constraints, flavor.spec
    )
