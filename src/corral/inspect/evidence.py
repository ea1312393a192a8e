"""What `corral explain` looks at around a Workload: its queues, its place, its worker, its events."""

from __future__ import annotations

import json

from corral.client.sync import SyncClient
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, key_of, namespace_of, owner_references_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.inspect.explain import Evidence
from corral.inspect.lookup import events_of, visible, waiting_path
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS


def collect_evidence(client: SyncClient, workload: Obj, namespace: str) -> Evidence:
    """Everything that is known, as far as the user may see it."""
    local = _get(client, LOCAL_QUEUES, str(spec_of(workload).get("queueName") or ""), namespace)
    name = str(spec_of(local).get("clusterQueue") or "") if local else ""
    queue = _get(client, CLUSTER_QUEUES, name, "")
    events = events_of(client, workload, namespace)
    return Evidence(
        local,
        queue,
        position_of(client, name, workload) if queue else None,
        events,
        queues=[] if local else visible(client, LOCAL_QUEUES, namespace),
        worker=_get(client, MULTI_KUEUE_CLUSTERS, str(status_of(workload).get("clusterName") or ""), ""),
        jobs=_jobs_by_workload(client, namespace) if "(UID: " in json.dumps([workload, *events]) else {},
    )


def _jobs_by_workload(client: SyncClient, namespace: str) -> dict[str, str]:
    owners = (
        (uid_of(one), next(iter(owner_references_of(one)), None)) for one in visible(client, WORKLOADS, namespace)
    )
    return {uid: f"{owner['kind']} {owner['name']}" for uid, owner in owners if owner}


def _get(client: SyncClient, resource: Resource, name: str, namespace: str) -> Obj | None:
    if not name:
        return None
    try:
        return client.get(resource, name, namespace)
    except NotFound:
        return None
    except Forbidden:
        return {"metadata": {"name": name, "namespace": namespace}}  # it may well be there


def position_of(client: SyncClient, queue: str, workload: Obj) -> int | None:
    """How many are before a Workload in its ClusterQueue; None when that cannot be known."""
    local = str(spec_of(workload).get("queueName") or "")
    for asked in ((queue, ""), (local, namespace_of(workload))):
        try:
            items = client.call("GET", waiting_path(*asked), {"limit": "100000"}).get("items") or []
        except Forbidden:
            continue  # users may see their own queue only
        except ApiError:
            return None  # the visibility API is optional
        for item in items:
            if key_of(item) == key_of(workload):
                return int(item.get("positionInClusterQueue", 0))
        return None
    return None
