"""What `corral explain` looks at around a Workload: its queues, its place, its worker, its events, what the scheduler says."""

from __future__ import annotations

import json

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Key, Obj, key_of, namespace_of, owner_references_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.decide.queueing.explanation import EXPLANATIONS, Explanation, from_obj
from corral.inspect.explain import Evidence
from corral.inspect.lookup import ALL_WAITING, events_of, visible, waiting_path
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    names,
)
from corral.workload import workload as wl


def collect_evidence(client: SyncClient, workload: Obj, namespace: str, *, with_others: bool = True) -> Evidence:
    """Everything that is known, as far as the user may see it; `with_others` also the names of jobs that are only mentioned."""
    local = _get(client, LOCAL_QUEUES, wl.queue_of(workload), namespace)
    name = str(spec_of(local).get("clusterQueue") or "") if local else ""
    queue = _get(client, CLUSTER_QUEUES, name, "")
    events = events_of(client, workload, namespace)
    known = explanation_of(client, key_of(workload)) if not wl.is_admitted(workload) else None
    has_uids = "(UID: " in json.dumps([workload, *events])
    others = visible(client, WORKLOADS, namespace) if with_others and (has_uids or _names_others(known)) else []
    missing, checks = _references(client, queue)
    return Evidence(
        local,
        queue,
        known.position if known is not None else position_of(client, name, workload) if queue else None,
        events,
        queues=[] if local else visible(client, LOCAL_QUEUES, namespace),
        worker=_get(client, MULTI_KUEUE_CLUSTERS, str(status_of(workload).get("clusterName") or ""), ""),
        jobs={uid_of(one): job for one in others if (job := job_of(one))},
        owners={key_of(one): job for one in others if (job := job_of(one))},
        known=known,
        missing=missing,
        checks=checks,
    )


def _names_others(known: Explanation | None) -> bool:
    return known is not None and (bool(known.ahead) or any(short.held_by for short in known.shortages))


def job_of(workload: Obj) -> str:
    """The job of a Workload as users call it."""
    owner = next(iter(owner_references_of(workload)), None)
    return f"{owner['kind']} {owner['name']}" if owner else ""


def _references(client: SyncClient, queue: Obj | None) -> tuple[dict[str, list[str]], list[Obj]]:
    """What an inactive ClusterQueue names and is not there, by kind, and the AdmissionChecks that are."""
    if queue is None or not conditions.is_false(queue, names.ACTIVE):
        return {}, []
    groups = spec_of(queue).get("resourceGroups") or []
    rules = (spec_of(queue).get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    flavors = {str(flavor["name"]): None for group in groups for flavor in group.get("flavors") or []}
    missing = {"ResourceFlavor": [name for name in flavors if _get(client, RESOURCE_FLAVORS, name, "") is None]}
    found = {str(rule["name"]): _get(client, ADMISSION_CHECKS, str(rule["name"]), "") for rule in rules}
    missing["AdmissionCheck"] = [name for name, check in found.items() if check is None]
    return missing, [check for check in found.values() if check is not None and status_of(check)]


def _get(client: SyncClient, resource: Resource, name: str, namespace: str) -> Obj | None:
    if not name:
        return None
    try:
        return client.get(resource, name, namespace)
    except NotFound:
        return None
    except Forbidden:
        return {"metadata": {"name": name, "namespace": namespace}}  # it may well be there


def explanation_of(client: SyncClient, key: Key) -> Explanation | None:
    """What the scheduler says about a Workload; None where it cannot be asked, as on a cluster whose queueing is not Corral's.

    Who may list in all namespaces is told the names of others there; everybody else those of the own namespace.
    """
    try:
        fields = f"metadata.namespace={key.namespace},metadata.name={key.name}"
        found = client.list(EXPLANATIONS, "", fields=fields)["items"]
        return from_obj(found[0]) if found else None
    except Forbidden:
        pass
    except ApiError:
        return None  # not served
    try:
        return from_obj(client.get(EXPLANATIONS, key.name, key.namespace))
    except ApiError:
        return None


def place_in_queue(client: SyncClient, workload: Obj) -> int | None:
    """How many are before a Workload that waits; None where it does not, or nobody can tell."""
    if wl.is_admitted(workload) or wl.has_quota(workload) or wl.is_finished(workload):
        return None
    known = explanation_of(client, key_of(workload))
    if known is not None:
        return known.position
    local = _get(client, LOCAL_QUEUES, wl.queue_of(workload), namespace_of(workload))
    queue = str(spec_of(local).get("clusterQueue") or "") if local else ""
    return position_of(client, queue, workload) if queue else None


def position_of(client: SyncClient, queue: str, workload: Obj) -> int | None:
    """How many are before a Workload in its ClusterQueue; None when that cannot be known."""
    for asked in ((queue, ""), (wl.queue_of(workload), namespace_of(workload))):
        try:
            items = client.call("GET", waiting_path(*asked), ALL_WAITING).get("items") or []
        except Forbidden:
            continue  # users may see their own queue only
        except ApiError:
            return None  # the visibility API is optional
        for item in items:
            if key_of(item) == key_of(workload):
                return int(item.get("positionInClusterQueue", 0))
        return None
    return None
