"""Admission checks a workload has to pass."""

from __future__ import annotations

from collections.abc import Sequence

from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.workload.checks import is_required


def required_checks(queue: ClusterQueue, pod_sets: Sequence[PodSetAssignment] | None = None) -> tuple[str, ...]:
    """Names of the checks; `pod_sets` is None before flavors are known."""
    rules = queue.spec.checks
    if not rules:
        return ()
    every = queue.spec.flavors
    used = None if pod_sets is None else [flavor for entry in pod_sets for flavor in entry.flavors.values()]
    return tuple(rule.name for rule in rules if is_required(rule.on_flavors, every, used))
