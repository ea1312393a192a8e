"""What status objects, dashboards and `corral explain` show of the queueing state."""

from __future__ import annotations

import msgspec

from corral.core.meta import Key, Obj


class ClusterQueueView(msgspec.Struct, frozen=True):
    """Numbers of a ClusterQueue's status."""

    pending: int
    active_pending: int
    """Those that will be tried without further events."""
    reserving: int
    admitted: int
    flavors_reservation: list[Obj]
    flavors_usage: list[Obj]
    weighted_share: int
    """0 unless fair sharing is on; 2^63-1 for a borrowing queue of weight zero."""
    reason: str
    message: str
    root_cohort: str = ""
    """The top of the tree it is in."""
    pending_requests: tuple[tuple[str, str], ...] = ()
    """What those that wait ask for together, by resource."""

    @property
    def active(self) -> bool:
        return self.reason == "Ready"


class LocalQueueView(msgspec.Struct, frozen=True):
    """Numbers of a LocalQueue's status."""

    pending: int
    reserving: int
    admitted: int
    flavors_reservation: list[Obj]
    flavors_usage: list[Obj]
    active: bool
    reason: str
    message: str
    usage_share: float = 0.0
    """Usage under admission fair sharing."""


class CohortView(msgspec.Struct, frozen=True):
    weighted_share: int
    subtree_quota: list[Obj]
    subtree_usage: list[Obj]
    broken: bool
    """Part of a cycle."""
    parent: str = ""
    root: str = ""
    """The top of the tree, itself when nothing is above it."""
    subtree_reserved: tuple[tuple[str, str, str], ...] = ()
    """Flavor, resource and how much of it the queues below hold."""
    subtree_admitted: int = 0
    """Admitted workloads of the queues below."""


class PendingView(msgspec.Struct, frozen=True):
    """A waiting workload and its place."""

    key: Key
    uid: str
    local_queue: str
    priority: int
    created: float
    position_in_cluster_queue: int
    position_in_local_queue: int


class Shortage(msgspec.Struct, frozen=True):
    """One column of quota a workload waits for."""

    flavor: str
    resource: str
    requested: str
    available: str
    maximum: str
    """The most the queue could ever use."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a workload is where it is."""

    key: Key
    state: str
    """finished, admitted, quotaReserved, pending, or inadmissible."""
    cluster_queue: str
    position: int | None
    """0-based place in its ClusterQueue while pending."""
    reason: str
    message: str
    blocked_by: tuple[Key, ...] = ()
    """Workloads ahead of it that keep a StrictFIFO queue, or that it preempts and waits for."""
    shortages: tuple[Shortage, ...] = ()
