"""Finding objects by what users call them and by what owns them: kinds by any of their names, the pods and the Workload of a job.

Everything is asked of the API, so that it is true of any cluster.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from corral.client.sync import SyncClient
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, is_owned_by, name_of, namespace_of, owner_references_of, uid_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.kinds.kubernetes.pods.simulated import is_simulated
from corral.kinds.kueue import WORKLOADS

WAITING_IN_CLUSTER_QUEUES = Resource("visibility.kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False)
WAITING_IN_LOCAL_QUEUES = Resource("visibility.kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")


ALL_WAITING = {"limit": "100000"}
"""Asks the visibility API for everybody who waits: by itself it tells of the first thousand."""


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


def resources_of_category(client: SyncClient, category: str) -> list[Resource]:
    """The kinds a server counts to a category, such as `all`."""
    return [entry.resource for entry in _discovered(client) if category in entry.categories]


def discover(client: SyncClient) -> list[tuple[Resource, set[str]]]:
    """The kinds a server serves, each with all of its names."""
    return [(entry.resource, entry.names) for entry in _discovered(client)]


class _Discovered(NamedTuple):
    resource: Resource
    names: set[str]
    categories: tuple[str, ...]


@lru_cache(maxsize=8)
def _discovered(client: SyncClient) -> list[_Discovered]:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    found: list[_Discovered] = []
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
                    found.append(_Discovered(resource, names, tuple(item.get("categories") or ())))
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
    """The pods of an object: itself, or those it owns directly or through others."""
    if resource.kind == "Pod":
        return [client.get(PODS, name_of(obj), namespace)]
    return pods_of_named(client, resource, {name_of(obj)}, namespace)


def pods_of_named(client: SyncClient, resource: Resource, wanted: Collection[str], namespace: str) -> list[Obj]:
    """The pods that objects of some names own, directly or through others.

    Owners are compared by kind and name: a job has another uid on the worker it was sent to.
    """
    known: dict[tuple[str, str], bool] = {(resource.kind, name): True for name in wanted}

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


class Owner(NamedTuple):
    """Who owns something, as far as names tell: a job has another uid on the worker it was sent to."""

    namespace: str
    kind: str
    name: str


def simulated_owners(client: SyncClient, namespace: str, wanted: Collection[Owner]) -> set[Owner]:
    """Those of the wanted owners that have pods which only pretend, directly or through others."""
    try:
        pods = client.list(PODS, namespace)["items"]
    except Forbidden:
        return set()
    found: set[Owner] = set()
    seen: set[Owner] = set()

    def climb(child: Obj) -> None:
        for reference in owner_references_of(child):
            owner = Owner(namespace_of(child), str(reference["kind"]), str(reference["name"]))
            if owner in wanted:
                found.add(owner)
            elif owner not in seen:
                seen.add(owner)
                if (parent := _owner(client, reference, owner.namespace)) is not None:
                    climb(parent)

    for pod in filter(is_simulated, pods):
        itself = Owner(namespace_of(pod), "Pod", name_of(pod))
        if itself in wanted:
            found.add(itself)
        climb(pod)
    return found


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
