"""How many Workloads are not admitted, per queue and reason, while the gate UnadmittedWorkloadsObservability is open."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from corral.controllers.queueing.context import Caches
from corral.controllers.queueing.metrics import QueueingMetrics, Series
from corral.core import conditions
from corral.core.meta import Key, Obj, is_deleting, key_of, labels_of, owner_references_of, spec_of
from corral.kinds.kueue import names
from corral.workload import workload as wl
from corral.workload.waiting_reasons import PENDING_EVALUATION

NO_RESERVATION = "NoReservation"


class Unadmitted(NamedTuple):
    """Where a Workload waits and why."""

    cluster_queue: str
    queue: Key
    reason: str
    cause: str
    """Why it has no quota; empty when it has."""


def unadmitted_status(workload: Obj, cluster_queue: str) -> Unadmitted | None:
    """None when it is admitted, ended, on its way out, or one of several variants of another."""
    if wl.is_admitted(workload) or wl.is_finished(workload) or is_deleting(workload):
        return None
    if any(owner.get("kind") == "Workload" for owner in owner_references_of(workload)):
        return None
    admitted = conditions.find(workload, names.ADMITTED)
    reserved = conditions.find(workload, names.QUOTA_RESERVED)
    if reserved is None:
        cause = PENDING_EVALUATION[0]
    else:
        cause = "" if reserved.get("status") == "True" else str(reserved.get("reason", ""))
    reason = str(admitted["reason"]) if admitted is not None else NO_RESERVATION
    return Unadmitted(cluster_queue, wl.local_queue_key(workload), reason, cause)


class UnadmittedCounts:
    """Keeps the gauges in line with the caches."""

    def __init__(self, caches: Caches, metrics: QueueingMetrics) -> None:
        self._caches = caches
        self._metrics = metrics
        self._known: dict[Key, Unadmitted] = {}
        self._counts: Counter[Series] = Counter()

    def connect(self) -> None:
        self._caches.workloads.on_change(self._workload_changed)
        self._caches.local_queues.on_change(self._queue_changed)

    def _workload_changed(self, old: Obj | None, new: Obj | None) -> None:
        workload = new or old
        assert workload is not None
        key, status = key_of(workload), self._status(new) if new is not None else None
        before = self._known.pop(key, None)
        if status is not None:
            self._known[key] = status
        if status != before:
            self._count(before, -1)
            self._count(status, 1)

    def _queue_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Its workloads may wait for another ClusterQueue now, or for none."""
        queue = new or old
        assert queue is not None
        if old is not None and new is not None and labels_of(old) != labels_of(new):
            for workload in self._caches.workloads_of_local_queue(key_of(queue)):
                self._count(self._known.get(key_of(workload)), 0)  # it may be shown now, or no more
        if old is None or new is None or spec_of(old).get("clusterQueue") != spec_of(new).get("clusterQueue"):
            for workload in self._caches.workloads_of_local_queue(key_of(queue)):
                self._workload_changed(workload, workload)

    def _status(self, workload: Obj) -> Unadmitted | None:
        queue = self._caches.local_queues.get(wl.local_queue_key(workload))
        return unadmitted_status(workload, str(spec_of(queue).get("clusterQueue", "")) if queue is not None else "")

    def _count(self, status: Unadmitted | None, by: int) -> None:
        if status is None or not status.cluster_queue:
            return
        why = (status.cluster_queue, status.reason, status.cause)
        self._add(("kueue_unadmitted_workloads", why), by)
        where = (status.queue.name, status.queue.namespace)
        shown = self._metrics.shows_local(status.queue)
        self._add(("kueue_local_queue_unadmitted_workloads", (*where, *why)), by, shown=shown)

    def _add(self, series: Series, by: int, *, shown: bool = True) -> None:
        self._counts[series] += by
        count = self._counts[series]
        if not count:
            del self._counts[series]
        self._metrics.show(("unadmitted", series), {series: count} if count and shown else {})
