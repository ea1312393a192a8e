"""What a worker's queue has free, read from the worker's own ClusterQueues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corral.core import conditions
from corral.core.meta import Key, Obj, name_of, spec_of, status_of
from corral.core.quantity import milli
from corral.decide.dispatch.binding import WorkerView
from corral.runtime.informer import Reader

Amounts = dict[str, int]


def worker_view(
    cluster: str,
    labels: Mapping[str, str],
    local_queue: Obj | None,
    cluster_queues: Reader,
    *,
    serves: bool,
    promised: Mapping[str, int],
) -> WorkerView:
    """A worker as the late-binding dispatcher sees it for one queue."""
    name = str(spec_of(local_queue).get("clusterQueue") or "") if local_queue else ""
    queue = cluster_queues.get(Key("", name)) if name else None
    if queue is None:
        return WorkerView(cluster, labels, serves_kind=serves, queue_found=False)
    own, used = nominal(queue), reserved(queue)
    lent = borrowable(queue, cluster_queues.list())
    return WorkerView(
        cluster,
        labels,
        serves_kind=serves,
        queue_active=not conditions.is_false(queue, "Active"),
        free={resource: amount - used.get(resource, 0) for resource, amount in own.items()},
        borrowable=lent,
        capacity={resource: amount + lent.get(resource, 0) for resource, amount in own.items()},
        promised=promised,
        waiting=int(status_of(queue).get("pendingWorkloads") or 0),
    )


def nominal(queue: Obj) -> Amounts:
    """Quota of a ClusterQueue by resource, all flavors together, in milli-units."""
    return _sum(
        (entry["name"], entry.get("nominalQuota", 0))
        for group in spec_of(queue).get("resourceGroups") or []
        for flavor in group.get("flavors") or []
        for entry in flavor.get("resources") or []
    )


def reserved(queue: Obj) -> Amounts:
    """What is in use or promised on the worker itself."""
    return _sum(
        (entry["name"], entry.get("total", 0))
        for flavor in status_of(queue).get("flavorsReservation") or []
        for entry in flavor.get("resources") or []
    )


def borrowable(queue: Obj, queues: Iterable[Obj]) -> Amounts:
    """What other queues of the same cohort leave unused."""
    cohort = spec_of(queue).get("cohortName")
    total: Amounts = {}
    if not cohort:
        return total
    for other in queues:
        if name_of(other) == name_of(queue) or spec_of(other).get("cohortName") != cohort:
            continue
        used = reserved(other)
        for resource, amount in nominal(other).items():
            total[resource] = total.get(resource, 0) + max(0, amount - used.get(resource, 0))
    return total


def _sum(entries: Iterable[tuple[str, object]]) -> Amounts:
    total: Amounts = {}
    for resource, amount in entries:
        total[resource] = total.get(resource, 0) + milli(amount)
    return total
