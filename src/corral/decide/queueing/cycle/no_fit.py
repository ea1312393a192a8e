"""Why nothing fits, in the granular reasons of a waiting workload's condition."""

from __future__ import annotations

from corral.decide.queueing.cycle.assignment import Assignment, Attempt, Fit, Mode, PodSetChoice
from corral.decide.queueing.model.values import ResourceGroup
from corral.decide.queueing.quota.cluster_queue import ClusterQueue

NO_MATCHING_FLAVOR = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
WAITING_FOR_QUOTA = "WaitingForQuota"
TOPOLOGY_FAILED = "TopologyPlacementFailed"
_SEVERITY = {"": 0, TOPOLOGY_FAILED: 1, WAITING_FOR_QUOTA: 2, EXCEEDS_MAX_QUOTA: 3, NO_MATCHING_FLAVOR: 4}


def merge_attempts(known: dict[str, Attempt], new: list[Attempt], resource: str, group: ResourceGroup | None) -> None:
    """Keep per flavor the worst outcome over the resources of a pod set."""
    for attempt in new:
        old = known.get(attempt.flavor)
        if old is None:
            known[attempt.flavor] = attempt
            continue
        known[attempt.flavor] = Attempt(
            attempt.flavor,
            min(old.fit, attempt.fit),
            max(old.borrow, attempt.borrow),
            [*old.reasons, *attempt.reasons],
            worse_reason(old.reason, attempt.reason),
        )
    if not new or group is None:
        return
    tried = {attempt.flavor for attempt in new}
    for name, old in known.items():
        if name in group.flavors and name not in tried:
            missing = f"flavor {name} does not provide resource {resource}"
            known[name] = Attempt(name, Fit.NO_FIT, old.borrow, [*old.reasons, missing], NO_MATCHING_FLAVOR)


def worse_reason(one: str, other: str) -> str:
    return one if _SEVERITY[one] >= _SEVERITY[other] else other


def no_fit_reason(assignment: Assignment, queue: ClusterQueue) -> str:
    """The granular reason of a failed assignment: alternatives count by the mildest, necessities by the gravest."""
    overall = ""
    if assignment.mode is Mode.NO_FIT:
        for pod_set in assignment.pod_sets:
            if pod_set.mode is Mode.NO_FIT:
                for reason in _mildest_reasons(pod_set, queue):
                    overall = worse_reason(overall, reason)
    return overall


def _mildest_reasons(pod_set: PodSetChoice, queue: ClusterQueue) -> list[str]:
    """Per resource group, the mildest reason over the flavors that were tried."""
    if not pod_set.attempts:
        return [NO_MATCHING_FLAVOR]
    mildest: dict[int, str] = {}
    for number, attempt in enumerate(pod_set.attempts):
        if attempt.fit is not Fit.NO_FIT:
            continue
        groups = [index for index, group in enumerate(queue.spec.groups) if attempt.flavor in group.flavors]
        for index in groups or [-1 - number]:
            if index not in mildest or _SEVERITY[attempt.reason] < _SEVERITY[mildest[index]]:
                mildest[index] = attempt.reason
    return list(mildest.values())
