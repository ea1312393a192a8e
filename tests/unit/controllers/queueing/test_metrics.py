"""Every metric is in the reference with its labels, and the reference has no others."""

from __future__ import annotations

import re
from pathlib import Path

from corral.clusters.process.controllers_process import leads
from corral.controllers.dispatch.metrics import DispatchMetrics
from corral.controllers.member.metrics import MemberMetrics
from corral.controllers.placement.metrics import PlacementMetrics
from corral.controllers.queueing.metrics import COUNTERS, GAUGES, HISTOGRAMS, QueueingMetrics
from corral.runtime.metrics import Metrics

ROOT = Path(__file__).parents[4]
REFERENCE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(\w+)`[^|]*\| (counter|histogram|gauge) \| ([^|]*) \| [^|]+ \|$", re.MULTILINE)


def test_reference_is_complete() -> None:
    metrics = Metrics()
    QueueingMetrics(metrics)
    DispatchMetrics(metrics)
    PlacementMetrics(metrics)
    MemberMetrics(metrics)
    leads(metrics)
    declared = {
        (f"{family.name}_total" if family.type == "counter" else family.name, family.type)
        for family in metrics.registry.collect()
    }
    assert {(name, kind) for name, kind, _ in ROW.findall(REFERENCE)} == declared


def test_labels_of_queueing_metrics() -> None:
    documented = {name: labels for name, _, labels in ROW.findall(REFERENCE)}
    for name, metric in (COUNTERS | HISTOGRAMS | GAUGES).items():
        assert documented[name] == ", ".join(metric.labels)


def test_every_queueing_metric_is_set_somewhere() -> None:
    folder = ROOT / "src" / "corral" / "controllers" / "queueing"
    source = "".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    catalogue = re.compile(r'^    "(kueue_\w+)": Metric', re.MULTILINE)
    used = catalogue.sub("", source)
    composed = ("kueue_local_queue_", "kueue_cluster_queue_")
    for name in catalogue.findall(source):
        assert f'"{name}"' in used or name.startswith(composed), name


def test_creation_times_are_not_exported() -> None:
    metrics = Metrics()
    metrics.reconciles("c", "ok")
    assert b"_created" not in metrics.exposition()
