"""Concurrent admission: one workload tried on several flavors at once, as variants that know their siblings.

Every variant may use one flavor; the order of the ClusterQueue's first resource group says which is preferred. A
variant does not start while a sibling on a better flavor runs; one that could start on a better flavor than its
running sibling has that one moved out of the way first, unless the queue's policy says the flavor is too far down.
"""

from __future__ import annotations

from corral.decide.queueing.cycle.checks import required_checks
from corral.decide.queueing.model.values import WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation

MORE_FAVORABLE = "A more favorable variant is already admitted"
BELOW_LAST_ACCEPTABLE = "Target flavor is below LastAcceptableFlavorName"
PENDING_MIGRATION = ". Pending the migration of 1 workload(s)"


def admitted_sibling(info: WorkloadInfo, queue: ClusterQueue, *, better: bool) -> Reservation | None:
    """An admitted variant of the same workload on a better (or worse) flavor."""
    mine = _preference(info, queue)
    if not info.variant_of or mine is None:
        return None
    for _, reservation in queue.ranked:
        other = reservation.info
        if other.variant_of != info.variant_of or other.key == info.key or not _is_admitted(reservation):
            continue
        theirs = _preference(other, queue)
        if theirs is not None and (theirs < mine if better else theirs > mine):
            return reservation
    return None


def _is_admitted(reservation: Reservation) -> bool:
    if reservation.assumed:
        return not required_checks(reservation.queue, reservation.pod_sets)
    return reservation.info.admitted


def may_migrate(info: WorkloadInfo, queue: ClusterQueue) -> bool:
    """Is the variant's flavor still one worth moving to?"""
    last, mine = queue.spec.last_acceptable_flavor, _preference(info, queue)
    if not last:
        return True
    flavors = queue.spec.groups[0].flavors
    return mine is not None and last in flavors and mine <= flavors.index(last)


def migration_message(info: WorkloadInfo) -> str:
    """Message of the Evicted condition of the sibling that makes way."""
    return f"Evicted to accommodate a workload (UID: {info.uid}) due to migration to more favorable resource flavor"


def _preference(info: WorkloadInfo, queue: ClusterQueue) -> int | None:
    if not queue.spec.groups or info.variant_flavor not in queue.spec.groups[0].flavors:
        return None
    return queue.spec.groups[0].flavors.index(info.variant_flavor)
