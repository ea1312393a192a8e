"""The settings a Workload's life depends on: how long pods may take to get ready, how long ended Workloads are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from corral.kinds.kueue.gates import FeatureGates


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReady:
    """How long admitted workloads may take to get all pods ready, and what follows when they do not."""

    timeout_s: float = 1800.0
    recovery_timeout_s: float | None = 1800.0
    block_admission: bool = False
    order_by_eviction: bool = True
    backoff_limit: int | None = None
    backoff_base_s: int = 60
    backoff_max_s: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended Workloads are kept; None keeps them."""

    after_finished_s: float | None = None
    after_deactivated_s: float | None = None


class LifeSettings(Protocol):
    """The part of a cluster's configuration that the steps of a Workload's life look at."""

    @property
    def gates(self) -> FeatureGates: ...

    @property
    def wait_for_pods_ready(self) -> WaitForPodsReady | None: ...

    @property
    def retention(self) -> Retention: ...
