"""One job in full: why it waits or where it runs, with the evidence, its pods, what they write, its events and its object."""

from __future__ import annotations

import yaml

from corral.client.sync import SyncClient
from corral.core import names
from corral.core.errors import ApiError, BadRequest, Forbidden
from corral.core.meta import Obj, labels_of, metadata_of, name_of, namespace_of, owner_references_of, spec_of, status_of
from corral.core.resource import Resource
from corral.dashboard.jobs import needs, times
from corral.inspect.evidence import collect_evidence
from corral.inspect.explain import Explanation, explain
from corral.inspect.job_explanation import explain_job
from corral.inspect.lookup import events_of, find_resource, pods_of
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.kinds.kueue import WORKLOADS
from corral.workload import workload as wl

TAIL_LINES = 1000
MAX_EVENTS = 200
MAX_WARNINGS = 30
ASKED_PODS = 20
"""Of how many pods the events are asked for."""


def details(client: SyncClient, namespace: str, workload: str) -> Obj:
    """What is known of the job of a Workload."""
    check_names(namespace=namespace, workload=workload)
    found = client.get(WORKLOADS, workload, namespace)
    owner: Obj = next(iter(owner_references_of(found)), {"kind": "Workload", "name": workload})
    job = job_of(client, found)
    pods = _pods(client, job, namespace)
    explained = _explained(client, job, found, namespace)
    prefix = f"{owner['kind']} {owner['name']}"
    return {
        "title": f"{owner['kind']} {namespace}/{owner['name']}",
        "headline": explained.headline.removeprefix(f"{prefix}: "),
        "facts": list(explained.facts),
        "advice": explained.advice,
        "state": wl.phase(found),
        "stopped": not wl.is_active(found),
        "needs": needs(found),
        **times(found),
        "pods": [_pod(pod) for pod in pods],
    }


def _explained(client: SyncClient, job: tuple[Resource, Obj] | None, workload: Obj, namespace: str) -> Explanation:
    """The words of `corral explain`; without its job, those about its Workload."""
    if job is not None:
        try:
            return explain_job(client, *job, workload, namespace)
        except ApiError:
            pass  # its pods, or the worker they are on, cannot be asked for
    return explain(workload, collect_evidence(client, workload, namespace))


def events(client: SyncClient, namespace: str, workload: str) -> list[Obj]:
    """What was told about a job, its Workload and its pods, the latest first."""
    check_names(namespace=namespace, workload=workload)
    found = client.get(WORKLOADS, workload, namespace)
    job = job_of(client, found)
    things = [{"kind": "Workload", **found}]
    if job is not None:
        things.append({**job[1], "kind": job[0].kind})
        things += [{**pod, "kind": "Pod"} for pod in _pods(client, job, namespace)[:ASKED_PODS]]
    listed = [event for thing in things for event in events_of(client, thing, namespace)]
    return _latest(listed, MAX_EVENTS)


def warnings(client: SyncClient) -> list[Obj]:
    """What went wrong lately, the latest first: also of jobs that never got into a queue. What waits says so itself."""
    selector = f"type=Warning,involvedObject.kind!={WORKLOADS.kind}"
    for where in ("", client.access.namespace):
        try:
            return _latest(client.list(EVENTS, where, fields=selector)["items"], MAX_WARNINGS)
        except Forbidden:
            continue
    return []


def _latest(events: list[Obj], count: int) -> list[Obj]:
    return [
        {
            "when": _when(event),
            "type": str(event.get("type") or ""),
            "reason": str(event.get("reason") or ""),
            "namespace": namespace_of(event),
            "object": f"{event['involvedObject'].get('kind', '')} {event['involvedObject'].get('name', '')}",
            "message": str(event.get("message") or ""),
            "count": event.get("count") or (event.get("series") or {}).get("count") or 1,
        }
        for event in sorted(events, key=_when, reverse=True)[:count]
    ]


def _when(event: Obj) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), metadata_of(event).get("creationTimestamp") or ""))


def document(client: SyncClient, namespace: str, workload: str) -> bytes:
    """The job and its Workload as YAML, without what servers keep for themselves."""
    check_names(namespace=namespace, workload=workload)
    found = client.get(WORKLOADS, workload, namespace)
    job = job_of(client, found)
    objects = [{"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, **found}]
    if job is not None:
        objects.insert(0, {"apiVersion": job[0].api_version, "kind": job[0].kind, **job[1]})
    return yaml.safe_dump_all(map(_plain, objects), sort_keys=False, allow_unicode=True).encode()


def _plain(obj: Obj) -> Obj:
    metadata = {key: value for key, value in metadata_of(obj).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def check_names(**given: str) -> None:
    """What is asked for is a name, or is refused before the cluster hears of it."""
    for what, text in given.items():
        if names.check_subdomain(text) or (what == "namespace" and names.check_label(text)):
            raise BadRequest(f"the {what} {text!r} is not the name of one: lower case letters, digits, '-' and '.'")


def job_of(client: SyncClient, workload: Obj) -> tuple[Resource, Obj] | None:
    """The job of a Workload; None where it has none, or it is not ours to see."""
    for owner in owner_references_of(workload)[:1]:
        group = str(owner.get("apiVersion") or "").rpartition("/")[0]
        try:
            resource = find_resource(client, f"{owner['kind']}.{group}" if group else str(owner["kind"]))
            return (
                (resource, client.get(resource, str(owner["name"]), namespace_of(workload)))
                if resource is not None
                else None
            )
        except ApiError:
            return None
    return None


def _pods(client: SyncClient, job: tuple[Resource, Obj] | None, namespace: str) -> list[Obj]:
    if job is None:
        return []
    try:
        return pods_of(client, *job, namespace)
    except ApiError:
        return []  # the pod was deleted, or we may not read it


def _pod(pod: Obj) -> Obj:
    return {
        "name": name_of(pod),
        "phase": str(status_of(pod).get("phase") or "Unknown"),
        "cluster": labels_of(pod).get("corral.dev/cluster", ""),
        "node": str(spec_of(pod).get("nodeName") or ""),
        "containers": [str(one["name"]) for one in spec_of(pod).get("containers") or ()],
    }


def logs(client: SyncClient, namespace: str, pod: str, container: str, *, everything: bool = False) -> bytes:
    """The end of what a container has written, or all that is left of it."""
    check_names(namespace=namespace, pod=pod, **({"container": container} if container else {}))
    query = {"tailLines": "" if everything else str(TAIL_LINES), "container": container}
    return b"".join(client.lines(PODS.path(namespace, pod, "log"), query))
