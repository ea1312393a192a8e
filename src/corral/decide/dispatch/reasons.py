"""Why workers do not take a Workload, in one line: workers with the same reason are named together."""

from __future__ import annotations

from collections.abc import Mapping


def grouped_reasons(reasons: Mapping[str, str]) -> str:
    """`worker1, worker2: why; worker3: another`; the empty name is for a reason that is no worker's."""
    workers: dict[str, list[str]] = {}
    for cluster in sorted(reasons):
        workers.setdefault(reasons[cluster], []).append(cluster)
    return "; ".join(f"{', '.join(names)}: {why}" if any(names) else why for why, names in workers.items())
