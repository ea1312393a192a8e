"""`metrics.customLabels`: labels and annotations of queues and Workloads that become labels of their metrics.

How many there may be, and of which Workloads' values, is bounded as upstream bounds it: every value is a series of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from corral.configuration.part import ConfigurationError
from corral.core.meta import Obj, annotations_of, labels_of
from corral.core.names import check_qualified_name

CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD = "ClusterQueue", "Cohort", "LocalQueue", "Workload"
UNTRACKED = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""What a metric says in place of a value that is not among those it is to tell apart."""
PREFIX = "custom_"
PATH = "metrics.customLabels"

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_MOST = {WORKLOAD: 2, LOCAL_QUEUE: 6, CLUSTER_QUEUE: 6, COHORT: 6}
_MOST_LABELS, _MOST_VALUES, _MOST_VALUES_OF_WORKLOADS = 20, 16, 12
_FIELDS = ("name", "sourceLabelKey", "sourceAnnotationKey", "sourceKind", "trackedValues")


@dataclass(frozen=True, slots=True)
class CustomLabel:
    """One label of metrics, and where its value is read."""

    name: str
    kind: str = CLUSTER_QUEUE
    label: str = ""
    annotation: str = ""
    tracked: tuple[str, ...] = ()

    @property
    def metric_label(self) -> str:
        return PREFIX + self.name

    def value_of(self, obj: Obj | None) -> str:
        """What the metrics of an object say; nothing for one that is gone."""
        if obj is None:
            return ""
        value = annotations_of(obj).get(self.annotation, "") if self.annotation else labels_of(obj).get(self.label, "")
        return value if not self.tracked or value in self.tracked else UNTRACKED


def custom_labels(entries: Sequence[Any]) -> tuple[CustomLabel, ...]:
    """The labels in the order they were configured. Raises ConfigurationError."""
    found = tuple(_label(f"{PATH}[{number}]", entry) for number, entry in enumerate(entries))
    for fault in _faults(found):
        raise ConfigurationError(fault)
    return found


def of_kind(labels: Iterable[CustomLabel], *kinds: str) -> tuple[CustomLabel, ...]:
    """Those that are read from these kinds, in the order of the kinds' names, as upstream has them on its metrics."""
    return tuple(label for kind in sorted(kinds) for label in labels if label.kind == kind)


def _label(path: str, entry: Any) -> CustomLabel:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ConfigurationError(f"{path}: expected a mapping with a name, got {entry!r}")
    if unknown := sorted(set(entry) - set(_FIELDS)):
        raise ConfigurationError(f"{path}: unknown field {unknown[0]!r}; there are {', '.join(_FIELDS)}")
    name, tracked = entry["name"], entry.get("trackedValues") or []
    if not isinstance(tracked, list) or not all(isinstance(value, str) for value in tracked):
        raise ConfigurationError(f"{path}.trackedValues: expected a list of texts, got {tracked!r}")
    annotation = entry.get("sourceAnnotationKey") or ""
    label = entry.get("sourceLabelKey") or ("" if annotation else name)
    found = CustomLabel(name, entry.get("sourceKind") or CLUSTER_QUEUE, label, annotation, tuple(tracked))
    for fault in _faults_of(found):
        raise ConfigurationError(f"{path}{fault}")
    return found


def _faults_of(found: CustomLabel) -> Iterator[str]:
    """What is wrong with one label, with the rest of its path."""
    if not _NAME.fullmatch(found.name):
        yield f".name: Invalid value: {found.name!r}: must match ^{_NAME.pattern}$"
    if found.label and found.annotation:
        yield ": sourceLabelKey and sourceAnnotationKey are mutually exclusive"
    where = "sourceAnnotationKey" if found.annotation else "sourceLabelKey" if found.label != found.name else "name"
    for text in check_qualified_name(found.annotation or found.label):
        yield f".{where}: Invalid value: {found.annotation or found.label!r}: {text}"
    if found.kind not in _MOST:
        yield f".sourceKind: Unsupported value: {found.kind!r}: supported values: {', '.join(sorted(_MOST))}"
    if found.kind == WORKLOAD and not found.tracked:
        yield ".trackedValues: must not be empty when sourceKind is 'Workload'"
    most = _MOST_VALUES_OF_WORKLOADS if found.kind == WORKLOAD else _MOST_VALUES
    if len(found.tracked) > most:
        yield f".trackedValues: Too many: {len(found.tracked)}: must have at most {most} items"
    if len(set(found.tracked)) < len(found.tracked):
        yield ".trackedValues: must not contain duplicates"


def _faults(found: Sequence[CustomLabel]) -> Iterator[str]:
    """What is wrong with the labels together."""
    if len(found) > _MOST_LABELS:
        yield f"{PATH}: Too many: {len(found)}: must have at most {_MOST_LABELS} items"
    for name, count in Counter(label.name for label in found).items():
        if count > 1:
            yield f"{PATH}: Duplicate value: {name!r}"
    for kind, count in sorted(Counter(label.kind for label in found).items()):
        if count > _MOST[kind]:
            yield f"{PATH}: too many custom labels for source kind {kind}: found {count}, expected <= {_MOST[kind]}"
