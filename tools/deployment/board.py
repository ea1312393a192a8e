"""The Grafana board: which panels, and what each of them shows."""

from __future__ import annotations

import json
from typing import NamedTuple

Panel = dict[str, object]
_WIDTH, _HEIGHT, _ACROSS = 12, 8, 2


class Shown(NamedTuple):
    """One panel: a title, a query, what its lines are called, and their unit."""

    title: str
    query: str
    legend: str
    unit: str = "short"


PANELS = (
    Shown(
        "Waiting workloads", "sum by (cluster_queue, status) (kueue_pending_workloads)", "{{cluster_queue}} {{status}}"
    ),
    Shown("Admitted workloads", "sum by (cluster_queue) (kueue_admitted_active_workloads)", "{{cluster_queue}}"),
    Shown(
        "Wait for admission, 95 of 100",
        "histogram_quantile(0.95, sum by (le, cluster_queue) (rate(kueue_admission_wait_time_seconds_bucket[10m])))",
        "{{cluster_queue}}",
        "s",
    ),
    Shown(
        "Evictions",
        "sum by (cluster_queue, reason) (rate(kueue_evicted_workloads_total[10m]))",
        "{{cluster_queue}} {{reason}}",
        "ops",
    ),
    Shown(
        "Quota in use",
        "sum by (cluster_queue, resource) (kueue_cluster_queue_resource_usage)"
        " / sum by (cluster_queue, resource) (kueue_cluster_queue_nominal_quota)",
        "{{cluster_queue}} {{resource}}",
        "percentunit",
    ),
    Shown("Weighted share", "kueue_cluster_queue_weighted_share", "{{cluster_queue}}"),
    Shown("Workers connected", "corral_dispatch_connected", "{{cluster}}"),
    Shown("Admitted by workers", "sum by (cluster) (rate(corral_dispatch_admitted_total[10m]))", "{{cluster}}", "ops"),
    Shown(
        "From quota to admission by a worker, 95 of 100",
        "histogram_quantile(0.95, sum by (le, cluster) (rate(corral_dispatch_seconds_bucket[10m])))",
        "{{cluster}}",
        "s",
    ),
    Shown(
        "Sent back by workers",
        "sum by (cluster, reason) (rate(corral_dispatch_redispatched_total[10m]))",
        "{{cluster}} {{reason}}",
        "ops",
    ),
    Shown(
        "Reconciles",
        "sum by (controller, result) (rate(corral_reconcile_total[5m]))",
        "{{controller}} {{result}}",
        "ops",
    ),
    Shown(
        "Attempts to admit, 95 of 100",
        "histogram_quantile(0.95, sum by (le, result) (rate(kueue_admission_attempt_duration_seconds_bucket[10m])))",
        "{{result}}",
        "s",
    ),
)


def board() -> str:
    """The board as Grafana imports it."""
    document = {
        "title": "Corral",
        "uid": "corral",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, shown) for number, shown in enumerate(PANELS)],
    }
    return json.dumps(document, indent=1) + "\n"


def _panel(number: int, shown: Shown) -> Panel:
    row, column = divmod(number, _ACROSS)
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": shown.title,
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": shown.unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": shown.query, "legendFormat": shown.legend}],
    }
