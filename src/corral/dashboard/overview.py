"""What the page shows at a glance, read from one cluster's API: queues with their quota, clusters, placements and jobs."""

from __future__ import annotations

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, key_of, name_of, namespace_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.dashboard.job_list import Choice, choose
from corral.dashboard.jobs import Known, Positions, finished_row, row
from corral.dashboard.queues import cohorts, queue
from corral.dashboard.workers import worker
from corral.inspect.evidence import job_of
from corral.inspect.lookup import ALL_WAITING, visible, waiting_path
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS, RESOURCE_PLACEMENTS
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS


def overview(client: SyncClient, choice: Choice = Choice()) -> Obj:  # noqa: B008  # frozen
    """Everything on the page but the details of one job."""
    queues = {name_of(queue): queue for queue in _items(client, CLUSTER_QUEUES)}
    local_queues = {key_of(queue): queue for queue in _items(client, LOCAL_QUEUES)}
    workers = {name_of(worker): worker for worker in _items(client, MULTI_KUEUE_CLUSTERS)}
    workloads = _items(client, WORKLOADS)
    names = {uid_of(one): job for one in workloads if (job := job_of(one))}
    known = Known(local_queues, queues, workers, _positions(client, queues), names)
    by_key = {key_of(one): one for one in workloads}
    shown_queues = [queue(one, local_queues) for one in queues.values()]

    def finish(job: Obj) -> Obj:
        return finished_row(job, by_key[Key(job["namespace"], job["workload"])], known)

    return {
        "server": client.access.server,
        "queues": shown_queues,
        "cohorts": cohorts(shown_queues, _items(client, COHORTS)),
        "clusters": [worker(one, workloads) for one in workers.values()],
        "members": [_member(member) for member in _items(client, MEMBER_CLUSTERS)],
        "placements": [
            _placement(one)
            for kind in (CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS)
            for one in _items(client, kind)
        ],
        **choose((row(one, known) for one in workloads), choice, finish),
    }


def _items(client: SyncClient, resource: Resource) -> list[Obj]:
    """All of a kind that is ours to see; none where it is not served."""
    return visible(client, resource, client.access.namespace)


def _positions(client: SyncClient, queues: dict[str, Obj]) -> Positions:
    """How many are ahead of each waiting Workload."""
    found: Positions = {}
    for name, found_queue in queues.items():
        if not status_of(found_queue).get("pendingWorkloads"):
            continue
        try:
            items = client.call("GET", waiting_path(name), ALL_WAITING).get("items") or []
        except ApiError:
            continue  # the visibility API is optional
        found |= {key_of(item): int(item.get("positionInClusterQueue", 0)) for item in items}
    return found


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
