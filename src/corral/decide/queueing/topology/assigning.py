"""Between flavor assignment and placement: which pod sets want places, and what they then use."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from corral.decide.queueing.cycle.assignment import Assignment, PodSetChoice, TopologyUsage
from corral.decide.queueing.model.decode import toleration_from
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import PodConstraints, PodSetInfo, TopologyAssignment, WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.topology.capacity import PodSetPlacement
from corral.decide.queueing.topology.cluster import PlacementRequests, PlacementResult
from corral.decide.queueing.topology.matching import is_topology_implied, is_topology_requested

NO_TOPOLOGY = "workload requires Topology, but there is no TAS cache information"
NO_TOPOLOGY_FLAVOR = "no TAS flavor assigned"
ELASTIC_REQUIRED = "required topology is not supported with ElasticJobsViaWorkloadSlices"
ELASTIC_PREFERRED = "preferred topology is not supported with ElasticJobsViaWorkloadSlices"


def placement_requests(
    assignment: Assignment,
    queue: ClusterQueue,
    info: WorkloadInfo,
    replaced: Reservation | None,
    settings: QueueingSettings,
) -> PlacementRequests:
    """Pod sets that need nodes now, per flavor. Marks those that cannot have any, or only later."""
    wanted: PlacementRequests = {}
    for pod_set in info.pod_sets:
        if not is_topology_requested(queue, pod_set):
            continue
        choice = assignment.pod_set(pod_set.name)
        if choice.error or choice.count == 0:
            continue
        if choice.topology is not None and not _is_on(choice, info.unhealthy_nodes):
            continue
        keeps_places = info.elastic and settings.features.elastic_slices_with_topology
        if keeps_places and pod_set.topology is not None:
            refused = ELASTIC_REQUIRED if pod_set.topology.required else ""
            refused = refused or (ELASTIC_PREFERRED if pod_set.topology.preferred else "")
            if refused:
                assignment.fail(choice, refused)
                continue
        if not queue.topology_flavors:
            assignment.fail(choice, NO_TOPOLOGY)
            continue
        flavors = sorted({found.flavor for found in choice.flavors.values() if found.flavor in queue.topology_flavors})
        if len(flavors) != 1:
            problem = f"more than one TAS flavor assigned: {', '.join(flavors)}" if flavors else NO_TOPOLOGY_FLAVOR
            assignment.fail(choice, problem)
            continue
        if queue.has_multikueue or (not info.reserving and flavors[0] in queue.provisioning_flavors):
            # The worker cluster, or the nodes that are being provisioned, decide the places later.
            choice.delayed_topology = "Pending"
            continue
        wanted.setdefault(flavors[0], []).append(
            _placement(queue, info, pod_set, choice, replaced if keeps_places else None)
        )
    return wanted


def _placement(
    queue: ClusterQueue, info: WorkloadInfo, pod_set: PodSetInfo, choice: PodSetChoice, replaced: Reservation | None
) -> PodSetPlacement:
    return PodSetPlacement(
        name=pod_set.name,
        count=choice.count,
        per_pod=pod_set.pod_requests,
        constraints=_updated_constraints(info, pod_set),
        topology=pod_set.topology,
        implied=is_topology_implied(queue, pod_set),
        existing=choice.topology,
        previous=_held_places(replaced, pod_set.name),
    )


def _held_places(replaced: Reservation | None, name: str) -> TopologyAssignment | None:
    held = replaced.info.pod_sets if replaced is not None else ()
    return next((pod_set.topology_assignment for pod_set in held if pod_set.name == name), None)


def _updated_constraints(info: WorkloadInfo, pod_set: PodSetInfo) -> PodConstraints:
    """Node selectors and tolerations that admission checks added once they were ready."""
    if not info.check_states:
        return pod_set.constraints
    selector = dict(pod_set.constraints.node_selector)
    tolerations = list(pod_set.constraints.tolerations)
    checks = (info.obj.get("status") or {}).get("admissionChecks") or ()
    for check in checks:
        if check.get("state") != "Ready":
            continue
        for update in check.get("podSetUpdates") or ():
            if update.get("name") == pod_set.name:
                selector.update(update.get("nodeSelector") or {})
                tolerations.extend(map(toleration_from, update.get("tolerations") or ()))
    return structs.replace(
        pod_set.constraints, node_selector=tuple(sorted(selector.items())), tolerations=tuple(tolerations)
    )


def apply_placement(assignment: Assignment, result: PlacementResult) -> None:
    """Record the places found."""
    for name, placed in result.assignments.items():
        choice = assignment.pod_set(name)
        choice.topology = placed
        if choice.delayed_topology:
            choice.delayed_topology = "Ready"


def topology_usage(
    assignment: Assignment,
    queue: ClusterQueue,
    info: WorkloadInfo,
    replaced: Reservation | None = None,
    *,
    whole: bool = False,
) -> TopologyUsage:
    """What the pods take of the domains; without `whole`, only what their current reservation, or that of the slice
    they take over from, does not hold yet."""
    usage: TopologyUsage = {}
    if not queue.topology_flavors:
        return usage
    by_name = {pod_set.name: pod_set for pod_set in info.pod_sets}
    for choice in assignment.pod_sets:
        flavor = _topology_flavor(choice, queue)
        if choice.topology is None or flavor is None:
            continue
        pod_set = by_name[choice.name]
        held: dict[tuple[str, ...], int] = {}
        places = pod_set.topology_assignment if info.reserving else _held_places(replaced, pod_set.name)
        if not whole and places is not None:
            for domain in places.domains:
                held[domain.values] = held.get(domain.values, 0) + domain.pods
        for domain in choice.topology.domains:
            pods = domain.pods - held.get(domain.values, 0)
            if pods > 0:
                usage.setdefault(flavor, []).append((domain.values, pod_set.pod_requests, pods))
    return usage


def recorded_usage(info: WorkloadInfo, flavors: Iterable[str]) -> TopologyUsage:
    """What a reservation's recorded topology assignment takes."""
    known = set(flavors)
    usage: TopologyUsage = {}
    for pod_set in info.pod_sets:
        if pod_set.topology_assignment is None:
            continue
        flavor = next((name for name in pod_set.flavors.values() if name in known), None)
        if flavor is not None:
            for domain in pod_set.topology_assignment.domains:
                usage.setdefault(flavor, []).append((domain.values, pod_set.pod_requests, domain.pods))
    return usage


def _topology_flavor(choice: PodSetChoice, queue: ClusterQueue) -> str | None:
    found = (choice.flavor for choice in choice.flavors.values())
    return next((flavor for flavor in found if flavor in queue.topology_flavors), None)


def _is_on(choice: PodSetChoice, nodes: tuple[str, ...]) -> bool:
    assert choice.topology is not None
    return any(domain.values[-1] in nodes for domain in choice.topology.domains)
