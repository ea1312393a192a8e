"""What the page shows at a glance, read from one cluster's API: queues with their quota, clusters, placements and jobs."""

from __future__ import annotations

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import (
    Key,
    Obj,
    key_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
)
from corral.core.resource import Resource
from corral.inspect.explain import Evidence, explain
from corral.inspect.lookup import visible, waiting_path
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS, RESOURCE_PLACEMENTS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS
from corral.workload import workload as wl

MAX_JOBS = 300
ORDER = {"pending": 0, "quotaReserved": 1, "admitted": 2, "finished": 3}

Positions = dict[Key, int]


def overview(client: SyncClient) -> Obj:
    """Everything on the page but the details of one job."""
    queues = {name_of(queue): queue for queue in _items(client, CLUSTER_QUEUES)}
    local_queues = {key_of(queue): queue for queue in _items(client, LOCAL_QUEUES)}
    workers = {name_of(worker): worker for worker in _items(client, MULTI_KUEUE_CLUSTERS)}
    workloads = _items(client, WORKLOADS)
    positions = _positions(client, queues)
    jobs = [_job(one, local_queues, queues, workers, positions) for one in workloads]
    jobs.sort(key=lambda job: job["created"], reverse=True)
    jobs.sort(key=lambda job: (ORDER[job["state"]], job["ahead"] if job["ahead"] is not None else 0))
    return {
        "server": client.access.server,
        "queues": [_queue(queue, local_queues) for queue in queues.values()],
        "clusters": [_worker(worker, workloads) for worker in workers.values()],
        "members": [_member(member) for member in _items(client, MEMBER_CLUSTERS)],
        "placements": [
            _placement(one)
            for kind in (CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS)
            for one in _items(client, kind)
        ],
        "jobs": jobs[:MAX_JOBS],
        "left_off": max(0, len(jobs) - MAX_JOBS),
    }


def _items(client: SyncClient, resource: Resource) -> list[Obj]:
    """All of a kind that is ours to see; none where it is not served."""
    return visible(client, resource, client.access.namespace)


def _positions(client: SyncClient, queues: dict[str, Obj]) -> Positions:
    """How many are ahead of each waiting Workload."""
    found: Positions = {}
    for name, queue in queues.items():
        if not status_of(queue).get("pendingWorkloads"):
            continue
        try:
            items = client.call("GET", waiting_path(name)).get("items") or []
        except ApiError:
            continue  # the visibility API is optional
        found |= {key_of(item): int(item.get("positionInClusterQueue", 0)) for item in items}
    return found


def _job(
    workload: Obj, local_queues: dict[Key, Obj], queues: dict[str, Obj], workers: dict[str, Obj], positions: Positions
) -> Obj:
    local = local_queues.get(wl.local_queue_key(workload))
    target = str(spec_of(local).get("clusterQueue") or "") if local else ""
    cluster = str(status_of(workload).get("clusterName") or "")
    position = positions.get(key_of(workload))
    unseen = {"metadata": {"name": target}} if not queues else None  # it may exist, but we may not read it
    evidence = Evidence(
        local, queues.get(target, unseen), position, queues=list(local_queues.values()), worker=workers.get(cluster)
    )
    owner: Obj = next(iter(owner_references_of(workload)), {})
    explained = explain(workload, evidence)
    return {
        "namespace": namespace_of(workload),
        "workload": name_of(workload),
        "kind": owner.get("kind", "Workload"),
        "name": owner.get("name", name_of(workload)),
        "queue": wl.queue_of(workload),
        "clusterQueue": target,
        "state": wl.phase(workload),
        "failed": (conditions.find(workload, "Finished") or {}).get("reason") == "Failed",
        "cluster": cluster,
        "priority": spec_of(workload).get("priority", 0),
        "ahead": position,
        "created": str(metadata_of(workload).get("creationTimestamp") or ""),
        "why": explained.headline,
        "advice": explained.advice,
    }


def _queue(queue: Obj, local_queues: dict[Key, Obj]) -> Obj:
    spec, status = spec_of(queue), status_of(queue)
    used = {
        (flavor["name"], resource["name"]): resource
        for flavor in status.get("flavorsReservation") or []
        for resource in flavor.get("resources") or []
    }
    flavors = [flavor for group in spec.get("resourceGroups") or [] for flavor in group.get("flavors") or []]
    active = conditions.find(queue, "Active") or {}
    return {
        "name": name_of(queue),
        "cohort": spec.get("cohortName") or "",
        "active": active.get("status") == "True",
        "message": active.get("message") or "",
        "pending": status.get("pendingWorkloads", 0),
        "admitted": status.get("admittedWorkloads", 0),
        "localQueues": [
            str(key) for key, one in local_queues.items() if spec_of(one).get("clusterQueue") == name_of(queue)
        ],
        "quotas": [
            {
                "flavor": flavor["name"],
                "resource": quota["name"],
                "quota": str(quota.get("nominalQuota")),
                "used": str(used.get((flavor["name"], quota["name"]), {}).get("total", "0")),
                "borrowed": str(used.get((flavor["name"], quota["name"]), {}).get("borrowed", "0")),
                "share": _share(
                    used.get((flavor["name"], quota["name"]), {}).get("total", "0"), quota.get("nominalQuota")
                ),
            }
            for flavor in flavors
            for quota in flavor.get("resources") or []
        ],
    }


def _share(used: object, quota: object) -> float | None:
    """The part of a quota that is used, 1.0 for all of it; None where there is no quota."""
    from corral.core.quantity import milli

    whole = milli(str(quota or "0"))
    return round(milli(str(used)) / whole, 4) if whole else None


def _worker(worker: Obj, workloads: list[Obj]) -> Obj:
    active = conditions.find(worker, "Active") or {}
    name = name_of(worker)
    unfinished = [status_of(one) for one in workloads if wl.phase(one) != "finished"]
    return {
        "name": name,
        "active": active.get("status") == "True",
        "message": active.get("message") or "",
        "running": sum(status.get("clusterName") == name for status in unfinished),
        "asked": sum(name in (status.get("nominatedClusterNames") or ()) for status in unfinished),
    }


def _member(member: Obj) -> Obj:
    status = status_of(member)
    agent: Obj = next(iter(status.get("agentStatus") or []), {})
    return {
        "name": name_of(member),
        "joined": conditions.is_true(member, "Joined"),
        "seen": agent.get("lastReceivedHeartbeat") or "",
        "available": (status.get("resourceUsage") or {}).get("available") or {},
        "taints": [str(taint.get("key")) for taint in spec_of(member).get("taints") or ()],
    }


def _placement(placement: Obj) -> Obj:
    entries = conditions.conditions_of(placement)
    blocked: Obj = next((one for one in entries if one["status"] != "True"), {})
    return {
        "namespace": namespace_of(placement),
        "name": name_of(placement),
        "clusters": [
            str(one["clusterName"])
            for one in status_of(placement).get("placementStatuses") or ()
            if one.get("clusterName")
        ],
        "state": blocked.get("reason") or ("Available" if entries else "Pending"),
        "message": blocked.get("message") or "",
    }
