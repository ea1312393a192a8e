"""Introducing the clusters of an embedded fleet to each other once they are up, and giving them queues to start with.

The queues are the ones the documentation uses: flavor `default-flavor`, ClusterQueue `cluster-queue`, LocalQueue
`user-queue` in `default`; each worker's quota is what its nodes have, the manager's is the sum.
"""

from __future__ import annotations

from corral.client.sync import SyncClient
from corral.core.errors import AlreadyExists
from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.fleet.config import HUB, MANAGER, MEMBER, WORKER, ClusterSpec, FleetSpec
from corral.fleet.join import add_to_config, prepare_worker, register_worker
from corral.fleet.state import FleetFolder

CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
RESOURCE_FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
ADMISSION_CHECKS = Resource("kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", namespaced=False)

FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE = "default-flavor", "cluster-queue", "user-queue"
CHECK, CONFIG = "multikueue", "multikueue"


def introduce(fleet: FleetSpec, folder: FleetFolder) -> None:
    """Connect managers to their workers and hubs to their members, and set up queues unless the fleet is bare."""
    clients = {
        cluster.name: SyncClient.from_kubeconfig(folder.admin_kubeconfig(cluster.name)) for cluster in fleet.clusters
    }
    workers = fleet.with_role(WORKER)
    for manager in fleet.with_role(MANAGER):
        others = [worker for worker in workers if worker.name != manager.name]
        for worker in others:
            token = prepare_worker(clients[worker.name], dependencies=True)
            access = clients[worker.name].access
            register_worker(clients[manager.name], worker.name, access.server, access.ca, token)
        if others:
            add_to_config(clients[manager.name], CONFIG, [worker.name for worker in others])
    if fleet.queues:
        _set_up_queues(fleet, clients)
    if fleet.with_role(HUB) and fleet.with_role(MEMBER):
        from corral.fleet.membership import join_members

        join_members(fleet, folder, clients)


def _set_up_queues(fleet: FleetSpec, clients: dict[str, SyncClient]) -> None:
    workers = fleet.with_role(WORKER)
    for worker in workers:
        _queues(clients[worker.name], capacity([worker]), dispatches=False)
    for manager in fleet.with_role(MANAGER):
        if WORKER in manager.roles:
            continue
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
        check: Obj = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        _create(clients[manager.name], ADMISSION_CHECKS, {"metadata": {"name": CHECK}, "spec": check})
        _queues(clients[manager.name], capacity(workers), dispatches=True)


def capacity(clusters: list[ClusterSpec]) -> dict[str, str]:
    """What all nodes of these clusters have together, by resource."""
    total: dict[str, Quantity] = {}
    for cluster in clusters:
        for group in cluster.nodes:
            amounts = {"cpu": group.cpu, "memory": group.memory, "pods": group.pods, **group.resources}
            for resource, amount in amounts.items():
                each = Quantity.parse(amount)
                total[resource] = total.get(resource, Quantity.parse(0)) + each * group.count
    return {resource: str(amount) for resource, amount in total.items()}


def _queues(client: SyncClient, amounts: dict[str, str], *, dispatches: bool) -> None:
    if not amounts:
        return
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in amounts.items()]
    spec: Obj = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(amounts), "flavors": [{"name": FLAVOR, "resources": resources}]}],
    }
    if dispatches:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    _create(client, RESOURCE_FLAVORS, {"metadata": {"name": FLAVOR}, "spec": {}})
    _create(client, CLUSTER_QUEUES, {"metadata": {"name": CLUSTER_QUEUE}, "spec": spec})
    queue = {"metadata": {"name": LOCAL_QUEUE, "namespace": "default"}, "spec": {"clusterQueue": CLUSTER_QUEUE}}
    _create(client, LOCAL_QUEUES, queue)


def _create(client: SyncClient, resource: Resource, obj: Obj) -> None:
    """Create unless it exists: what a user changed since is theirs."""
    try:
        client.create(resource, obj)
    except AlreadyExists:
        pass
