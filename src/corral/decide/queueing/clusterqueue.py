"""A ClusterQueue at run time: its spec, its node in the quota tree, and the workloads that hold its quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.core.meta import Key
from corral.decide.queueing.assignment import TopologyUsage
from corral.decide.queueing.model import ClusterQueueSpec, ResourceGroup, Usage, WorkloadInfo
from corral.decide.queueing.plan import PodSetAssignment
from corral.decide.queueing.quota import QuotaNode

if TYPE_CHECKING:
    from corral.decide.queueing.topology.capacity import FlavorCapacity
    from corral.decide.queueing.topology.cluster import TopologyCluster


class Reservation:
    """Quota held by one workload: reserved, admitted, or assumed until the write is seen."""

    __slots__ = ("assumed", "counted_admitted", "info", "pod_sets", "queue", "topology_usage", "usage")

    def __init__(
        self,
        info: WorkloadInfo,
        queue: ClusterQueue,
        pod_sets: tuple[PodSetAssignment, ...],
        usage: Usage,
        topology_usage: TopologyUsage,
        *,
        assumed: bool = False,
    ) -> None:
        self.info = info
        self.queue = queue
        self.pod_sets = pod_sets
        self.usage = usage
        self.topology_usage = topology_usage
        self.assumed = assumed
        self.counted_admitted = False

    def requested(self, pod_set: str, resource: str) -> int:
        return next((entry.requests.get(resource, 0) for entry in self.pod_sets if entry.name == pod_set), 0)

    def flavor_of(self, pod_set: str, resource: str) -> str:
        return next((entry.flavors.get(resource, "") for entry in self.pod_sets if entry.name == pod_set), "")

    def count_of(self, pod_set: str) -> int:
        return next((entry.count for entry in self.pod_sets if entry.name == pod_set), 0)


class ClusterQueue:
    """One ClusterQueue as the cycle sees it."""

    __slots__ = (
        "admitted",
        "generation",
        "groups",
        "has_multikueue",
        "inactive",
        "is_topology_only",
        "name",
        "node",
        "provisioning_flavors",
        "reservations",
        "spec",
        "topology",
        "topology_flavors",
    )

    def __init__(self, spec: ClusterQueueSpec, node: QuotaNode, topology: TopologyCluster) -> None:
        self.name = spec.name
        self.node = node
        self.topology = topology
        self.reservations: dict[Key, Reservation] = {}
        self.admitted = 0
        self.generation = 0
        """Grows when quota or usage in its tree changes in a way that could let more workloads in."""
        self.inactive: tuple[str, str] | None = None
        """Reason and message while it cannot admit."""
        self.topology_flavors: dict[str, FlavorCapacity] = {}
        self.is_topology_only = False
        self.has_multikueue = False
        self.provisioning_flavors: frozenset[str] = frozenset()
        """Flavors whose placement waits for a provisioning check."""
        self.update(spec)

    def update(self, spec: ClusterQueueSpec) -> None:
        self.spec = spec
        self.groups: dict[str, ResourceGroup] = {}
        for group in spec.groups:
            for resource in group.covered:
                self.groups.setdefault(resource, group)

    @property
    def cohort_path(self) -> str:
        """`/root/…/queue`, as messages name it."""
        names = [ancestor.name for ancestor in self.node.path()]
        return "/" + "/".join([*reversed(names), self.name])
