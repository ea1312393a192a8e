"""Admission checks a workload has to pass."""

from __future__ import annotations

from collections.abc import Sequence

from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.quota.cluster_queue import ClusterQueue


def required_checks(queue: ClusterQueue, pod_sets: Sequence[PodSetAssignment] | None = None) -> tuple[str, ...]:
    """Names of the checks; before flavors are known, only those that cover every flavor."""
    rules = queue.spec.checks
    if not rules:
        return ()
    if pod_sets is None:
        every = set(queue.spec.flavors)
        return tuple(rule.name for rule in rules if not rule.on_flavors or every <= set(rule.on_flavors))
    used = {flavor for entry in pod_sets for flavor in entry.flavors.values()}
    return tuple(rule.name for rule in rules if not rule.on_flavors or used & set(rule.on_flavors))
