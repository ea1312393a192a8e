"""Introducing the clusters of an embedded fleet to each other once they are up, and giving them queues to start with.

The queues are the ones the documentation uses: flavor `default-flavor`, ClusterQueue `cluster-queue`, LocalQueue
`user-queue` in `default`; each worker's quota is what its nodes have, the manager's is the sum. When the fleet comes back larger or smaller, the
quota follows, and the manager no longer asks workers that are not part of it; members that are not leave their hub.
"""

from __future__ import annotations

import json
from pathlib import Path

from corral.client.sync import SyncClient
from corral.configuration.document import read_configuration
from corral.configuration.fleet import HUB, MANAGER, WORKER, ClusterSpec, FleetSpec
from corral.configuration.job_kinds import configured_adapters
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Obj, annotations_of, name_of, namespace_of, spec_of
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.fleet.folder import FleetFolder
from corral.fleet.join import add_to_config, prepare_worker, register_worker, remove_from_config
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    RESOURCE_FLAVORS,
    names,
)

FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE = "default-flavor", "cluster-queue", "user-queue"
CHECK, CONFIG = "multikueue", "multikueue"
ITS_OWN = "-here"
"""What names end in that a manager which is a worker too sends to itself."""
NODES_QUOTA = "corral.dev/quota-of-nodes"


def introduce(fleet: FleetSpec, folder: FleetFolder) -> None:
    """Connect managers to their workers and hubs to their members, and set up queues, each unless the fleet is to go without."""
    clients = {
        cluster.name: SyncClient.from_kubeconfig(folder.admin_kubeconfig(cluster.name)) for cluster in fleet.clusters
    }
    absent = folder.known_clusters() - {cluster.name for cluster in fleet.clusters}
    if fleet.introduced:
        _connect_workers(fleet, clients, absent)
    if fleet.queues:
        _set_up_queues(fleet, clients)
    if fleet.introduced and fleet.with_role(HUB):
        from corral.fleet.membership import dismiss_members, join_members

        join_members(fleet, folder, clients)
        for hub in fleet.with_role(HUB):
            dismiss_members(clients[hub.name], absent)


def _connect_workers(fleet: FleetSpec, clients: dict[str, SyncClient], absent: set[str]) -> None:
    workers = fleet.with_role(WORKER)
    for manager in fleet.with_role(MANAGER):
        others = [worker for worker in workers if worker.name != manager.name]
        described = configured_adapters(read_configuration(Path(manager.config))) if manager.config else []
        for worker in others:
            token = prepare_worker(clients[worker.name], dependencies=True, described=described)
            access = clients[worker.name].access
            register_worker(clients[manager.name], worker.name, access.server, access.ca, token)
        if others and WORKER in manager.roles:
            own = clients[manager.name]
            token = prepare_worker(own, dependencies=True, described=described)
            register_worker(own, manager.name, own.access.server, own.access.ca, token, suffix=ITS_OWN)
            others.append(manager)
        if others:
            add_to_config(clients[manager.name], CONFIG, [worker.name for worker in others])
        _dismiss(clients[manager.name], absent)


def _dismiss(manager: SyncClient, absent: set[str]) -> None:
    """Workers of this folder that are not started any more are no longer asked; they are introduced again when they are."""
    for name in sorted(absent):
        remove_from_config(manager, CONFIG, name)
        try:
            manager.delete(MULTI_KUEUE_CLUSTERS, name)
        except NotFound:
            pass


def _set_up_queues(fleet: FleetSpec, clients: dict[str, SyncClient]) -> None:
    workers = fleet.with_role(WORKER)
    for worker in workers:
        is_manager = MANAGER in worker.roles and len(workers) > 1
        amounts = capacity([worker])
        _queues(clients[worker.name], amounts, amounts, dispatches=False, suffix=ITS_OWN if is_manager else "")
    for manager in fleet.with_role(MANAGER):
        if workers == [manager] or not fleet.introduced:
            continue  # it has no workers to send to
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
        check: Obj = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        _create(clients[manager.name], ADMISSION_CHECKS, {"metadata": {"name": CHECK}, "spec": check})
        _queues(clients[manager.name], capacity(workers), largest(workers), dispatches=True)


def capacity(clusters: list[ClusterSpec]) -> dict[str, str]:
    """What all nodes of these clusters have together, by resource."""
    total: dict[str, Quantity] = {}
    for cluster in clusters:
        for group in cluster.nodes:
            for resource, amount in group.capacity().items():
                each = Quantity.parse(amount)
                total[resource] = total.get(resource, Quantity.parse(0)) + each * group.count
    return {resource: str(amount) for resource, amount in total.items()}


def largest(clusters: list[ClusterSpec]) -> dict[str, str]:
    """The most of each resource that one of these clusters has."""
    most: dict[str, Quantity] = {}
    for cluster in clusters:
        for resource, amount in capacity([cluster]).items():
            most[resource] = max(most.get(resource, Quantity.parse(0)), Quantity.parse(amount))
    return {resource: str(amount) for resource, amount in most.items()}


def _queues(
    client: SyncClient, amounts: dict[str, str], most: dict[str, str], *, dispatches: bool, suffix: str = ""
) -> None:
    if not amounts:
        return
    cluster_queue, local_queue = CLUSTER_QUEUE + suffix, LOCAL_QUEUE + suffix
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in amounts.items()]
    spec: Obj = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": [{"name": FLAVOR, "resources": resources}]}],
    }
    if dispatches:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    _create(client, RESOURCE_FLAVORS, {"metadata": {"name": FLAVOR}, "spec": {}})
    metadata = {"name": cluster_queue, "annotations": {NODES_QUOTA: json.dumps(amounts)}}
    if not _create(client, CLUSTER_QUEUES, {"metadata": metadata, "spec": spec}):
        _follow_nodes(client, metadata, spec)
    marks = {"annotations": {names.LARGEST_WORKER: json.dumps(most)}}
    queue = {
        "metadata": {"name": local_queue, "namespace": "default", **marks},
        "spec": {"clusterQueue": cluster_queue},
    }
    if not _create(client, LOCAL_QUEUES, queue):
        client.patch(LOCAL_QUEUES, local_queue, "default", {"metadata": marks})


def _follow_nodes(client: SyncClient, metadata: Obj, spec: Obj) -> None:
    """Bring the quota to what the nodes have now, where nobody changed it since it was set to what they had."""
    name = str(metadata["name"])
    held = client.get(CLUSTER_QUEUES, name)
    before, groups = annotations_of(held).get(NODES_QUOTA), spec_of(held).get("resourceGroups") or []
    flavors = [flavor for group in groups for flavor in group.get("flavors") or []]
    quotas = {entry["name"]: str(entry["nominalQuota"]) for flavor in flavors for entry in flavor["resources"]}
    if len(flavors) == 1 and before == json.dumps(quotas) and before != metadata["annotations"][NODES_QUOTA]:
        patch = {
            "metadata": {"annotations": metadata["annotations"]},
            "spec": {"resourceGroups": spec["resourceGroups"]},
        }
        client.patch(CLUSTER_QUEUES, name, "", patch)


def _create(client: SyncClient, resource: Resource, obj: Obj) -> bool:
    """Create unless it exists: what a user changed since is theirs."""
    try:
        # A fleet that comes back has it, and a question costs its clusters less than an object to look through.
        client.get(resource, name_of(obj), namespace_of(obj))
        return False
    except NotFound:
        pass
    try:
        client.create(resource, obj)
    except AlreadyExists:
        return False
    return True
