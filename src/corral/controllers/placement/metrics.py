"""What a hub counts, under upstream's names and labels, so that dashboards made for KubeFleet work unchanged."""

from __future__ import annotations

from corral.core.conditions import find
from corral.core.meta import Key, Obj, generation_of, key_of, spec_of, status_of
from corral.decide.placement.eviction import is_over
from corral.decide.placement.strategy import strategy_of
from corral.runtime.metrics import Metrics

_CYCLE_MS = (10, 50, 100, 500, 1000, 5000, 10_000, 50_000)
_APPROVAL_S = (60, 300, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
_UPDATING_S = (15, 30, 60, 120, 300, 600, 1800, 3600)


class PlacementMetrics:
    """Every object has one series at a time, which goes with it."""

    def __init__(self, metrics: Metrics) -> None:
        self._placements = metrics.gauge(
            "fleet_workload_placement_status_last_timestamp_seconds",
            "When a placement was last seen at the first condition that is not True, or complete",
            ("namespace", "name", "generation", "conditionType", "status", "reason"),
        )
        self._evictions = metrics.gauge(
            "fleet_workload_eviction_complete",
            "Whether an eviction has its answer",
            ("name", "isCompleted", "isValid"),
        )
        self._runs = metrics.gauge(
            "fleet_workload_update_run_status_last_timestamp_seconds",
            "When an update run was last seen in this state",
            ("namespace", "name", "state", "condition", "status", "reason", "failureType"),
        )
        self._approvals = metrics.histogram(
            "fleet_workload_update_run_approval_request_latency_seconds",
            "From a request for approval to its acceptance",
            ("namespace", "name", "taskType"),
            _APPROVAL_S,
        )
        self._updating = metrics.histogram(
            "fleet_workload_update_run_stage_cluster_updating_duration_seconds",
            "From the start of a stage until all its clusters are updated",
            ("namespace", "name"),
            _UPDATING_S,
        )
        self._cycles = metrics.histogram(
            "scheduling_cycle_duration_milliseconds",
            "How long deciding on a placement took",
            ("is_failed", "needs_requeue"),
            _CYCLE_MS,
        )
        self.workers = metrics.gauge("scheduling_active_workers", "Placements that are being decided on")
        self._shown: dict[tuple[str, str, Key], tuple[str, ...]] = {}

    def placement(self, prefix: str, placement: Obj, status: Obj, now: float) -> None:
        """How far a placement has come."""
        key, generation = key_of(placement), str(generation_of(placement))
        condition = first_open(prefix, placement, status)
        self._show("placement", prefix, key, self._placements, (key.namespace, key.name, generation, *condition), now)

    def forget_placement(self, prefix: str, key: Key) -> None:
        self._forget("placement", prefix, key, self._placements)

    def eviction(self, eviction: Obj) -> None:
        key = key_of(eviction)
        entries = status_of(eviction).get("conditions") or []
        valid = find(entries, "Valid")
        said = "unknown" if valid is None else str(valid["status"] == "True").lower()
        labels = (key.name, str(is_over(entries)).lower(), said)
        self._show("eviction", "", key, self._evictions, labels, 1.0)

    def run(self, run: Obj, status: Obj, now: float) -> None:
        """Where an update run stands: its last condition that matters."""
        key, entries = key_of(run), status.get("conditions") or []
        for kind in ("Succeeded", "Progressing", "Initialized"):
            if (entry := find(entries, kind)) is not None:
                failed = entry["status"] == "False" and entry["reason"].endswith("Failed")
                failure = ("Initialization" if kind == "Initialized" else "Execution") if failed else "none"
                state = str(spec_of(run).get("state") or "Initialize")
                labels = (key.namespace, key.name, state, kind, entry["status"], entry["reason"], failure)
                self._show("run", "", key, self._runs, labels, now)
                return

    def forget_run(self, key: Key) -> None:
        self._forget("run", "", key, self._runs)

    def approval(self, run: Key, when: str, seconds: float) -> None:
        self._approvals.labels(run.namespace, run.name, f"{when}Stage").observe(max(0.0, seconds))

    def stage(self, run: Key, seconds: float) -> None:
        self._updating.labels(run.namespace, run.name).observe(max(0.0, seconds))

    def cycle(self, seconds: float, *, failed: bool, again: bool) -> None:
        self._cycles.labels(str(failed).lower(), str(again).lower()).observe(seconds * 1000)

    def _show(self, what: str, prefix: str, key: Key, gauge: object, labels: tuple[str, ...], value: float) -> None:
        """Show one series for an object in place of the one before."""
        before = self._shown.get((what, prefix, key))
        if before is not None and before != labels:
            gauge.remove(*before)  # type: ignore[attr-defined]
        self._shown[what, prefix, key] = labels
        gauge.labels(*labels).set(value)  # type: ignore[attr-defined]

    def _forget(self, what: str, prefix: str, key: Key, gauge: object) -> None:
        labels = self._shown.pop((what, prefix, key), None)
        if labels is not None:
            gauge.remove(*labels)  # type: ignore[attr-defined]


def first_open(prefix: str, placement: Obj, status: Obj) -> tuple[str, str, str]:
    """Type, status and reason of the first condition that is not True for this generation; `Completed` when all are."""
    for step in ("Scheduled", *strategy_of(placement).steps):
        entry = find(status.get("conditions") or [], prefix + step)
        if entry is None or entry.get("observedGeneration") != generation_of(placement):
            return step, "nil", "nil"
        if entry["status"] != "True":
            return step, str(entry["status"]), str(entry["reason"])
    return "Completed", "True", "Completed"
