"""`corral explain`: why a job waits, where it went, or how it ended, in one sentence and its evidence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from corral.cli.completion import complete_target
from corral.cli.describe_queue import describe_queue
from corral.cli.lookup import object_named, shortened
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.placed import member_client, placements_of
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, annotations_of, is_owned_by, labels_of, name_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.inspect.evidence import collect_evidence
from corral.inspect.explain import explain as explain_workload
from corral.inspect.lookup import events_of, pods_of, visible, workload_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOAD_PRIORITY_CLASSES, names
from corral.workload import workload as wl

MAX_TROUBLES = 5
NO_NODES = (
    "This cluster has no nodes: on a manager, give ClusterQueue {queue} the admission check that dispatches "
    "(`kubectl get admissionchecks`), and the workers a queue of the same name."
)


@click.command()
@click.argument("target", nargs=-1, required=True, shell_complete=complete_target)
@cluster_options
def explain(target: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Say why TARGET (job/NAME, pytorchjob/NAME, workload/NAME …) waits, where it runs, or how it ended; of a queue
    (localqueue/NAME, clusterqueue/NAME), what of its quota is used and who waits in it.

    \b
    corral explain job/train
    corral explain pytorchjob mnist -n research
    corral explain localqueue/user-queue
    """
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    resource, obj = object_named(client, target, namespace)
    if resource.kind in ("ClusterQueue", "LocalQueue"):
        describe_queue(client, obj)
    elif not _explain(client, resource, obj, namespace):
        _explain_placed(client, kubeconfig_path, resource, obj, namespace)


def _explain(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> bool:
    """Tell about an object of this cluster; False when it is one of a hub, which only places it."""
    workload = workload_of(client, resource, obj, namespace)
    if workload is not None:
        _print_explanation(client, resource, obj, workload, namespace)
        return True
    if resource.kind == "CronJob":
        _print_cron_job(client, obj, namespace)
        return True
    if placements_of(client, resource.kind, name_of(obj), namespace):
        return False
    if not _is_job(resource):
        click.echo(f"{resource.kind} {name_of(obj)} is not a job; `corral explain` tells about jobs, pods and queues.")
        return True
    pods = _pods(client, resource, obj, namespace)
    queued = [(pod, found) for pod in pods if (found := workload_of(client, PODS, pod, namespace)) is not None]
    for pod, found in queued:
        _print_explanation(client, PODS, pod, found, namespace)
    if not queued:
        _print_unqueued(client, resource.kind, obj, pods, namespace)
    return True


def _is_job(resource: Resource) -> bool:
    """Whether an object may have pods: what has none waits for nothing."""
    return resource.namespaced and (resource.kind == "Pod" or resource.group not in ("", names.GROUP))


def _explain_placed(
    client: SyncClient, kubeconfig_path: Path | None, resource: Resource, obj: Obj, namespace: str
) -> None:
    """On a hub: where an object was placed, and what it does there, as far as the members can be asked."""
    click.echo(f"{resource.kind} {name_of(obj)} is placed, not run here.")
    for placed in placements_of(client, resource.kind, name_of(obj), namespace):
        where = f" -n {namespace}" if placed.kind == "ResourcePlacement" else ""
        click.echo(f"  {placed}; `corral fleet describe {name_of(placed.placement)}{where}` says more")
        if finished := conditions.find(placed.placement, "corral.dev/JobsFinished"):
            click.echo(f"  {finished.get('message')}")
        for member in placed.members:
            there = member_client(kubeconfig_path, member)
            if there is not None:
                _explain_on(there, member, resource, obj, namespace)


def _explain_on(member: SyncClient, name: str, resource: Resource, obj: Obj, namespace: str) -> None:
    try:
        copy = member.get(resource, name_of(obj), namespace)
    except NotFound:
        click.echo(f"On {name}: it is not there, or not any more.")
        return
    except ApiError as error:
        click.echo(f"On {name}: {error}")
        return
    click.echo(f"On {name}:")
    _explain(member, resource, copy, namespace)


def _print_explanation(client: SyncClient, resource: Resource, obj: Obj, workload: Obj, namespace: str) -> None:
    found = explain_workload(workload, collect_evidence(client, workload, namespace))
    click.echo(f"{resource.kind} {name_of(obj)}: {found.headline}")
    advice = found.advice
    failed = (conditions.find(workload, names.FINISHED) or {}).get("reason") == "Failed"
    if failed:
        where = "" if namespace == "default" else f" -n {namespace}"
        advice = (
            f"`corral logs {resource.kind.lower()}/{name_of(obj)}{where}` shows what it wrote, as far as that was kept."
        )
    runs = wl.is_admitted(workload) and not wl.is_finished(workload)
    if failed or runs:
        pods = _pods(client, resource, obj, namespace)
        if runs and pods:
            click.echo(f"  {_count(pods)}")
        for trouble in _troubles(pods):
            click.echo(f"  {trouble}")
        if not status_of(workload).get("clusterName") and any(map(_unscheduled, pods)) and not _has_nodes(client):
            advice = NO_NODES.format(queue=wl.cluster_queue_of(workload))
    for fact in found.facts:
        click.echo(f"  {fact}")
    if advice:
        click.echo(f"  -> {advice}")


def _pods(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[Obj]:
    """The pods of a job, as far as the user may see them."""
    try:
        return pods_of(client, resource, obj, namespace) if resource.kind != "Workload" else []
    except Forbidden:
        return []


def _count(pods: list[Obj]) -> str:
    """How many pods there are in each phase, and on which nodes."""
    phases = Counter(str(status_of(pod).get("phase") or "Unknown") for pod in pods)
    nodes = sorted({str(node) for pod in pods if (node := spec_of(pod).get("nodeName"))})
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    return f"pods: {counts}" + (f", on {shortened(nodes)}" if nodes else "")


def _has_nodes(client: SyncClient) -> bool:
    try:
        return bool(client.call("GET", "/api/v1/nodes", {"limit": "1"}).get("items"))
    except ApiError:
        return True  # we may not read it


def _unscheduled(pod: Obj) -> str:
    """Why no node takes a pod; nothing for one that has a node or is not looked at."""
    scheduled = conditions.find(pod, "PodScheduled") or {}
    gated = scheduled.get("reason") == "SchedulingGated"
    return str(scheduled.get("message") or "") if scheduled.get("status") == "False" and not gated else ""


def _troubles(pods: list[Obj]) -> list[str]:
    """What keeps pods of an admitted job from running; a manager shows those of its workers."""
    found = []
    for pod in pods:
        status = status_of(pod)
        if why := _unscheduled(pod):
            found.append(f"pod {name_of(pod)} has no node: {why}")
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


def _print_cron_job(client: SyncClient, obj: Obj, namespace: str) -> None:
    """A CronJob is not queued; the Jobs it makes are, if its template names a queue."""
    metadata = (spec_of(obj).get("jobTemplate") or {}).get("metadata") or {}
    queue = (metadata.get("labels") or {}).get(names.QUEUE_NAME)
    made = [job for job in client.list(JOBS, namespace)["items"] if is_owned_by(job, uid_of(obj))]
    last = max(made, key=lambda job: str(job["metadata"]["creationTimestamp"]), default=None)
    click.echo(f"CronJob {name_of(obj)}: " + (f"its Jobs go to {queue}." if queue else "its Jobs name no queue."))
    if spec_of(obj).get("suspend"):
        click.echo("  it is suspended: no more Jobs are made until spec.suspend is false")
    if not queue:
        click.echo(
            f"  -> Set the label {names.QUEUE_NAME} in spec.jobTemplate.metadata.labels, and its next Job is queued."
        )
    if last is None:
        click.echo("  it has made no Job yet")
    elif (workload := workload_of(client, JOBS, last, namespace)) is not None:
        _print_explanation(client, JOBS, last, workload, namespace)
    else:
        _print_unqueued(client, "Job", last, pods_of(client, JOBS, last, namespace), namespace, advise=False)


def _print_unqueued(
    client: SyncClient, kind: str, obj: Obj, pods: list[Obj], namespace: str, *, advise: bool = True
) -> None:
    """Without a Workload nothing waits for quota: what is left are the pods and what events say."""
    queue = labels_of(obj).get(names.QUEUE_NAME) or annotations_of(obj).get(names.QUEUE_NAME)
    events = events_of(client, obj, namespace)
    refused = [event for event in events if event.get("type") == "Warning"][-1:]
    why = f"its queue is {queue}, but nothing was queued for it yet" if queue else "it names no queue"
    click.echo(f"{kind} {name_of(obj)} has no Workload: {refused[0]['message'] if queue and refused else why}.")
    for pod in pods:
        waits = f" ({found})" if (found := _unscheduled(pod)) else ""
        click.echo(f"  pod {name_of(pod)}: {status_of(pod).get('phase')}{waits}")
    for event in events:
        if not (queue and event in refused):
            click.echo(f"  {event.get('reason')}: {event.get('message')}")
    if advise and (advice := _unqueued_advice(client, kind, bool(queue), refused)):
        click.echo(f"  -> {advice}")


def _unqueued_advice(client: SyncClient, kind: str, has_queue: bool, refused: list[Obj]) -> str:
    if not has_queue:
        return f"Set the label {names.QUEUE_NAME} when you create it, and it is queued."
    if refused and refused[0].get("reason") == "WorkloadPriorityClassNotFound":
        classes = [name_of(item) for item in visible(client, WORKLOAD_PRIORITY_CLASSES)]
        known = (
            f"name one of {shortened(classes)} in the label {names.PRIORITY_CLASS}"
            if classes
            else "leave the label away"
        )
        return f"Create the WorkloadPriorityClass, or {known}."
    if refused:
        return ""
    return f"If this stays so, no queueing runs here, or {kind} is not among its integrations.frameworks."
