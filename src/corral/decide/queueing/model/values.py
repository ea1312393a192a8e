"""The values queueing decides on: queues, cohorts, flavors, nodes and workloads, decoded once and never mutated.

Amounts are integers per resource: thousandths for cpu, whole units for everything else. Limits that are not set are
None. `decode` builds these values from API objects; nothing below it reads a JSON dict again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from corral.core.meta import Key, Obj
from corral.core.selectors import Selector

Amounts = dict[str, int]
"""Amount per resource name."""


class FlavorResource(NamedTuple):
    """One column of a quota table."""

    flavor: str
    resource: str


Usage = dict[FlavorResource, int]
"""Amount per flavor and resource."""


class ResourceQuota(msgspec.Struct, frozen=True):
    """What one node of the quota tree owns of one flavor and resource."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


NO_QUOTA = ResourceQuota()


class ResourceGroup(msgspec.Struct, frozen=True):
    """Resources that are always assigned from the same flavor; `flavors` is the order of preference."""

    covered: tuple[str, ...]
    flavors: tuple[str, ...]


class PreemptionPolicy(msgspec.Struct, frozen=True):
    """Whom a ClusterQueue may evict; values are those of the API."""

    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: str = "Never"
    max_priority_threshold: int | None = None


class Fungibility(msgspec.Struct, frozen=True):
    """When the search for a flavor goes on although one was found."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class CheckRule(msgspec.Struct, frozen=True):
    """An admission check a ClusterQueue asks for; no flavors means all of them."""

    name: str
    on_flavors: tuple[str, ...] = ()


class ClusterQueueSpec(msgspec.Struct, frozen=True):
    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: dict[FlavorResource, ResourceQuota] = {}
    strict_fifo: bool = False
    namespace_selector: Selector | None = None
    """None selects no namespace at all."""
    fungibility: Fungibility = Fungibility()
    preemption: PreemptionPolicy = PreemptionPolicy()
    checks: tuple[CheckRule, ...] = ()
    stop_policy: str = "None"
    weight: float = 1.0
    admission_fair_sharing: bool = False
    concurrent_admission: str = ""
    last_acceptable_flavor: str = ""
    deleting: bool = False

    @property
    def flavors(self) -> list[str]:
        """All flavors, in the order of the spec."""
        return list(dict.fromkeys(flavor for group in self.groups for flavor in group.flavors))


class CohortSpec(msgspec.Struct, frozen=True):
    name: str
    parent: str = ""
    quotas: dict[FlavorResource, ResourceQuota] = {}
    weight: float = 1.0


class LocalQueueSpec(msgspec.Struct, frozen=True):
    key: Key
    cluster_queue: str
    stop_policy: str = "None"
    weight: float = 1.0
    consumed: Amounts = {}
    """Usage history as persisted in the status, in billionths for every resource."""
    consumed_at: float | None = None
    deleting: bool = False

    @property
    def is_open(self) -> bool:
        """May workloads wait in it?"""
        return self.stop_policy == "None" and not self.deleting


class Taint(msgspec.Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        # The form in which upstream prints a taint inside a message.
        return f"{{{self.key} {self.value} {self.effect} <nil>}}"


class Toleration(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        if self.operator in ("Lt", "Gt"):
            return _compares(self.operator, self.value, taint.value)
        return self.value == taint.value and bool(self.key)


def _compares(operator: str, bound: str, value: str) -> bool:
    try:
        return int(value) < int(bound) if operator == "Lt" else int(value) > int(bound)
    except ValueError:
        return False


class FlavorSpec(msgspec.Struct, frozen=True):
    name: str
    node_labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    deleting: bool = False


class TopologySpec(msgspec.Struct, frozen=True):
    name: str
    levels: tuple[str, ...]
    """Node label keys, widest domain first."""


class NodeSpec(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts = {}
    ready: bool = True
    unschedulable: bool = False


class PodUsage(msgspec.Struct, frozen=True):
    """A bound pod that no topology assignment accounts for."""

    key: Key
    node: str
    requests: Amounts


class AdmissionCheckSpec(msgspec.Struct, frozen=True):
    name: str
    controller: str = ""
    active: bool = False


class Requirement(msgspec.Struct, frozen=True):
    """One `matchExpressions` entry of a node affinity term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class PodConstraints(msgspec.Struct, frozen=True):
    """What a pod template says about the nodes it may run on."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity_terms: tuple[tuple[Requirement, ...], ...] = ()
    """Required terms; any of them suffices. A term that cannot match anything is an empty tuple."""
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    """Preferred terms with their weights, where preferences count."""


UNCONSTRAINED = PodConstraints()


class SliceLayer(msgspec.Struct, frozen=True):
    topology: str
    size: int


class TopologyRequest(msgspec.Struct, frozen=True):
    """How the pods of a pod set ask to be placed."""

    required: str = ""
    preferred: str = ""
    unconstrained: bool = False
    group: str = ""
    slices: tuple[SliceLayer, ...] = ()
    """Outermost first; one entry unless nested slices are asked for."""

    @property
    def explicit(self) -> bool:
        return bool(self.required or self.preferred or self.unconstrained or self.slices)


class TopologyDomain(NamedTuple):
    """So many pods in the domain with these label values."""

    values: tuple[str, ...]
    pods: int


class TopologyAssignment(msgspec.Struct, frozen=True):
    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...]


class PodSetInfo(msgspec.Struct, frozen=True):
    """One pod set as the scheduler sees it."""

    name: str
    count: int
    """Pods that need quota: the spec's count (or the admitted one) without those already reclaimable."""
    spec_count: int
    min_count: int | None
    per_pod: Amounts
    """Effective requests of one pod, transformations applied."""
    requests: Amounts
    """`per_pod` times `count`, or what the admission recorded, scaled to `count`."""
    pod_requests: Amounts = {}
    """Requests of one pod as nodes see them: overhead included, no transformations."""
    constraints: PodConstraints = UNCONSTRAINED
    topology: TopologyRequest | None = None
    flavors: dict[str, str] = {}
    """Flavor per resource when quota is reserved."""
    topology_assignment: TopologyAssignment | None = None
    delayed_topology: str = ""

    def scaled_to(self, count: int) -> Amounts:
        """Requests for `count` pods."""
        if count == self.count:
            return self.requests
        return {name: amount * count for name, amount in self.per_pod.items()}


class WorkloadInfo(msgspec.Struct, frozen=True):
    """A Workload decoded: what it asks for, and how far it got."""

    key: Key
    uid: str
    queue: str
    priority: int
    """Effective: base plus boost."""
    base_priority: int
    created: float
    order_time: float
    """Position among equals: creation, or the eviction that sent it to the back."""
    pod_sets: tuple[PodSetInfo, ...]
    shape: Any
    """Equal for workloads that every queue treats alike; hashable."""
    active: bool = True
    reserving: bool = False
    admitted: bool = False
    finished: bool = False
    evicted: bool = False
    evicted_reason: str = ""
    deleting: bool = False
    cluster_queue: str = ""
    """The ClusterQueue that holds its reservation, else empty."""
    reserved_at: float | None = None
    requeue_at: float | None = None
    requeue_blocked: bool = False
    """Requeued=False: wait until something sets it to True."""
    on_hold: str = ""
    """Why it must not enter a queue although active: a gate annotation or a zero-size owner."""
    check_states: dict[str, str] = {}
    gated_preemption: bool = False
    pods_ready: bool = False
    replaces: Key | None = None
    """The workload slice this one takes over from."""
    elastic: bool = False
    allowed_flavors: frozenset[str] | None = None
    variant_of: str = ""
    """Uid of the workload this one is a variant of, under concurrent admission."""
    variant_flavor: str = ""
    unhealthy_nodes: tuple[str, ...] = ()
    owned_by_pod: bool = False
    """Made for one plain pod, which cannot run anywhere else than where it runs."""
    invalid: str = ""
    """Why its requests can never be admitted (requests above limits, limit ranges)."""
    uses_devices: bool = False
    uncounted: str = ""
    """Why its devices cannot be counted, which keeps it out of the queues."""
    needs_second_pass: bool = False
    job_uid: str = ""
    version: int = 0
    """Resource version as a number, 0 when it is not one."""
    obj: Obj = {}

    @property
    def failed_checks(self) -> bool:
        states = self.check_states.values()
        return "Retry" in states or "Rejected" in states

    @property
    def queue_key(self) -> str:
        """`namespace/name` of its LocalQueue."""
        return f"{self.key.namespace}/{self.queue}"

    @property
    def usage(self) -> Usage:
        """Quota it holds per flavor and resource; empty without a reservation."""
        usage: Usage = {}
        for pod_set in self.pod_sets:
            for resource, flavor in pod_set.flavors.items():
                amount = pod_set.requests.get(resource, 0)
                column = FlavorResource(flavor, resource)
                usage[column] = usage.get(column, 0) + amount
        return usage


class Namespace(NamedTuple):
    name: str
    labels: Mapping[str, str]
