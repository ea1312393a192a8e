"""Dispatch metrics: connections, copies, admissions and redispatches, by cluster and reason."""

from __future__ import annotations

from contextlib import suppress

from corral.runtime.metrics import Metrics


class DispatchMetrics:
    """The counters of one manager."""

    def __init__(self, metrics: Metrics) -> None:
        self._copies = metrics.counter("corral_dispatch_copies_total", "Workload copies made, by worker", ("cluster",))
        self._admitted = metrics.counter(
            "corral_dispatch_admitted_total", "Workloads admitted by a worker, by worker", ("cluster",)
        )
        self._redispatched = metrics.counter(
            "corral_dispatch_redispatched_total", "Workloads sent back for another worker", ("cluster", "reason")
        )
        self._seconds = metrics.histogram(
            "corral_dispatch_seconds", "From quota on the manager to admission by a worker", ("cluster",)
        )
        self._connected = metrics.gauge("corral_dispatch_connected", "Whether a worker can be reached", ("cluster",))
        self._changes = metrics.counter(
            "corral_dispatch_connection_changes_total",
            "Changes of a worker's Active condition, by the new reason",
            ("cluster", "reason"),
        )
        self._reasons: dict[str, str] = {}

    def connection(self, cluster: str, up: bool, reason: str) -> None:
        self._connected.labels(cluster).set(1.0 if up else 0.0)
        if self._reasons.get(cluster) != reason:
            self._reasons[cluster] = reason
            self._changes.labels(cluster, reason).inc()

    def gone(self, cluster: str) -> None:
        """A cluster that is no worker any more has no state."""
        self._reasons.pop(cluster, None)
        with suppress(KeyError):
            self._connected.remove(cluster)

    def copied(self, cluster: str) -> None:
        self._copies.labels(cluster).inc()

    def admitted(self, cluster: str, seconds: float) -> None:
        self._admitted.labels(cluster).inc()
        self._seconds.labels(cluster).observe(seconds)

    def redispatched(self, cluster: str, reason: str) -> None:
        """A Workload was taken from a worker, or handed back by all of them (`cluster` is empty), for a one-word reason."""
        self._redispatched.labels(cluster, reason).inc()
