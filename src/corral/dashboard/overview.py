"""What the page shows at a glance, read from one cluster's API: queues with their quota, clusters, placements and jobs."""

from __future__ import annotations

from dataclasses import dataclass

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
    uid_of,
)
from corral.core.resource import Resource
from corral.dashboard.job_list import Choice, choose
from corral.inspect.evidence import job_of
from corral.inspect.explain import Evidence, explain
from corral.inspect.lookup import visible, waiting_path
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS, RESOURCE_PLACEMENTS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS
from corral.workload import workload as wl

Positions = dict[Key, int]


@dataclass(frozen=True, slots=True)
class Known:
    """What was read of the cluster to explain its jobs with."""

    local_queues: dict[Key, Obj]
    queues: dict[str, Obj]
    workers: dict[str, Obj]
    positions: Positions
    jobs: dict[str, str]


def overview(client: SyncClient, choice: Choice = Choice()) -> Obj:  # noqa: B008  # frozen
    """Everything on the page but the details of one job."""
    queues = {name_of(queue): queue for queue in _items(client, CLUSTER_QUEUES)}
    local_queues = {key_of(queue): queue for queue in _items(client, LOCAL_QUEUES)}
    workers = {name_of(worker): worker for worker in _items(client, MULTI_KUEUE_CLUSTERS)}
    workloads = _items(client, WORKLOADS)
    names = {uid_of(one): job for one in workloads if (job := job_of(one))}
    known = Known(local_queues, queues, workers, _positions(client, queues), names)
    by_key = {key_of(one): one for one in workloads}

    def explained(job: Obj) -> Obj:
        return _explained(job, by_key[Key(job["namespace"], job["workload"])], known)

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
        **choose((_job(one, known) for one in workloads), choice, explained),
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


def _job(workload: Obj, known: Known) -> Obj:
    """A job but for why it waits."""
    local = known.local_queues.get(wl.local_queue_key(workload))
    owner: Obj = next(iter(owner_references_of(workload)), {})
    return {
        "namespace": namespace_of(workload),
        "workload": name_of(workload),
        "kind": owner.get("kind", "Workload"),
        "name": owner.get("name", name_of(workload)),
        "queue": wl.queue_of(workload),
        "clusterQueue": str(spec_of(local).get("clusterQueue") or "") if local else "",
        "state": wl.phase(workload),
        "failed": (conditions.find(workload, "Finished") or {}).get("reason") == "Failed",
        "cluster": str(status_of(workload).get("clusterName") or ""),
        "priority": spec_of(workload).get("priority", 0),
        "ahead": known.positions.get(key_of(workload)),
        "created": str(metadata_of(workload).get("creationTimestamp") or ""),
    }


def _explained(job: Obj, workload: Obj, known: Known) -> Obj:
    target = job["clusterQueue"]
    unseen = {"metadata": {"name": target}} if not known.queues else None  # it may exist, but we may not read it
    evidence = Evidence(
        known.local_queues.get(wl.local_queue_key(workload)),
        known.queues.get(target, unseen),
        job["ahead"],
        queues=list(known.local_queues.values()),
        worker=known.workers.get(job["cluster"]),
        jobs=known.jobs,
    )
    explained = explain(workload, evidence)
    return {**job, "why": explained.headline, "advice": explained.advice}


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
