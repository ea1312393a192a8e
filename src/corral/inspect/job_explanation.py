"""One job in words, with its pods: what `explain` says of its Workload, and what keeps its containers from running."""

from __future__ import annotations

from collections import Counter

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import Forbidden
from corral.core.meta import Obj, annotations_of, labels_of, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.inspect.evidence import collect_evidence
from corral.inspect.explain import Explanation, explain, set_aside
from corral.inspect.lookup import events_of, pods_of, visible
from corral.inspect.naming import shortened
from corral.inspect.placed_pods import cluster_of
from corral.inspect.trouble_evidence import UNTOLD, advice_about, pods_there, reached, shown_by_events
from corral.inspect.troubles import troubles_of, unscheduled
from corral.kinds.kubernetes.pods.simulated import STAND_IN_ANNOTATION, is_simulated
from corral.kinds.kueue import WORKLOAD_PRIORITY_CLASSES, names
from corral.workload import workload as wl

MAX_TROUBLES = 5


def is_job(resource: Resource) -> bool:
    """Whether an object may have pods: what has none waits for nothing."""
    return resource.namespaced and (resource.kind == "Pod" or resource.group not in ("", names.GROUP))


def explain_job(client: SyncClient, resource: Resource, obj: Obj, workload: Obj, namespace: str) -> Explanation:
    """Why a job waits, where it runs, or how it ended."""
    found = explain(workload, collect_evidence(client, workload, namespace))
    advice = found.advice
    failed = (conditions.find(workload, names.FINISHED) or {}).get("reason") == "Failed"
    if failed:
        where = "" if namespace == "default" else f" -n {namespace}"
        advice = (
            f"`corral logs {resource.kind.lower()}/{name_of(obj)}{where}` shows what it wrote, as far as that was kept."
        )
    runs = wl.is_admitted(workload) and not wl.is_finished(workload)
    has_run = runs or wl.is_finished(workload)
    pods = _pods(client, resource, obj, workload, namespace) if has_run else []
    simulated = [pod for pod in pods if is_simulated(pod)]
    about_pods = list(dict.fromkeys(map(_pretence, simulated)))
    if failed or runs:
        troubles = troubles_of(pods) or (
            shown_by_events(client, resource, namespace, name_of(obj), cluster_of(workload), pods) if runs else []
        )
        about_pods += [*([_count(pods)] if runs and pods else []), *map(str, troubles[:MAX_TROUBLES])]
        advice = advice_about(client, workload, pods) or advice
    name = f"{resource.kind} {name_of(obj)}{' (simulated)' if simulated else ''}"
    return Explanation(f"{name}: {found.headline}", (*set_aside(obj), *about_pods, *found.facts), advice)


def visible_pods(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[Obj]:
    """The pods of a job, as far as the user may see them."""
    try:
        return pods_of(client, resource, obj, namespace) if resource.kind != "Workload" else []
    except Forbidden:
        return []


def _pods(client: SyncClient, resource: Resource, obj: Obj, workload: Obj, namespace: str) -> list[Obj]:
    """The pods of a job here; where a manager does not show those of its workers, on the worker that runs it."""
    pods = visible_pods(client, resource, obj, namespace)
    if pods or resource.kind == "Workload" or not cluster_of(workload) or wl.is_finished(workload):
        return pods
    try:
        with reached(client, cluster_of(workload)) as worker:
            return pods_there(worker, resource, namespace, [name_of(obj)])
    except UNTOLD:
        return []


def _count(pods: list[Obj]) -> str:
    """How many pods there are in each phase, and on which nodes."""
    phases = Counter(str(status_of(pod).get("phase") or "Unknown") for pod in pods)
    nodes = sorted({str(node) for pod in pods if (node := spec_of(pod).get("nodeName"))})
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    return f"pods: {counts}" + (f", on {shortened(nodes)}" if nodes else "")


def _pretence(pod: Obj) -> str:
    """In what way a pod is not what it seems."""
    if stands_for := annotations_of(pod).get(STAND_IN_ANNOTATION):
        return f"simulated: its pods stand in for {stands_for}, which does not run"
    return "simulated: its containers only pretend, no program of it runs"


def explain_unqueued(
    client: SyncClient, kind: str, obj: Obj, pods: list[Obj], namespace: str, *, advise: bool = True
) -> Explanation:
    """Without a Workload nothing waits for quota: what is left are the pods and what events say."""
    queue = labels_of(obj).get(names.QUEUE_NAME) or annotations_of(obj).get(names.QUEUE_NAME)
    events = events_of(client, obj, namespace)
    refused = [event for event in events if event.get("type") == "Warning"][-1:]
    why = f"its queue is {queue}, but nothing was queued for it yet" if queue else "it names no queue"
    waits = [
        f"{' (simulated)' if is_simulated(pod) else ''}{f' ({found})' if (found := unscheduled(pod)) else ''}"
        for pod in pods
    ]
    others = [event for event in events if not (queue and event in refused)]
    return Explanation(
        f"{kind} {name_of(obj)} has no Workload: {refused[0]['message'] if queue and refused else why}.",
        (
            *set_aside(obj),
            *(f"pod {name_of(pod)}: {status_of(pod).get('phase')}{why}" for pod, why in zip(pods, waits, strict=True)),
            *(f"{event.get('reason')}: {event.get('message')}" for event in others),
        ),
        _unqueued_advice(client, kind, bool(queue), refused) if advise else "",
    )


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
