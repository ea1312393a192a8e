"""Metrics of queueing under upstream's names and labels, so that existing dashboards work unchanged.

The catalogue below is the documentation of what is exported. Every series also carries the role of this replica.
"""

from __future__ import annotations

import collections
import platform
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric as Family

from corral import __version__
from corral.configuration.metric_labels import CustomLabel
from corral.controllers.queueing.custom_values import CustomValues
from corral.core import conditions
from corral.core.meta import Key, Obj, metadata_of, namespace_of, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.kinds.kueue import names
from corral.runtime.informer import Informer
from corral.runtime.metrics import Metrics
from corral.workload import workload as wl

WAIT_BUCKETS = (1.0, *(2.5 * 2**power for power in range(13)))
RUNTIME_BUCKETS = (1.0, *(2.5 * 2**power for power in range(15)))
CREATION_BUCKETS = tuple(0.01 * 2**power for power in range(11))

_CQ = ("cluster_queue",)
_CLASSED = ("cluster_queue", "priority_class")
_EVICTED = ("cluster_queue", "reason", "underlying_cause", "priority_class")
_LQ = ("name", "namespace")
_LQ_CLASSED = (*_LQ, "priority_class")
_COLUMNS = ("cohort", "cluster_queue", "flavor", "resource")
_COHORT_COLUMNS = ("cohort", "flavor", "resource")


class Metric(NamedTuple):
    """One exported metric."""

    text: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = WAIT_BUCKETS


COUNTERS = {
    "kueue_admission_attempts_total": Metric("Attempts to admit workloads", ("result",)),
    "kueue_quota_reserved_workloads_total": Metric("Workloads that got quota", _CLASSED),
    "kueue_admitted_workloads_total": Metric("Workloads admitted", _CLASSED),
    "kueue_evicted_workloads_total": Metric("Evictions", _EVICTED),
    "kueue_evicted_workloads_once_total": Metric("Workloads evicted for the first time for a reason", _EVICTED),
    "kueue_preempted_workloads_total": Metric("Preempted workloads", ("preempting_cluster_queue", "reason")),
    "kueue_finished_workloads_total": Metric("Finished workloads", _CLASSED),
    "kueue_replaced_workload_slices_total": Metric("Workload slices replaced by larger ones", _CQ),
    "kueue_local_queue_quota_reserved_workloads_total": Metric("Workloads that got quota", _LQ_CLASSED),
    "kueue_local_queue_admitted_workloads_total": Metric("Workloads admitted", _LQ_CLASSED),
    "kueue_local_queue_evicted_workloads_total": Metric(
        "Evictions", (*_LQ, "reason", "underlying_cause", "priority_class")
    ),
    "kueue_local_queue_finished_workloads_total": Metric("Finished workloads", _LQ_CLASSED),
    "kueue_cohort_subtree_admitted_workloads_total": Metric(
        "Workloads admitted below a cohort", ("cohort", "priority_class")
    ),
}

HISTOGRAMS = {
    "kueue_admission_attempt_duration_seconds": Metric("Latency of admission attempts", ("result",)),
    "kueue_quota_reserved_wait_time_seconds": Metric("From queued to quota reserved", _CLASSED),
    "kueue_admission_wait_time_seconds": Metric("From queued to admitted", _CLASSED),
    "kueue_admission_checks_wait_time_seconds": Metric("From quota reserved to admitted", _CLASSED),
    "kueue_ready_wait_time_seconds": Metric("From queued to pods ready", _CLASSED),
    "kueue_admitted_until_ready_wait_time_seconds": Metric("From admitted to pods ready", _CLASSED),
    "kueue_workload_eviction_latency_seconds": Metric("From eviction to quota released", ("cluster_queue", "reason")),
    "kueue_pods_ready_to_evicted_time_seconds": Metric(
        "From pods ready to eviction", ("cluster_queue", "reason", "underlying_cause"), RUNTIME_BUCKETS
    ),
    "kueue_pod_scheduling_gate_removal_seconds": Metric(
        "From admission to the removal of a pod's gate", ("name", "cluster_queue", "is_group")
    ),
    "kueue_workload_creation_latency_seconds": Metric(
        "From the creation of a job to that of its Workload", ("job_kind",), CREATION_BUCKETS
    ),
    "kueue_local_queue_quota_reserved_wait_time_seconds": Metric("From queued to quota reserved", _LQ_CLASSED),
    "kueue_local_queue_admission_wait_time_seconds": Metric("From queued to admitted", _LQ_CLASSED),
    "kueue_local_queue_admission_checks_wait_time_seconds": Metric("From quota reserved to admitted", _LQ_CLASSED),
    "kueue_local_queue_ready_wait_time_seconds": Metric("From queued to pods ready", _LQ_CLASSED),
    "kueue_local_queue_admitted_until_ready_wait_time_seconds": Metric("From admitted to pods ready", _LQ_CLASSED),
}

GAUGES = {
    "kueue_admission_cycle_preemption_skips": Metric("Preemptions put off in the last cycle", _CQ),
    "kueue_pending_workloads": Metric("Pending workloads", ("cluster_queue", "status")),
    "kueue_unadmitted_workloads": Metric(
        "Workloads that are not admitted, and why", ("cluster_queue", "reason", "underlying_cause")
    ),
    "kueue_finished_workloads": Metric("Finished workloads that still exist", _CQ),
    "kueue_reserving_active_workloads": Metric("Workloads that hold quota", _CQ),
    "kueue_admitted_active_workloads": Metric("Admitted workloads that have not finished", _CQ),
    "kueue_cluster_queue_status": Metric("Status of a ClusterQueue", ("cluster_queue", "status")),
    "kueue_cluster_queue_info": Metric("Cohorts of a ClusterQueue", ("cluster_queue", "parent_cohort", "root_cohort")),
    "kueue_cluster_queue_resource_pending": Metric("Requests of pending workloads", ("cluster_queue", "resource")),
    "kueue_cluster_queue_weighted_share": Metric("Weighted share", ("cluster_queue", "cohort")),
    "kueue_cluster_queue_nominal_quota": Metric("Nominal quota", _COLUMNS),
    "kueue_cluster_queue_borrowing_limit": Metric("Borrowing limit", _COLUMNS),
    "kueue_cluster_queue_lending_limit": Metric("Lending limit", _COLUMNS),
    "kueue_cluster_queue_resource_reservation": Metric("Reserved quota", _COLUMNS),
    "kueue_cluster_queue_resource_usage": Metric("Quota of admitted workloads", _COLUMNS),
    "kueue_build_info": Metric(
        "Build", ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")
    ),
    "kueue_local_queue_pending_workloads": Metric("Pending workloads", (*_LQ, "status")),
    "kueue_local_queue_unadmitted_workloads": Metric(
        "Workloads that are not admitted, and why", (*_LQ, "cluster_queue", "reason", "underlying_cause")
    ),
    "kueue_local_queue_finished_workloads": Metric("Finished workloads that still exist", _LQ),
    "kueue_local_queue_reserving_active_workloads": Metric("Workloads that hold quota", _LQ),
    "kueue_local_queue_admitted_active_workloads": Metric("Admitted workloads that have not finished", _LQ),
    "kueue_local_queue_status": Metric("Whether a LocalQueue is active", (*_LQ, "active")),
    "kueue_local_queue_resource_reservation": Metric("Reserved quota", (*_LQ, "flavor", "resource")),
    "kueue_local_queue_resource_usage": Metric("Quota of admitted workloads", (*_LQ, "flavor", "resource")),
    "kueue_local_queue_admission_fair_sharing_usage": Metric("Remembered usage", (*_LQ, "cluster_queue")),
    "kueue_cohort_info": Metric("Place of a cohort in its tree", ("cohort", "parent_cohort", "root_cohort")),
    "kueue_cohort_weighted_share": Metric("Weighted share", ("cohort",)),
    "kueue_cohort_subtree_quota": Metric("Quota of a cohort's subtree", _COHORT_COLUMNS),
    "kueue_cohort_subtree_resource_reservations": Metric("Reserved quota below a cohort", _COHORT_COLUMNS),
    "kueue_cohort_subtree_admitted_active_workloads": Metric("Admitted workloads below a cohort", ("cohort",)),
}


Series = tuple[str, tuple[str, ...]]
"""A gauge and the values of its labels; those of Workloads that tell its series apart come last."""


class _SharedNameGauge(Gauge):
    """A gauge whose name is also the stem of a counter, which upstream has and the registry would refuse."""

    def describe(self) -> Iterable[Family]:
        return ()


class QueueingMetrics:
    """The metrics of one cluster's queueing."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        role: str = "standalone",
        local_queues: bool = True,
        custom_labels: Sequence[CustomLabel] = (),
    ) -> None:
        self.role = role
        self.local_queues = local_queues
        self.custom = CustomValues(custom_labels)
        self._registry = metrics.registry
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges: dict[str, Gauge] = {}
        self._finished: collections.Counter[Key] = collections.Counter()
        self._shown: dict[Hashable, Mapping[Series, float]] = {}
        self._written: dict[Series, tuple[str, ...]] = {}
        """The values of all labels of the series that are shown."""
        self.ancestors: Callable[[str], Iterable[str]] = lambda _: ()
        """Cohorts above a ClusterQueue."""
        self.selected: Callable[[Key], bool] = lambda _: True
        """Whether a LocalQueue is one of those that have metrics."""
        # The series in use: finding one by its labels costs more than counting.
        self._counts: dict[tuple[str, tuple[str, ...]], Counter] = {}
        self._times: dict[tuple[str, tuple[str, ...]], Histogram] = {}
        for name, metric in COUNTERS.items():
            # The client library adds the suffix itself.
            made = metrics.counter(name.removesuffix("_total"), metric.text, self._labels(name, metric))
            self._counters[name] = made
        for name, metric in HISTOGRAMS.items():
            labels = self._labels(name, metric)
            self._histograms[name] = metrics.histogram(name, metric.text, labels, metric.buckets)
        for name, metric in GAUGES.items():
            kind = _SharedNameGauge if f"{name}_total" in COUNTERS else Gauge
            self._gauges[name] = kind(name, metric.text, self._labels(name, metric), registry=metrics.registry)
        build = (__version__, "", "", "", platform.python_implementation(), platform.system().lower())
        self.gauge("kueue_build_info", 1, *build)

    def close(self) -> None:
        """Take all of them out of the registry, for others of the same names."""
        for collector in (*self._counters.values(), *self._histograms.values(), *self._gauges.values()):
            self._registry.unregister(collector)

    def _labels(self, name: str, metric: Metric) -> tuple[str, ...]:
        return (*metric.labels, "replica_role", *self.custom.label_names(name, metric.labels))

    def _values(self, name: str, metric: Metric, labels: tuple[str, ...], queue: Key | None = None) -> tuple[str, ...]:
        """The values of all labels of a series: its own, this replica's role, and what was configured."""
        if not self.custom:
            return (*labels, self.role)
        own, of_workload = labels[: len(metric.labels)], labels[len(metric.labels) :]
        custom = self.custom.of_metric(name, dict(zip(metric.labels, own, strict=True)), queue)
        return (*own, self.role, *custom, *of_workload)

    def count(self, name: str, *labels: str, amount: float = 1) -> None:
        values = self._values(name, COUNTERS[name], labels)
        series = self._counts.get((name, values))
        if series is None:
            series = self._counts[name, values] = self._counters[name].labels(*values)
        series.inc(amount)

    def observe(self, name: str, seconds: float, *labels: str, queue: Key | None = None) -> None:
        """`queue` is the LocalQueue of a metric that does not name it."""
        values = self._values(name, HISTOGRAMS[name], labels, queue)
        series = self._times.get((name, values))
        if series is None:
            series = self._times[name, values] = self._histograms[name].labels(*values)
        series.observe(max(0.0, seconds))

    def gauge(self, name: str, value: float, *labels: str) -> None:
        self._gauges[name].labels(*self._values(name, GAUGES[name], labels)).set(value)

    def follow(self, cluster_queues: Informer, local_queues: Informer, cohorts: Informer) -> None:
        """Read custom labels from these objects, and show gauges anew when one of them is labelled otherwise."""
        self.custom.read_from(cluster_queues, local_queues, cohorts)
        for kind, informer in self.custom.objects():
            informer.on_change(lambda old, new, kind=kind: self._relabelled(kind, old, new))  # type: ignore[misc]

    def _relabelled(self, kind: str, old: Obj | None, new: Obj | None) -> None:
        if new is not None and (old is None or self.custom.changed(kind, old, new)):
            self.relabel()

    def shows_local(self, queue: Key) -> bool:
        return self.local_queues and self.selected(queue)

    def forget(self, **labels: str) -> None:
        """Remove what was counted and timed under these labels: their object is gone, and one made anew starts at nothing."""
        for name, values in [each for each in self._counts if _has(COUNTERS[each[0]], each[1], labels)]:
            del self._counts[name, values]
            self._counters[name].remove(*values)
        for name, values in [each for each in self._times if _has(HISTOGRAMS[each[0]], each[1], labels)]:
            del self._times[name, values]
            self._histograms[name].remove(*values)

    def show(self, owner: Hashable, values: Mapping[Series, float]) -> None:
        """Set all gauges that tell about `owner`; those it had before and has no more disappear."""
        before = self._shown.pop(owner, {})
        for series in before:
            if series not in values:
                self._gauges[series[0]].remove(*self._written.pop(series))
        for series, value in values.items():
            if before.get(series) != value:
                self._set(series, value)
        if values:
            self._shown[owner] = values

    def _set(self, series: Series, value: float) -> None:
        name, labels = series
        now, before = self._values(name, GAUGES[name], labels), self._written.get(series)
        if before is not None and before != now:
            self._gauges[name].remove(*before)
        self._written[series] = now
        self._gauges[name].labels(*now).set(value)

    def relabel(self) -> None:
        """What gauges are labelled with may have changed. What was counted stays under the labels it was counted under."""
        for values in list(self._shown.values()):
            for series, value in values.items():
                if self._written[series] != self._values(series[0], GAUGES[series[0]], series[1]):
                    self._set(series, value)

    def keep(self, owner: Hashable, kept: Collection[str]) -> None:
        """Remove the gauges that tell about `owner`, except those of these names."""
        before = self._shown.get(owner, {})
        self.show(owner, {series: value for series, value in before.items() if series[0] in kept})

    # What happens to workloads

    def workload_created(self, framework: str, workload: Obj, job_created: float, now: float) -> None:
        queue = wl.local_queue_key(workload)
        self.observe("kueue_workload_creation_latency_seconds", now - job_created, framework, queue=queue)

    def _twice(self, name: str, workload: Obj, seconds: float | None = None) -> None:
        """Count or time for the ClusterQueue and, if wanted, for the LocalQueue."""
        queue, cls = wl.cluster_queue_of(workload), class_of(workload)
        local_name = f"kueue_local_queue_{name.removeprefix('kueue_')}"
        local = (wl.queue_of(workload), namespace_of(workload), cls)
        shows_local = self.shows_local(wl.local_queue_key(workload))
        # A series of no ClusterQueue would stay for ever: series go with their queue.
        if seconds is None:
            if queue:
                self.count(name, queue, cls)
            if shows_local:
                self.count(local_name, *local)
        else:
            if queue:
                self.observe(name, seconds, queue, cls)
            if shows_local:
                self.observe(local_name, seconds, *local)

    def quota_reserved(self, workload: Obj, queued_at: float, now: float) -> None:
        self._twice("kueue_quota_reserved_workloads_total", workload)
        self._twice("kueue_quota_reserved_wait_time_seconds", workload, now - queued_at)

    def admitted(self, workload: Obj, queued_at: float, now: float) -> None:
        self._twice("kueue_admitted_workloads_total", workload)
        self._twice("kueue_admission_wait_time_seconds", workload, now - queued_at)
        for cohort in self.ancestors(wl.cluster_queue_of(workload)):
            self.count("kueue_cohort_subtree_admitted_workloads_total", cohort, class_of(workload))
        if wl.check_states_of(workload):
            reserved_at = transition_time(workload, names.QUOTA_RESERVED) or now
            self._twice("kueue_admission_checks_wait_time_seconds", workload, now - reserved_at)

    def pods_ready(self, workload: Obj, now: float) -> None:
        self._twice("kueue_ready_wait_time_seconds", workload, now - queued_since(workload))
        admitted_at = transition_time(workload, names.ADMITTED) or now
        self._twice("kueue_admitted_until_ready_wait_time_seconds", workload, now - admitted_at)

    def evicted(self, workload: Obj, reason: str, cause: str, now: float) -> None:
        """`workload` is as written, its statistics already counting this eviction. Only who held quota is counted."""
        queue, cls = wl.cluster_queue_of(workload), class_of(workload)
        if not queue:
            return
        self.count("kueue_evicted_workloads_total", queue, reason, cause, cls)
        if self.shows_local(wl.local_queue_key(workload)):
            local = (wl.queue_of(workload), namespace_of(workload))
            self.count("kueue_local_queue_evicted_workloads_total", *local, reason, cause, cls)
        if _evictions(workload, reason, cause) == 1:
            self.count("kueue_evicted_workloads_once_total", queue, reason, cause, cls)
        if conditions.is_true(workload, names.PODS_READY):
            ready_at = transition_time(workload, names.PODS_READY) or now
            self.observe("kueue_pods_ready_to_evicted_time_seconds", now - ready_at, queue, reason, cause)

    def released(self, workload: Obj, queue: str, reason: str, now: float) -> None:
        evicted_at = transition_time(workload, names.EVICTED) or now
        self.observe("kueue_workload_eviction_latency_seconds", now - evicted_at, queue, reason)

    def preempted(self, preempting_queue: str, reason: str) -> None:
        self.count("kueue_preempted_workloads_total", preempting_queue, reason)

    def skipped_preemptions(self, queue: str, skips: int | None) -> None:
        """None when the ClusterQueue is gone."""
        series = ("kueue_admission_cycle_preemption_skips", (queue,))
        self.show(series, {} if skips is None else {series: skips})

    def finished(self, workload: Obj) -> None:
        self._twice("kueue_finished_workloads_total", workload)

    def workload_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Keeps the number of finished workloads that still exist."""
        for workload, by in ((old, -1), (new, 1)):
            if workload is None or not wl.is_finished(workload):
                continue
            for key in (Key("", wl.cluster_queue_of(workload)), wl.local_queue_key(workload)):
                self._finished[key] += by
                if not self._finished[key]:
                    del self._finished[key]

    def finished_in(self, queue: Key) -> int:
        """Finished workloads of a ClusterQueue or LocalQueue that still exist."""
        return self._finished[queue]


def _has(metric: Metric, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    held = dict(zip(metric.labels, values, strict=False))  # our role, and what was configured, come after its own
    return all(held.get(name) == value for name, value in labels.items())


def class_of(workload: Obj) -> str:
    return str((spec_of(workload).get("priorityClassRef") or {}).get("name") or "")


def transition_time(workload: Obj, kind: str) -> float | None:
    entry = conditions.find(workload, kind)
    return parse_time(entry["lastTransitionTime"]) if entry else None


def queued_since(workload: Obj) -> float:
    """When its current wait began: creation, or the last time it was queued again."""
    requeued = conditions.find(workload, names.REQUEUED)
    if requeued is not None and requeued.get("status") == "True":
        return parse_time(requeued["lastTransitionTime"])
    return parse_time(metadata_of(workload)["creationTimestamp"])


def _evictions(workload: Obj, reason: str, cause: str) -> int:
    for entry in (status_of(workload).get("schedulingStats") or {}).get("evictions") or []:
        if entry["reason"] == reason and entry.get("underlyingCause", "") == cause:
            return int(entry["count"])
    return 0
