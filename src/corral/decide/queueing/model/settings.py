"""How this cluster wants its queueing done: the parts of the Kueue configuration that decisions depend on.

Feature gates are resolved into plain booleans here, once; algorithms read a field and never a gate registry. The
defaults are those of upstream's release.
"""

from __future__ import annotations

import msgspec

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"


class Transformation(msgspec.Struct, frozen=True):
    """One input resource turned into others; factors are exact fractions given as quantity texts."""

    input: str
    outputs: dict[str, str]
    retain: bool = True
    multiply_by: str = ""


class CounterSource(msgspec.Struct, frozen=True):
    """A counter that partitionable devices of a driver draw from; `selector` is CEL for the devices meant."""

    driver: str
    counter: str
    selector: str


class DeviceMapping(msgspec.Struct, frozen=True):
    """The name under which quota counts devices of some classes."""

    resource: str
    classes: tuple[str, ...]
    counters: tuple[CounterSource, ...] = ()


class AdmissionFairSharing(msgspec.Struct, frozen=True):
    """Usage-based order between the LocalQueues of one ClusterQueue."""

    half_life_s: float = 0.0
    sampling_interval_s: float = 300.0
    resource_weights: dict[str, float] = {}


class Features(msgspec.Struct, frozen=True):
    """Feature gates that change a decision, under readable names."""

    partial_admission: bool = True
    reclaimable_pods: bool = True
    priority_sorting_within_cohort: bool = True
    prioritize_preemptors: bool = False
    recompute_on_overlap: bool = False
    flavor_fungibility: bool = True
    preserve_scan_progress: bool = True
    fair_sharing_prioritize_non_borrowing: bool = True
    fair_sharing_preempt_within_nominal: bool = True
    priority_boost: bool = False
    preemption_gates: bool = False
    concurrent_admission: bool = False
    timestamp_preemption_buffer: bool = False
    granular_reasons: bool = False
    elastic_slices: bool = True
    elastic_slices_with_topology: bool = False
    scheduling_hash: bool = True
    topology: bool = True
    topology_recompute: bool = True
    topology_fail_fast: bool = True
    topology_profile_mixed: bool = True
    devices: bool = True
    devices_extended: bool = True
    devices_partitioned: bool = True
    devices_rejected_when_off: bool = True
    topology_balanced: bool = False
    topology_preferred_affinity: bool = False
    topology_overlapping_flavors: bool = True
    admission_gates: bool = True
    skip_pod_reassignment: bool = True


class QueueingSettings(msgspec.Struct, frozen=True):
    """Everything configurable that the pure code reads."""

    fair_sharing: bool = False
    fair_sharing_strategies: tuple[str, ...] = (FINAL_SHARE, INITIAL_SHARE)
    admission_fair_sharing: AdmissionFairSharing | None = None
    excluded_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    device_mappings: tuple[DeviceMapping, ...] = ()
    ignore_undeclared: bool = False
    eviction_timestamp: bool = True
    """Order by eviction time after a PodsReady timeout; False orders by creation."""
    block_on_pods_ready: bool = False
    """Admit one workload at a time until its pods are ready."""
    features: Features = Features()
    waits_for_victims: bool = True
    """Who fits only because another one's victims leave is admitted when they have left, not before."""
    victims_give_way: bool = True
    """Who was evicted to make room is not considered again before the one it made room for."""
    tells_other_cohorts: bool = True
    """Who waits in another cohort for places on the same nodes is looked at again when a workload leaves them."""
    samples_stopped_queues: bool = True
    """With admission fair sharing the usage of a LocalQueue is sampled also while it, or its ClusterQueue, is stopped."""
    requeue_batch_s: float = 0.0
    """How long news is collected before those who could not be admitted are looked at again; upstream waits a second."""
    max_rounds: int = 1000
    """Most upstream cycles run inside one plan; a bound on latency, not on throughput."""
    max_decisions: int = 1000
    """No further round starts once a plan holds this many decisions."""
