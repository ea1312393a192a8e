"""What `metrics.customLabels` adds to the metrics of queueing: whose labels a metric has, and what they say at the moment.

A metric about a LocalQueue, a ClusterQueue or a Cohort has the labels read from that; the count of admitted Workloads is
told apart by the Workloads' own as well. The values are those of the object as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from corral.configuration.metric_labels import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD, CustomLabel, of_kind
from corral.core.meta import Key, Obj
from corral.runtime.informer import Informer

BY_WORKLOAD = ("kueue_admitted_active_workloads",)
"""Metrics that are told apart by labels of Workloads too."""
OF_LOCAL_QUEUE = ("kueue_workload_creation_latency_seconds",)
"""Metrics of a LocalQueue that do not name it."""


def kind_of(metric: str, labels: Sequence[str]) -> str:
    """The kind of the object a metric tells about; empty where it tells about none."""
    if metric in OF_LOCAL_QUEUE or {"name", "namespace"} <= set(labels):
        return LOCAL_QUEUE
    if "cluster_queue" in labels or "preempting_cluster_queue" in labels:
        return CLUSTER_QUEUE
    return COHORT if "cohort" in labels else ""


class CustomValues:
    """The configured labels, and the objects they are read from."""

    def __init__(self, labels: Sequence[CustomLabel] = ()) -> None:
        self.labels = tuple(labels)
        self._objects: Mapping[str, Informer] = {}
        self._by_kind = {kind: of_kind(labels, kind) for kind in (CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD)}

    def __bool__(self) -> bool:
        return bool(self.labels)

    def read_from(self, cluster_queues: Informer, local_queues: Informer, cohorts: Informer) -> None:
        """Where the objects are found."""
        self._objects = {CLUSTER_QUEUE: cluster_queues, LOCAL_QUEUE: local_queues, COHORT: cohorts}

    def label_names(self, metric: str, labels: Sequence[str]) -> tuple[str, ...]:
        """The labels a metric has beside its own `labels`, in order."""
        kinds = [kind_of(metric, labels), *([WORKLOAD] if metric in BY_WORKLOAD else ())]
        return tuple(label.metric_label for label in of_kind(self.labels, *kinds))

    def of_metric(self, metric: str, labels: Mapping[str, str], queue: Key | None = None) -> tuple[str, ...]:
        """Their values for one series, but for those of Workloads; `queue` for a metric that does not name its LocalQueue."""
        kind = kind_of(metric, tuple(labels))
        wanted = self._by_kind.get(kind, ())
        if not wanted:
            return ()
        name = labels.get("cluster_queue") or labels.get("preempting_cluster_queue") or labels.get("cohort", "")
        local = queue or Key(labels.get("namespace", ""), labels.get("name", ""))
        objects = self._objects.get(kind)
        obj = objects.get(local if kind == LOCAL_QUEUE else Key("", name)) if objects is not None else None
        return tuple(label.value_of(obj) for label in wanted)

    def of_workload(self, workload: Obj) -> tuple[str, ...]:
        return tuple(label.value_of(workload) for label in self._by_kind[WORKLOAD])

    def tells_workloads_apart(self) -> bool:
        return bool(self._by_kind[WORKLOAD])

    def changed(self, kind: str, old: Obj, new: Obj) -> bool:
        """Whether what metrics say of an object has changed."""
        return any(label.value_of(old) != label.value_of(new) for label in self._by_kind[kind])

    def objects(self) -> Iterable[tuple[str, Informer]]:
        """The kinds that labels are read from, with their objects."""
        return ((kind, informer) for kind, informer in self._objects.items() if self._by_kind[kind])
