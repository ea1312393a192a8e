"""All nodes of the cluster and the topology flavors over them.

Hosts may belong to several flavors; what runs on a host counts for all of them. Pods that no topology assignment
accounts for lower what a node offers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from corral.core.meta import Key
from corral.decide.queueing.model.amounts import add_into
from corral.decide.queueing.model.settings import Features
from corral.decide.queueing.model.values import (
    Amounts,
    FlavorSpec,
    NodeSpec,
    PodUsage,
    TopologyAssignment,
    TopologySpec,
    WorkloadInfo,
)
from corral.decide.queueing.topology.capacity import FlavorCapacity, PodSetPlacement
from corral.decide.queueing.topology.growing import Places, resize
from corral.decide.queueing.topology.tree import HOSTNAME, Values, build_tree

Domains = Iterable[tuple[Values, Mapping[str, int], int]]
PlacementRequests = dict[str, list[PodSetPlacement]]
"""Per flavor, the pod sets to place."""


class PlacementFailure(msgspec.Struct, frozen=True):
    pod_set: str
    reason: str
    flavor: str


class PlacementResult(msgspec.Struct, frozen=True):
    assignments: dict[str, TopologyAssignment] = {}
    failure: PlacementFailure | None = None


class TopologyCluster:
    """Nodes, topologies and flavors, and the capacity each flavor sees."""

    def __init__(self, *, shared_hosts: bool = True) -> None:
        """With `shared_hosts` flavors over the same hosts see what runs under each other."""
        self._shared_hosts = shared_hosts
        self.nodes: dict[str, NodeSpec] = {}
        self.topologies: dict[str, TopologySpec] = {}
        self.capacities: dict[str, FlavorCapacity] = {}
        self._flavors: dict[str, FlavorSpec] = {}
        self._hosts: dict[Values, Amounts] = {}
        self._own: dict[str, dict[Values, Amounts]] = {}
        self._pods: dict[Key, PodUsage] = {}
        self._pod_usage: dict[str, Amounts] = {}
        self._stale = False
        self.remapped = False
        """Flavors got, lost or changed their levels, so that usage has to be counted anew."""

    # -- what exists ----------------------------------------------------------------------------------------------

    def set_topology(self, topology: TopologySpec) -> None:
        self.topologies[topology.name] = topology
        self._stale = True

    def delete_topology(self, name: str) -> None:
        self.topologies.pop(name, None)
        self._stale = True

    def set_flavor(self, flavor: FlavorSpec) -> None:
        if flavor.topology:
            self._flavors[flavor.name] = flavor
        else:
            self._flavors.pop(flavor.name, None)
        self._stale = True

    def delete_flavor(self, name: str) -> None:
        if self._flavors.pop(name, None) is not None:
            self._stale = True

    def set_node(self, node: NodeSpec) -> bool:
        """True when it changes what can be placed."""
        usable = node.ready and not node.unschedulable
        old = self.nodes.get(node.name)
        if usable:
            self.nodes[node.name] = node
        else:
            self.nodes.pop(node.name, None)
        changed = old != (node if usable else None)
        self._stale = self._stale or changed
        return changed

    def delete_node(self, name: str) -> bool:
        known = self.nodes.pop(name, None) is not None
        self._stale = self._stale or known
        return known

    def set_pod(self, pod: PodUsage) -> None:
        """Count a bound pod outside topology scheduling."""
        if self._pods.get(pod.key) == pod:
            return
        self.delete_pod(pod.key)
        self._pods[pod.key] = pod
        add_into(self._pod_usage.setdefault(pod.node, {}), {**pod.requests, "pods": 1})
        self._stale = True

    def delete_pod(self, key: Key) -> bool:
        pod = self._pods.pop(key, None)
        if pod is None:
            return False
        add_into(self._pod_usage[pod.node], {**pod.requests, "pods": 1}, -1)
        self._stale = True
        return True

    def settle(self) -> bool:
        """Rebuild capacities after nodes, topologies or flavors changed; True when that happened."""
        if not self._stale:
            return False
        self._stale = False
        before = {name: capacity.levels for name, capacity in self.capacities.items()}
        self.capacities = {}
        for flavor in self._flavors.values():
            topology = self.topologies.get(flavor.topology)
            if topology is None or not topology.levels:
                continue
            nodes = [node for node in self.nodes.values() if _matches(node, flavor)]
            tree = build_tree(topology.levels, nodes, self._pod_usage)
            shared = self._shared_hosts and topology.levels[-1] == HOSTNAME
            usage = self._hosts if shared else self._own.setdefault(flavor.name, {})
            self.capacities[flavor.name] = FlavorCapacity(flavor, topology.name, tree, usage)
        self.remapped = self.remapped or before != {name: found.levels for name, found in self.capacities.items()}
        return True

    def forget_usage(self) -> None:
        """Start counting anew, after flavors got other levels."""
        self.remapped = False
        self._hosts.clear()
        for usage in self._own.values():
            usage.clear()

    # -- what is used ---------------------------------------------------------------------------------------------

    def take(self, usage: Mapping[str, Domains]) -> None:
        """Count pods in."""
        for flavor, domains in usage.items():
            self.change(flavor, domains, 1)

    def give_back(self, usage: Mapping[str, Domains]) -> None:
        """Count pods out."""
        for flavor, domains in usage.items():
            self.change(flavor, domains, -1)

    def change(self, flavor: str, domains: Domains, sign: int) -> None:
        """Count pods of one flavor in (sign 1) or out (-1) of domains."""
        capacity = self.capacities.get(flavor)
        is_host = capacity is None or capacity.tree.is_lowest_host
        shared = self._shared_hosts and is_host
        usage = self._hosts if shared else self._own.setdefault(flavor, {})
        for values, per_pod, pods in domains:
            key = values[-1:] if is_host else values
            used = usage.setdefault(key, {})
            add_into(used, per_pod, sign * pods)
            used["pods"] = used.get("pods", 0) + sign * pods
            if shared:
                for sibling in self.capacities.values():
                    if sibling.tree.is_lowest_host:
                        sibling.touched(key)
            elif capacity is not None:
                capacity.touched(key)

    def sharing_nodes(self, usage: Mapping[str, Domains]) -> list[str]:
        """Flavors that see a change of this usage: its own, and others over the same hosts."""
        hosts = {values[-1:] for domains in usage.values() for values, _, _ in domains}
        return [
            name
            for name, capacity in self.capacities.items()
            if name in usage
            or (self._shared_hosts and capacity.tree.is_lowest_host and not hosts.isdisjoint(capacity.tree.leaves))
        ]

    def fits(self, flavors: Mapping[str, FlavorCapacity], usage: Mapping[str, Domains]) -> bool:
        return all(flavor in flavors and flavors[flavor].fits(domains) for flavor, domains in usage.items())

    # -- placing --------------------------------------------------------------------------------------------------

    def find(
        self,
        flavors: Mapping[str, FlavorCapacity],
        wanted: PlacementRequests,
        info: WorkloadInfo,
        features: Features,
        *,
        empty: bool = False,
    ) -> PlacementResult:
        """Places for all pod sets; what one takes is not free for the next."""
        assumed_hosts: dict[Values, Amounts] = {}
        assignments: dict[str, TopologyAssignment] = {}
        for flavor in sorted(wanted):
            capacity = flavors[flavor]
            assumed = assumed_hosts if self._shared_hosts and capacity.tree.is_lowest_host else {}
            for group in _grouped(wanted[flavor]):
                if info.unhealthy_nodes:
                    failure = _replace_nodes(capacity, group, info, assumed, assignments, features)
                else:
                    failure = _place_group(capacity, group, assumed, assignments, features, empty)
                if failure is not None:
                    return PlacementResult(assignments, PlacementFailure(group[0].name, failure, flavor))
        return PlacementResult(assignments)


def _place_group(
    capacity: FlavorCapacity,
    group: list[PodSetPlacement],
    assumed: dict[Values, Amounts],
    assignments: dict[str, TopologyAssignment],
    features: Features,
    empty: bool,
) -> str | None:
    workers, leader = group[0], None
    if len(group) > 1:
        workers, leader = (group[1], group[0]) if group[1].count > group[0].count else (group[0], group[1])
        if group[1].count == group[0].count:
            workers, leader = group[0], group[1]
    resized = resize(capacity, workers, leader, assumed, features, empty=empty)
    if resized is not None:
        return _keep_and_add(capacity, group, resized, assumed, assignments)
    mixed, balanced = features.topology_profile_mixed, features.topology_balanced
    placed = capacity.place(workers, leader, assumed, mixed=mixed, balanced=balanced, empty=empty)
    if isinstance(placed, str):
        return placed
    for pods in group:
        assignments[pods.name] = placed[pods.name]
        _assume(capacity, assumed, placed[pods.name], pods)
    return None


def _keep_and_add(
    capacity: FlavorCapacity,
    group: list[PodSetPlacement],
    resized: tuple[Places, Places] | str,
    assumed: dict[Values, Amounts],
    assignments: dict[str, TopologyAssignment],
) -> str | None:
    """What is kept counts already, under the slice that is replaced."""
    if isinstance(resized, str):
        return resized
    whole, new = resized
    assignments.update(whole)
    for pods in group:
        if pods.name in new:
            _assume(capacity, assumed, new[pods.name], pods)
    return None


def _replace_nodes(
    capacity: FlavorCapacity,
    group: list[PodSetPlacement],
    info: WorkloadInfo,
    assumed: dict[Values, Amounts],
    assignments: dict[str, TopologyAssignment],
    features: Features,
) -> str | None:
    mixed, balanced = features.topology_profile_mixed, features.topology_balanced
    for pods in group:
        if pods.existing is None:
            continue
        if info.owned_by_pod:
            # A pod cannot move; the workload goes down with it and keeps its place until then.
            assignments[pods.name] = pods.existing
            continue
        replaced = capacity.replace(pods, info.unhealthy_nodes[0], assumed, mixed=mixed, balanced=balanced)
        if isinstance(replaced, str):
            return replaced
        assignments[pods.name], new = replaced
        _assume(capacity, assumed, new, pods)
    return None


def _assume(
    capacity: FlavorCapacity, assumed: dict[Values, Amounts], placed: TopologyAssignment, pods: PodSetPlacement
) -> None:
    for domain in placed.domains:
        used = assumed.setdefault(capacity.tree.leaf_key(domain.values), {})
        add_into(used, {**pods.per_pod, "pods": 1}, domain.pods)


def _grouped(pod_sets: Iterable[PodSetPlacement]) -> list[list[PodSetPlacement]]:
    groups: dict[object, list[PodSetPlacement]] = {}
    for index, pod_set in enumerate(pod_sets):
        groups.setdefault(pod_set.group or index, []).append(pod_set)
    return list(groups.values())


def _matches(node: NodeSpec, flavor: FlavorSpec) -> bool:
    return all(node.labels.get(key) == value for key, value in flavor.node_labels.items())
