"""What is wrong with the pods of a job, asked of the cluster where they run: their events, where their statuses are silent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from corral.client.kubeconfig import KubeconfigError
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, Forbidden
from corral.core.meta import Obj, name_of, status_of
from corral.core.resource import Resource
from corral.inspect.lookup import events_of, pods_of_named
from corral.inspect.placed_pods import Workers
from corral.inspect.troubles import Trouble, is_held_up, trouble_of_events, troubles_of, unscheduled
from corral.kinds.kubernetes.core.kinds import PODS
from corral.workload import workload as wl

ASKED: Final = 3
"""Pods whose events are asked for: what holds up more of them is mostly the same."""
NO_NODES: Final = (
    "This cluster has no nodes: on a manager, give ClusterQueue {queue} the admission check that dispatches "
    "(`kubectl get admissionchecks`), and the workers a queue of the same name."
)
UNTOLD: Final = (ApiError, KubeconfigError)
"""Why nobody can tell now; the next look may be answered."""


@contextmanager
def reached(client: SyncClient, cluster: str) -> Iterator[SyncClient]:
    """A client of where jobs run: their worker, or the manager, who shows their pods too, where credentials are not the user's."""
    try:
        where = Workers(client).client(cluster) if cluster else client
    except Forbidden:
        where = client
    try:
        yield where
    finally:
        if where is not client:
            where.close()


def pods_there(where: SyncClient, resource: Resource, namespace: str, names: Collection[str]) -> list[Obj]:
    """The pods of jobs of some names, where they run."""
    if resource.kind != "Pod":
        return pods_of_named(where, resource, names, namespace)
    return [pod for name in names for pod in where.list(PODS, namespace, fields=f"metadata.name={name}")["items"]]


def shown_by_events(
    client: SyncClient, resource: Resource, namespace: str, name: str, cluster: str, pods: Sequence[Obj]
) -> list[Trouble]:
    """Why pods of a job are not made, or do not start though they have a node; nothing where nobody can tell."""
    silent = [("pod", "Pod", name_of(pod)) for pod in pods if is_held_up(pod) and not troubles_of([pod])]
    if not pods:
        silent = [(resource.kind, resource.kind, name)]
    found: list[Trouble | None] = []
    try:
        with reached(client, cluster if silent else "") as where:
            for word, kind, about in silent[:ASKED]:
                events = events_of(where, {"kind": kind, "metadata": {"name": about}}, namespace)
                found.append(trouble_of_events(f"{word} {about}", events))
    except UNTOLD:
        pass
    return [trouble for trouble in found if trouble is not None]


def advice_about(client: SyncClient, workload: Obj, pods: Sequence[Obj]) -> str:
    """What to do about troubles whose cause is the cluster as a whole."""
    if status_of(workload).get("clusterName") or not any(map(unscheduled, pods)) or _has_nodes(client):
        return ""
    return NO_NODES.format(queue=wl.cluster_queue_of(workload))


def _has_nodes(client: SyncClient) -> bool:
    try:
        return bool(client.call("GET", "/api/v1/nodes", {"limit": "1"}).get("items"))
    except ApiError:
        return True  # we may not read it
