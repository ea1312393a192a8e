"""May a pod set use a flavor, as far as topology goes?"""

from __future__ import annotations

from corral.decide.queueing.model.values import FlavorSpec, PodSetInfo, ResourceGroup
from corral.decide.queueing.quota.cluster_queue import ClusterQueue


def is_topology_implied(queue: ClusterQueue, pod_set: PodSetInfo) -> bool:
    """A queue with topology flavors only places every pod, asked or not."""
    explicit = pod_set.topology is not None and pod_set.topology.explicit
    return not explicit and queue.is_topology_only


def is_topology_requested(queue: ClusterQueue, pod_set: PodSetInfo) -> bool:
    explicit = pod_set.topology is not None and pod_set.topology.explicit
    return explicit or queue.is_topology_only


def topology_mismatch(queue: ClusterQueue, pod_set: PodSetInfo, flavor: FlavorSpec, group: ResourceGroup) -> str | None:
    """Why the flavor and the pod set's topology request do not go together."""
    request = pod_set.topology
    if request is None or not request.explicit:
        if queue.is_topology_only or not flavor.topology:
            return None
        return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
    if not flavor.topology:
        if any(resource in group.covered for resource in pod_set.pod_requests):
            return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
        # Resources that only exist by transformation are not bound to nodes.
        return None
    tree = queue.topology_flavors.get(flavor.name)
    if tree is None:
        return f'Flavor "{flavor.name}" information missing in TAS cache'
    if not tree.has_levels(request):
        return f'Flavor "{flavor.name}" does not contain the requested level'
    return None
