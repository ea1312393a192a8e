"""`corral explain`: why a job waits, where it went, or how it ended, in one sentence and its evidence."""

from __future__ import annotations

from pathlib import Path

import click

from corral.cli.lookup import PODS, events_of, object_named, pods_of, workload_of
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, annotations_of, is_owned_by, labels_of, name_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.decide.explain import Surroundings
from corral.decide.explain import explain as explain_workload

JOBS = Resource("batch", "v1", "jobs", "Job")
LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)

CLUSTER_PLACEMENTS = Resource(
    "placement.kubernetes-fleet.io", "v1beta1", "clusterresourceplacements", "ClusterResourcePlacement", False
)
PLACEMENTS = Resource("placement.kubernetes-fleet.io", "v1beta1", "resourceplacements", "ResourcePlacement")
MAX_TROUBLES = 5
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@click.command()
@click.argument("target", nargs=-1, required=True)
@cluster_options
def explain(target: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Say why TARGET (job/NAME, pytorchjob/NAME, workload/NAME …) waits, where it runs, or how it ended."""
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    resource, obj = object_named(client, target, namespace)
    workload = workload_of(client, resource, obj, namespace)
    if workload is not None:
        _tell(client, resource, obj, workload, namespace)
        return
    if resource.kind == "CronJob":
        _tell_cron_job(client, obj, namespace)
        return
    pods = pods_of(client, resource, obj, namespace)
    queued = [(pod, found) for pod in pods if (found := workload_of(client, PODS, pod, namespace)) is not None]
    for pod, found in queued:
        _tell(client, PODS, pod, found, namespace)
    if not queued:
        _tell_unqueued(client, resource.kind, obj, pods, namespace)


def _tell(client: SyncClient, resource: Resource, obj: Obj, workload: Obj, namespace: str) -> None:
    found = explain_workload(workload, _surroundings(client, workload, namespace))
    click.echo(f"{resource.kind} {name_of(obj)}: {found.headline}")
    if conditions.is_true(workload, "Admitted") and not conditions.is_true(workload, "Finished"):
        for trouble in _troubles(client, resource, obj, namespace):
            click.echo(f"  {trouble}")
    for fact in found.facts:
        click.echo(f"  {fact}")
    if found.advice:
        click.echo(f"  -> {found.advice}")


def _troubles(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[str]:
    """What keeps pods of an admitted job from running; a manager shows those of its workers."""
    if resource.kind == "Workload":
        return []
    found = []
    for pod in pods_of(client, resource, obj, namespace):
        status = status_of(pod)
        for entry in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            if trouble := _trouble(entry.get("state") or {}):
                found.append(f"pod {name_of(pod)}, container {entry['name']}: {trouble}")
    return found[:MAX_TROUBLES]


def _trouble(state: Obj) -> str:
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return ": ".join(filter(None, (str(waiting["reason"]), str(waiting.get("message") or ""))))
    if ended.get("exitCode"):
        return f"{ended.get('reason')}, exit code {ended['exitCode']} {ended.get('message') or ''}".rstrip()
    return ""


def _tell_cron_job(client: SyncClient, obj: Obj, namespace: str) -> None:
    """A CronJob is not queued; the Jobs it makes are, if its template names a queue."""
    metadata = (spec_of(obj).get("jobTemplate") or {}).get("metadata") or {}
    queue = (metadata.get("labels") or {}).get(QUEUE_LABEL)
    made = [job for job in client.list(JOBS, namespace)["items"] if is_owned_by(job, uid_of(obj))]
    last = max(made, key=lambda job: str(job["metadata"]["creationTimestamp"]), default=None)
    click.echo(f"CronJob {name_of(obj)}: " + (f"its Jobs go to {queue}." if queue else "its Jobs name no queue."))
    if spec_of(obj).get("suspend"):
        click.echo("  it is suspended: no more Jobs are made until spec.suspend is false")
    if not queue:
        click.echo(f"  -> Set the label {QUEUE_LABEL} in spec.jobTemplate.metadata.labels, and its next Job is queued.")
    if last is None:
        click.echo("  it has made no Job yet")
    elif (workload := workload_of(client, JOBS, last, namespace)) is not None:
        _tell(client, JOBS, last, workload, namespace)
    else:
        _tell_unqueued(client, "Job", last, pods_of(client, JOBS, last, namespace), namespace, advise=False)


def _tell_unqueued(
    client: SyncClient, kind: str, obj: Obj, pods: list[Obj], namespace: str, *, advise: bool = True
) -> None:
    """Without a Workload nothing waits for quota: what is left are the pods and what events say."""
    placed = _placements(client, kind, obj, namespace)
    if placed:
        click.echo(f"{kind} {name_of(obj)} is placed, not run here.")
        for line in placed:
            click.echo(f"  {line}")
        return
    queue = labels_of(obj).get(QUEUE_LABEL) or annotations_of(obj).get(QUEUE_LABEL)
    why = f"its queue is {queue}, but nothing was queued for it yet" if queue else "it names no queue"
    click.echo(f"{kind} {name_of(obj)} has no Workload: {why}.")
    for pod in pods:
        scheduled = conditions.find(pod, "PodScheduled") or {}
        waits = f" ({scheduled['message']})" if scheduled.get("status") == "False" and scheduled.get("message") else ""
        click.echo(f"  pod {name_of(pod)}: {status_of(pod).get('phase')}{waits}")
    for event in events_of(client, obj, namespace):
        click.echo(f"  {event.get('reason')}: {event.get('message')}")
    if advise and queue:
        click.echo(f"  -> If this stays so, no queueing runs here, or {kind} is not among its integrations.frameworks.")
    elif advise:
        click.echo(f"  -> Set the label {QUEUE_LABEL} when you create it, and it is queued.")


def _placements(client: SyncClient, kind: str, obj: Obj, namespace: str) -> list[str]:
    """On a hub: the placements that took an object, and where to."""
    found = []
    for resource in (CLUSTER_PLACEMENTS, PLACEMENTS):
        try:
            items = client.list(resource, namespace if resource.namespaced else "")["items"]
        except NotFound:
            continue  # not a hub
        for item in items:
            selected = [(entry.get("kind"), entry.get("name"), entry.get("namespace") or "") for entry in _taken(item)]
            if (kind, name_of(obj), namespace) in selected:
                clusters = [str(entry.get("clusterName")) for entry in status_of(item).get("placementStatuses") or []]
                where = ", ".join(clusters) or "no cluster yet"
                found.append(f"{resource.kind} {name_of(item)}: {where}; `corral fleet describe` says more")
    return found


def _taken(placement: Obj) -> list[Obj]:
    taken: list[Obj] = status_of(placement).get("selectedResources") or []
    return taken


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
