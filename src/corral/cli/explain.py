"""`corral explain`: why a job waits, where it went, or how it ended, in one sentence and its evidence."""

from __future__ import annotations

from pathlib import Path

import click

from corral.cli.lookup import events_of, object_named, workload_of
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, name_of, spec_of
from corral.core.resource import Resource
from corral.decide.explain import Surroundings
from corral.decide.explain import explain as explain_workload

LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)


@click.command()
@click.argument("target", nargs=-1, required=True)
@cluster_options
def explain(target: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Say why TARGET (job/NAME, pytorchjob/NAME, workload/NAME …) waits, where it runs, or how it ended."""
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    resource, obj = object_named(client, target, namespace)
    workload = workload_of(client, resource, obj, namespace)
    if workload is None:
        click.echo(f"{resource.kind} {name_of(obj)} has no Workload: it is not queued.")
        for event in events_of(client, obj, namespace):
            click.echo(f"  {event.get('reason')}: {event.get('message')}")
        return
    found = explain_workload(workload, _surroundings(client, workload, namespace))
    click.echo(f"{resource.kind} {name_of(obj)}: {found.headline}")
    for fact in found.facts:
        click.echo(f"  {fact}")
    if found.advice:
        click.echo(f"  -> {found.advice}")


def _surroundings(client: SyncClient, workload: Obj, namespace: str) -> Surroundings:
    local = _get(client, LOCAL_QUEUES, str(spec_of(workload).get("queueName") or ""), namespace)
    name = str(spec_of(local).get("clusterQueue") or "") if local else ""
    queue = _get(client, CLUSTER_QUEUES, name, "")
    position = _position(client, name, namespace, name_of(workload)) if queue else None
    return Surroundings(local, queue, position, events_of(client, workload, namespace))


def _get(client: SyncClient, resource: Resource, name: str, namespace: str) -> Obj | None:
    if not name:
        return None
    try:
        return client.get(resource, name, namespace)
    except NotFound:
        return None


def _position(client: SyncClient, queue: str, namespace: str, workload: str) -> int | None:
    path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{queue}/pendingworkloads"
    try:
        items = client.call("GET", path, {"limit": "100000"}).get("items") or []
    except ApiError:
        return None  # the visibility API is optional
    for item in items:
        metadata = item.get("metadata") or {}
        if metadata.get("name") == workload and metadata.get("namespace") == namespace:
            return int(item.get("positionInClusterQueue", 0))
    return None
