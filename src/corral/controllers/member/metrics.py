"""What a member agent counts, under upstream's names and labels."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.conditions import find
from corral.core.meta import Obj
from corral.decide.member.outcome import Outcome
from corral.runtime.metrics import Metrics

_APPLY_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class MemberMetrics:
    """Works and manifests by what became of them, and joining and leaving."""

    def __init__(self, metrics: Metrics) -> None:
        self._apply = metrics.histogram(
            "work_apply_time_seconds", "From the last change of a Work to its application", ("name",), _APPLY_S
        )
        self._works = metrics.counter(
            "fleet_work_processing_requests",
            "Looks at Works by their outcome",
            ("apply_status", "availability_status", "diff_reporting_status"),
        )
        self._manifests = metrics.counter(
            "fleet_manifest_processing_requests",
            "Looks at manifests by their outcome",
            (
                "apply_status",
                "availability_status",
                "diff_reporting_status",
                "drift_detection_status",
                "diff_detection_status",
            ),
        )
        # Upstream's names of these two do not end as the names of counters do.
        self._joins = metrics.gauge("join_result_counter", "Times the member joined its hub", ("result",))
        self._leaves = metrics.gauge("leave_result_counter", "Times the member left its hub", ("result",))

    def work(self, name: str, seconds: float, status: Obj, outcomes: Sequence[Outcome], *, report_diff: bool) -> None:
        """One look at a Work."""
        if not report_diff and (find(status.get("conditions") or [], "Applied") or {}).get("status") == "True":
            self._apply.labels(name).observe(max(0.0, seconds))
        reasons = [_reason(status.get("conditions") or [], kind) for kind in ("Applied", "Available", "DiffReported")]
        self._works.labels(*reasons).inc()
        by_ordinal = {
            entry.get("identifier", {}).get("ordinal"): entry for entry in status.get("manifestConditions") or ()
        }
        for outcome in outcomes:
            entry = by_ordinal.get(outcome.manifest.ordinal) or {}
            reasons = [
                _reason(entry.get("conditions") or [], kind) for kind in ("Applied", "Available", "DiffReported")
            ]
            drift, diff = ("Found" if found else "NotFound" for found in (outcome.drifts, outcome.diffs))
            self._manifests.labels(*reasons, "Skipped" if report_diff else drift, diff).inc()

    def joined(self, *, succeeded: bool) -> None:
        self._joins.labels("success" if succeeded else "failure").inc()

    def left(self, *, succeeded: bool) -> None:
        self._leaves.labels("success" if succeeded else "failure").inc()


def _reason(conditions: list[Obj], kind: str) -> str:
    entry = find(conditions, kind)
    return "Skipped" if entry is None else str(entry.get("reason") or "Unknown")
