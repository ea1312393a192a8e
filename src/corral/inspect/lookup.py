"""Finding objects by what users call them and by what owns them: kinds by any of their names, the pods and the Workload of a job.

Everything is asked of the API, so that it is true of any cluster.
"""

from __future__ import annotations

from functools import lru_cache

from corral.client.sync import SyncClient
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, is_owned_by, name_of, owner_references_of, uid_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.kinds.kueue import WORKLOADS

WAITING_IN_CLUSTER_QUEUES = Resource("visibility.kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False)
WAITING_IN_LOCAL_QUEUES = Resource("visibility.kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")


def waiting_path(queue: str, namespace: str = "") -> str:
    """Where the visibility API tells who waits in a ClusterQueue, or in a LocalQueue of a namespace."""
    resource = WAITING_IN_LOCAL_QUEUES if namespace else WAITING_IN_CLUSTER_QUEUES
    return resource.path(namespace, queue, "pendingworkloads")


def find_resource(client: SyncClient, word: str) -> Resource | None:
    """A kind by its plural, singular, short name or kind, with or without group, as the server's discovery knows it."""
    wanted, _, group = word.lower().partition(".")
    for found, names in discover(client):
        if wanted in names and (not group or found.group.startswith(group)):
            return found
    return None


@lru_cache(maxsize=8)
def discover(client: SyncClient) -> list[tuple[Resource, set[str]]]:
    """The kinds a server serves, each with all of its names."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    found: list[tuple[Resource, set[str]]] = []
    for path in ("/api", "/apis"):
        for entry in client.call("GET", path, accept=accept).get("items") or []:
            group = (entry.get("metadata") or {}).get("name") or ""
            for version in (entry.get("versions") or [])[:1]:
                for item in version.get("resources") or []:
                    kind = (item.get("responseKind") or {}).get("kind", "")
                    resource = Resource(
                        group, version["version"], item["resource"], kind, item.get("scope") == "Namespaced"
                    )
                    names = {
                        item["resource"],
                        item.get("singularResource", ""),
                        kind.lower(),
                        *(item.get("shortNames") or []),
                    }
                    found.append((resource, names))
    return found


def visible(client: SyncClient, resource: Resource, namespace: str = "") -> list[Obj]:
    """Objects of a kind in all namespaces, only in `namespace` where others are not the user's to see, else none."""
    for where in ("", namespace) if resource.namespaced and namespace else ("",):
        try:
            items: list[Obj] = client.list(resource, where)["items"]
            return items
        except Forbidden:
            continue
        except NotFound:
            break  # the kind is not served
    return []


def pods_of(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[Obj]:
    """The pods of an object: itself, or those it owns directly or through others.

    Owners are compared by kind and name: a job has another uid on the worker it was sent to.
    """
    if resource.kind == "Pod":
        return [client.get(PODS, name_of(obj), namespace)]
    wanted = (resource.kind, name_of(obj))
    known: dict[tuple[str, str], bool] = {wanted: True}

    def belongs(child: Obj) -> bool:
        for reference in owner_references_of(child):
            owner = (str(reference["kind"]), str(reference["name"]))
            if owner not in known:
                known[owner] = False
                parent = _owner(client, reference, namespace)
                known[owner] = parent is not None and belongs(parent)
            if known[owner]:
                return True
        return False

    return sorted(filter(belongs, client.list(PODS, namespace)["items"]), key=name_of)


def _owner(client: SyncClient, reference: Obj, namespace: str) -> Obj | None:
    group = str(reference.get("apiVersion") or "").rpartition("/")[0]
    resource = find_resource(client, f"{reference['kind']}.{group}" if group else str(reference["kind"]))
    if resource is None:
        return None
    try:
        return client.get(resource, str(reference["name"]), namespace if resource.namespaced else "")
    except (NotFound, Forbidden):
        return None


def workload_of(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> Obj | None:
    """The Workload that stands for an object; itself when it is one."""
    if resource.kind == "Workload":
        return obj
    found = client.list(WORKLOADS, namespace)["items"]
    owned: list[Obj] = [workload for workload in found if is_owned_by(workload, uid_of(obj))]
    if owned:
        return max(owned, key=lambda workload: str(workload["metadata"].get("creationTimestamp")))
    for reference in owner_references_of(obj):
        parent = _owner(client, reference, namespace)
        if parent is None:
            continue
        resource_above = find_resource(client, str(reference["kind"]))
        if resource_above and (workload := workload_of(client, resource_above, parent, namespace)) is not None:
            return workload
    return None


def events_of(client: SyncClient, obj: Obj, namespace: str) -> list[Obj]:
    """What was told about an object, as far as the user may see it."""
    selector = f"involvedObject.name={name_of(obj)},involvedObject.kind={obj['kind']}"
    try:
        items: list[Obj] = client.list(EVENTS, namespace, fields=selector)["items"]
    except Forbidden:
        return []
    return items
