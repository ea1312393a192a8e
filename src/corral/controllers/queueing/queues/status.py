"""Statuses of ClusterQueues, LocalQueues and Cohorts, written from the queueing state, at most once a second each.

Finalizers keep a ClusterQueue until no workload holds its quota.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from corral.controllers.queueing.context import (
    BY_CLUSTER_QUEUE,
    BY_COHORT,
    BY_FLAVOR,
    BY_RESERVATION,
    FIELD_MANAGER,
    QueueingContext,
)
from corral.controllers.queueing.metrics import QueueingMetrics, Series
from corral.core.conditions import condition, conditions_of, is_true, set_condition
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_status,
    without_finalizer,
)
from corral.core.quantity import Quantity
from corral.core.timestamps import format_time
from corral.decide.queueing.state import QueueingState
from corral.decide.queueing.views import ClusterQueueView, CohortView, LocalQueueView
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    names,
)
from corral.runtime.controller import Controller, KeyMap, Result, Watch
from corral.runtime.informer import Informer
from corral.workload import workload as wl

BATCH_S = 1.0
QUEUES_PER_SECOND = 100
INFINITE_SHARE = 2**63 - 1
WEIGHTED_SHARE = "kueue_cluster_queue_weighted_share"
KEPT_WITHOUT_CLUSTER_QUEUE = (
    "kueue_local_queue_pending_workloads",
    "kueue_local_queue_finished_workloads",
    "kueue_local_queue_status",
)
"""Gauges a LocalQueue has whether or not its ClusterQueue is there."""


def counts_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a change of a Workload can show in the numbers of its queues."""
    if old is None or new is None:
        return True
    return (
        wl.phase(old) != wl.phase(new)
        or wl.queue_of(old) != wl.queue_of(new)
        or wl.is_active(old) != wl.is_active(new)
        or status_of(old).get("admission") != status_of(new).get("admission")
        or status_of(old).get("reclaimablePods") != status_of(new).get("reclaimablePods")
    )


def not_only_status(old: Obj | None, new: Obj | None) -> bool:
    """Whether more than the status changed, which is ours to write and nobody else's."""
    if old is None or new is None or labels_of(old) != labels_of(new):
        return True
    return spec_of(old) != spec_of(new) or is_deleting(old) != is_deleting(new) or status_of(new) == {}


class Recounts:
    """Counts queues again a moment after their workloads changed: a second, or longer when there are very many queues.

    A thousand busy queues would otherwise cost more status writes than the workloads in them. Of the workloads that change in one
    turn of the loop, one for each queue tells which queues these are.
    """

    def __init__(self) -> None:
        self._kinds: list[tuple[Controller, Informer, KeyMap]] = []
        self._changed: dict[tuple[str, str, str], Obj] = {}
        """A workload of each LocalQueue and the ClusterQueue it holds quota of."""

    def add(self, controller: Controller, queues: Informer, of: KeyMap) -> None:
        """`controller` counts `queues`, of which a workload concerns those that `of` yields."""
        self._kinds.append((controller, queues, of))

    def changed(self, old: Obj | None, new: Obj | None) -> None:
        """An informer handler for workloads."""
        if not counts_changed(old, new):
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._recount)
        for workload in (old, new):
            if workload is not None:
                place = (namespace_of(workload), wl.queue_of(workload), wl.cluster_queue_of(workload))
                self._changed.setdefault(place, workload)

    def _recount(self) -> None:
        workloads, self._changed = self._changed.values(), {}
        for controller, queues, of in self._kinds:
            delay = max(BATCH_S, len(queues) / QUEUES_PER_SECOND)
            for workload in workloads:
                for key in of(workload):
                    controller.queue.add_after(key, delay)


def _with_active(obj: Obj, status: Obj, active: bool, reason: str, message: str, now: str) -> Obj:
    entry = condition(names.ACTIVE, active, reason, message, generation_of(obj))
    return {**status, "conditions": set_condition(conditions_of(obj), entry, now)}


class ClusterQueueController:
    """Keeps statuses of ClusterQueues."""

    name = "kueue-clusterqueue-controller"

    def __init__(
        self, context: QueueingContext, state: QueueingState, metrics: QueueingMetrics, recounts: Recounts
    ) -> None:
        self.context = context
        self.state = state
        self.metrics = metrics
        self.caches = context.caches
        workers = context.config.workers.get("ClusterQueue.kueue.x-k8s.io", 5)
        controller = context.manager.add(
            self,
            watches=[
                Watch(CLUSTER_QUEUES, when=not_only_status),
                Watch(RESOURCE_FLAVORS, map=lambda flavor: self._users(BY_FLAVOR, name_of(flavor))),
                Watch(ADMISSION_CHECKS, map=lambda check: self._users("check", name_of(check))),
                Watch(TOPOLOGIES, map=self._of_topology),
                Watch(COHORTS, map=self._below),
                Watch(LOCAL_QUEUES, map=self._that_is_gone, when=not_only_status),
            ],
            workers=workers,
        )
        recounts.add(controller, self.caches.cluster_queues, self._of_workload)

    def _users(self, index: str, value: str) -> list[Key]:
        return [key_of(queue) for queue in self.caches.cluster_queues.by_index(index, value)]

    def _below(self, cohort: Obj) -> Iterable[Key]:
        _, queues = self.state.questions.members(name_of(cohort))
        direct = self._users(BY_COHORT, name_of(cohort))
        return [*direct, *(key for name in queues if (key := Key("", name)) not in direct)]

    def _that_is_gone(self, local_queue: Obj) -> Iterable[Key]:
        key = Key("", str(spec_of(local_queue).get("clusterQueue") or ""))
        return () if self.caches.cluster_queues.get(key) is not None else (key,)

    def _of_topology(self, topology: Obj) -> Iterable[Key]:
        flavors = self.caches.flavors.by_index("topology", name_of(topology))
        return [key for flavor in flavors for key in self._users(BY_FLAVOR, name_of(flavor))]

    def _of_workload(self, workload: Obj) -> Iterable[Key]:
        names_found = {wl.cluster_queue_of(workload)}
        local = self.caches.local_queues.get(wl.local_queue_key(workload))
        if local is not None:
            names_found.add(str(spec_of(local).get("clusterQueue", "")))
        return [Key("", name) for name in sorted(names_found) if name]

    async def reconcile(self, key: Key) -> Result | None:
        queue = self.caches.cluster_queues.get(key)
        if queue is None:
            # Its last share is what others compare with until nobody points at the queue any more.
            kept = (WEIGHTED_SHARE,) if self.caches.local_queues.by_index(BY_CLUSTER_QUEUE, key.name) else ()
            self.metrics.keep((self.name, key), kept)
            self.metrics.skipped_preemptions(key.name, None)
            self.metrics.forget(cluster_queue=key.name)
            self.metrics.forget(preempting_cluster_queue=key.name)
            return None
        view = self.state.questions.cluster_queue(key.name)
        if view is None:
            return Result(requeue_after=BATCH_S)
        if is_deleting(queue) and not view.reserving and names.RESOURCE_IN_USE in finalizers_of(queue):
            await self.context.client.update(
                CLUSTER_QUEUES, without_finalizer(queue, names.RESOURCE_IN_USE), manager=FIELD_MANAGER
            )
            return None
        self.metrics.show((self.name, key), self._gauges(queue, view))
        status = self._status(queue, view)
        if status != status_of(queue):
            await self.context.client.update(
                CLUSTER_QUEUES, with_status(queue, status), subresource="status", manager=FIELD_MANAGER
            )
        return None

    def _status(self, queue: Obj, view: ClusterQueueView) -> Obj:
        status: Obj = {
            **status_of(queue),
            "pendingWorkloads": view.pending,
            "reservingWorkloads": view.reserving,
            "admittedWorkloads": view.admitted,
            "flavorsReservation": view.flavors_reservation,
            "flavorsUsage": view.flavors_usage,
        }
        if self.context.config.fair_sharing is not None:
            status["fairSharing"] = {"weightedShare": view.weighted_share}
        reason, message = view.reason, view.message
        if is_deleting(queue):
            reason, message = "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        active = view.active and not is_deleting(queue)
        return _with_active(queue, status, active, reason, message, self.context.now())

    def _gauges(self, queue: Obj, view: ClusterQueueView) -> dict[Series, float]:
        name, cohort = name_of(queue), str(spec_of(queue).get("cohortName") or "")
        state = "terminated" if is_deleting(queue) else "active" if view.active else "pending"
        config = self.context.config
        gauges: dict[Series, float] = {
            ("kueue_pending_workloads", (name, "active")): view.active_pending,
            ("kueue_pending_workloads", (name, "inadmissible")): view.pending - view.active_pending,
            ("kueue_reserving_active_workloads", (name,)): view.reserving,
            ("kueue_finished_workloads", (name,)): self.metrics.finished_in(key_of(queue)),
            ("kueue_cluster_queue_info", (name, cohort, view.root_cohort)): 1,
        }
        gauges.update(self._admitted(name, view))
        for status in ("pending", "active", "terminated"):
            gauges["kueue_cluster_queue_status", (name, status)] = status == state
        for resource, amount in view.pending_requests:
            gauges["kueue_cluster_queue_resource_pending", (name, resource)] = _number(amount)
        if config.fair_sharing is not None:
            gauges[WEIGHTED_SHARE, (name, cohort)] = _share(view.weighted_share)
        if config.cluster_queue_resource_metrics:
            gauges.update(_usage_gauges("kueue_cluster_queue", (cohort, name), view))
            gauges.update(_quota_gauges(queue, (cohort, name)))
        return gauges

    def _admitted(self, name: str, view: ClusterQueueView) -> dict[Series, float]:
        """How many Workloads are admitted: one number, or one for each custom label of theirs that is told apart."""
        metric, custom = "kueue_admitted_active_workloads", self.metrics.custom
        if not custom.tells_workloads_apart():
            return {(metric, (name,)): view.admitted}
        held = self.caches.workloads.by_index(BY_RESERVATION, name)
        admitted = (found for found in held if wl.is_admitted(found) and not wl.is_finished(found))
        counts = Counter(custom.of_workload(workload) for workload in admitted)
        return {(metric, (name, *values)): count for values, count in sorted(counts.items())}


def _number(quantity: str) -> float:
    return Quantity.parse(quantity).number


def _share(weighted: int) -> float:
    """A queue of weight zero that borrows has no share that could be compared."""
    return float("nan") if weighted == INFINITE_SHARE else weighted


def _usage_gauges(
    prefix: str, labels: tuple[str, ...], view: ClusterQueueView | LocalQueueView
) -> Iterator[tuple[Series, float]]:
    for kind, flavors in (("reservation", view.flavors_reservation), ("usage", view.flavors_usage)):
        for flavor in flavors:
            for resource in flavor["resources"]:
                series = (f"{prefix}_resource_{kind}", (*labels, flavor["name"], resource["name"]))
                yield series, _number(resource["total"])


def _quota_gauges(queue: Obj, labels: tuple[str, ...]) -> Iterator[tuple[Series, float]]:
    fields = {"nominalQuota": "nominal_quota", "borrowingLimit": "borrowing_limit", "lendingLimit": "lending_limit"}
    for group in spec_of(queue).get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                for field, metric in fields.items():
                    value = resource.get(field)
                    series = (f"kueue_cluster_queue_{metric}", (*labels, flavor["name"], resource["name"]))
                    yield series, float("inf") if value is None else _number(value)


RESTARTED_S = 0.1
"""At upstream's wish usage is sampled again when a ClusterQueue has said that it is active, and then somebody may hold quota already."""


class LocalQueueController:
    """Keeps statuses of LocalQueues, and samples their usage for admission fair sharing."""

    name = "kueue-localqueue-controller"

    def __init__(
        self, context: QueueingContext, state: QueueingState, metrics: QueueingMetrics, recounts: Recounts
    ) -> None:
        self.context = context
        self.state = state
        self.metrics = metrics
        self.caches = context.caches
        workers = context.config.workers.get("LocalQueue.kueue.x-k8s.io", 5)
        delay = 0.0 if state.settings.samples_stopped_queues else RESTARTED_S
        controller = context.manager.add(
            self,
            watches=[
                Watch(LOCAL_QUEUES, when=not_only_status),
                Watch(CLUSTER_QUEUES, map=self._of_cluster_queue, when=_activity_changed, delay=delay),
            ],
            workers=workers,
        )
        recounts.add(controller, self.caches.local_queues, self._of_workload)

    def _of_workload(self, workload: Obj) -> Iterable[Key]:
        queue = wl.queue_of(workload)
        return (Key(namespace_of(workload), queue),) if queue else ()

    def _of_cluster_queue(self, queue: Obj) -> Iterable[Key]:
        return [key_of(local) for local in self.caches.local_queues.by_index(BY_CLUSTER_QUEUE, name_of(queue))]

    async def reconcile(self, key: Key) -> Result | None:
        queue = self.caches.local_queues.get(key)
        sampled = queue is not None and self._sample(queue, key)
        view = self.state.questions.local_queue(key) if queue is not None else None
        if queue is None or view is None:
            self._measure(key, {})
            return None
        self._measure(key, self._gauges(queue, view) if self.metrics.shows_local(key) else {}, self._admits(queue))
        status = self._status(queue, key, view, sampled)
        if status != status_of(queue):
            await self.context.client.update(
                LOCAL_QUEUES, with_status(queue, status), subresource="status", manager=FIELD_MANAGER
            )
        if not self._is_sampled(queue):
            return None
        return Result(requeue_after=self.state.questions.next_sample_in(key, self.context.clock.now()))

    def _admits(self, queue: Obj) -> bool:
        """Whether its ClusterQueue is there at all."""
        return self.caches.cluster_queues.get(Key("", str(spec_of(queue).get("clusterQueue") or ""))) is not None

    def _measure(self, key: Key, gauges: dict[Series, float], admits: bool = False) -> None:
        """A LocalQueue without its ClusterQueue holds no quota; what was counted before goes with the LocalQueue alone."""
        if not admits:
            gauges = {series: value for series, value in gauges.items() if series[0] in KEPT_WITHOUT_CLUSTER_QUEUE}
        if not gauges:
            self.metrics.forget(name=key.name, namespace=key.namespace)
        self.metrics.show((self.name, key), gauges)

    def _sample(self, queue: Obj, key: Key) -> bool:
        """Age the usage history if it is time; True when there is a new one."""
        return self._is_sampled(queue) and self.state.sample_local_queue(key, self.context.clock.now()) is not None

    def _is_sampled(self, queue: Obj) -> bool:
        """At upstream's wish only where the queue is open and its ClusterQueue says that it is active."""
        settings = self.state.settings
        if settings.admission_fair_sharing is None or settings.samples_stopped_queues:
            return settings.admission_fair_sharing is not None
        spec = spec_of(queue)
        cluster_queue = self.caches.cluster_queues.get(Key("", str(spec.get("clusterQueue") or "")))
        is_open = (spec.get("stopPolicy") or "None") == "None"
        return is_open and cluster_queue is not None and is_true(cluster_queue, names.ACTIVE)

    def _status(self, queue: Obj, key: Key, view: LocalQueueView, sampled: bool) -> Obj:
        status: Obj = {
            **status_of(queue),
            "pendingWorkloads": view.pending,
            "reservingWorkloads": view.reserving,
            "admittedWorkloads": view.admitted,
            "flavorsReservation": view.flavors_reservation,
            "flavorsUsage": view.flavors_usage,
        }
        if self.state.settings.admission_fair_sharing is not None:
            status["fairSharing"] = self._sharing(key, status.get("fairSharing") or {}, view, sampled)
        return _with_active(queue, status, view.active, view.reason, view.message, self.context.now())

    def _sharing(self, key: Key, held: Obj, view: LocalQueueView, sampled: bool) -> Obj:
        consumed, updated = self.state.questions.local_queue_history(key)
        share = {**held, "weightedShare": int(min(view.usage_share, 2**63 - 1))}
        if sampled and updated is not None:
            share["admissionFairSharingStatus"] = {
                "consumedResources": {name: str(Quantity(amount)) for name, amount in sorted(consumed.items())},
                "lastUpdate": format_time(updated),
            }
        return share

    def _gauges(self, queue: Obj, view: LocalQueueView) -> dict[Series, float]:
        labels = (name_of(queue), namespace_of(queue))
        gauges: dict[Series, float] = {
            ("kueue_local_queue_pending_workloads", (*labels, "active")): view.pending if view.active else 0,
            ("kueue_local_queue_pending_workloads", (*labels, "inadmissible")): 0 if view.active else view.pending,
            ("kueue_local_queue_reserving_active_workloads", labels): view.reserving,
            ("kueue_local_queue_admitted_active_workloads", labels): view.admitted,
            ("kueue_local_queue_finished_workloads", labels): self.metrics.finished_in(key_of(queue)),
            ("kueue_local_queue_status", (*labels, "True")): view.active,
            ("kueue_local_queue_status", (*labels, "False")): not view.active,
            **dict(_usage_gauges("kueue_local_queue", labels, view)),
        }
        if self.state.settings.admission_fair_sharing is not None:
            cluster_queue = str(spec_of(queue).get("clusterQueue") or "")
            gauges["kueue_local_queue_admission_fair_sharing_usage", (*labels, cluster_queue)] = view.usage_share
        return gauges


def _activity_changed(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None:
        return True
    return conditions_of(old) != conditions_of(new) or spec_of(old) != spec_of(new)


class CohortController:
    """Counts what is below cohorts, and keeps the share in statuses of Cohorts when fair sharing is on.

    A cohort that is only mentioned, without an object of its own, is counted as well.
    """

    name = "kueue-cohort-controller"

    def __init__(self, context: QueueingContext, state: QueueingState, metrics: QueueingMetrics) -> None:
        self.context = context
        self.state = state
        self.metrics = metrics
        self.caches = context.caches
        watches = [
            Watch(COHORTS),
            Watch(COHORTS, map=self._tree, when=not_only_status, delay=BATCH_S),
            Watch(CLUSTER_QUEUES, map=self._ancestors, delay=BATCH_S),
        ]
        context.manager.add(self, watches=watches, workers=1)

    def _tree(self, cohort: Obj) -> Iterable[Key]:
        below, _ = self.state.questions.members(name_of(cohort))
        above = self._upwards(str(spec_of(cohort).get("parentName") or ""))
        return [*(Key("", name) for name in below), *above]

    def _ancestors(self, queue: Obj) -> Iterable[Key]:
        return self._upwards(str(spec_of(queue).get("cohortName") or ""))

    def _upwards(self, name: str) -> Iterable[Key]:
        seen: dict[str, None] = {}
        while name and name not in seen:
            seen[name] = None
            cohort = self.caches.cohorts.get(Key("", name))
            name = str(spec_of(cohort).get("parentName") or "") if cohort else ""
        return [Key("", found) for found in seen]

    async def reconcile(self, key: Key) -> Result | None:
        cohort, view = self.caches.cohorts.get(key), self.state.questions.cohort(key.name)
        fair = self.context.config.fair_sharing is not None
        self.metrics.show((self.name, key), self._gauges(key.name, view, fair) if view is not None else {})
        if view is None:
            self.metrics.forget(cohort=key.name)
        if cohort is None or view is None or not fair:
            return None
        status = {**status_of(cohort), "fairSharing": {"weightedShare": view.weighted_share}}
        if status != status_of(cohort):
            await self.context.client.update(
                COHORTS, with_status(cohort, status), subresource="status", manager=FIELD_MANAGER
            )
        return None

    def _gauges(self, name: str, view: CohortView, fair: bool) -> dict[Series, float]:
        gauges: dict[Series, float] = {}
        if fair:
            gauges["kueue_cohort_weighted_share", (name,)] = _share(view.weighted_share)
        if not self.context.config.gates["MetricsForCohorts"]:
            return gauges
        gauges["kueue_cohort_info", (name, view.parent, view.root)] = 1
        gauges["kueue_cohort_subtree_admitted_active_workloads", (name,)] = view.subtree_admitted
        for flavor in view.subtree_quota:
            for resource in flavor["resources"]:
                series = ("kueue_cohort_subtree_quota", (name, flavor["name"], resource["name"]))
                gauges[series] = _number(resource["total"])
        for *column, amount in view.subtree_reserved:
            gauges["kueue_cohort_subtree_resource_reservations", (name, *column)] = _number(amount)
        return gauges
