"""What a scheduling cycle decided, as values a controller can act on without thinking again.

Decisions come in the order they were taken. Applying them in that order, one status write each, gives the same
outcome as upstream's scheduler. Texts are the ones users see in conditions and events.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from corral.core.meta import Key, Obj
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.values import Amounts, TopologyAssignment
from corral.decide.queueing.topology.encoding import encode_assignment

REASON_PHRASES = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "": "UNKNOWN",
}


class PodSetAssignment(msgspec.Struct, frozen=True):
    """The quota one pod set was given."""

    name: str
    count: int
    flavors: dict[str, str]
    requests: Amounts
    topology: TopologyAssignment | None = None
    delayed_topology: str = ""

    def to_api(self) -> Obj:
        """The entry of `status.admission.podSetAssignments`."""
        assignment: Obj = {
            "name": self.name,
            "flavors": dict(self.flavors),
            "resourceUsage": {name: format_amount(name, self.requests.get(name, 0)) for name in self.flavors},
            "count": self.count,
        }
        if self.topology is not None:
            assignment["topologyAssignment"] = encode_assignment(self.topology)
        if self.delayed_topology:
            assignment["delayedTopologyRequest"] = self.delayed_topology
        return assignment


class Admit(msgspec.Struct, frozen=True):
    """Reserve quota for a workload; the state already counts it as reserved."""

    key: Key
    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]
    checks: tuple[str, ...] = ()
    """Admission checks it has to pass with these flavors; none means it is admitted at once."""
    borrows: int = 0
    """0 when the queue's own quota covers it, else how high in the cohort tree the quota comes from."""
    considered: str = ""
    """`Flavors considered: …`, the end of the QuotaReserved event; empty when the first flavor was taken."""
    replaces: Key | None = None
    """A workload slice to finish as replaced once this admission is written."""
    second_pass: bool = False
    """It already holds its quota; only the topology assignment is new."""

    @property
    def admission(self) -> Obj:
        """`status.admission` to write."""
        return {"clusterQueue": self.cluster_queue, "podSetAssignments": [entry.to_api() for entry in self.pod_sets]}


class Victim(msgspec.Struct, frozen=True):
    """A workload to evict, with the text of its conditions."""

    key: Key
    uid: str
    cluster_queue: str
    reason: str
    """Reason of the Preempted condition."""
    message: str
    event: str
    """Message of the Preempted event."""
    preemptor_event: str
    """Message of the PreemptedWorkload event on the preemptor."""
    ongoing: bool = False
    """Already evicted, or its eviction was planned before: nothing to write."""


class Preempt(msgspec.Struct, frozen=True):
    """Evict victims so that a workload fits in a later cycle; it stays pending meanwhile."""

    key: Key
    cluster_queue: str
    victims: tuple[Victim, ...]
    message: str
    """QuotaReserved=False message of the preemptor once all evictions are issued."""
    explanation: str
    """Why it needs them."""
    requests: tuple[tuple[str, Amounts], ...] = ()
    reason: str = "Pending"
    """Reason of the preemptor's QuotaReserved=False."""

    def outcome(self, issued: int, failed: int) -> str:
        """The message when only so many evictions were issued; without any, victims may have left on their own."""
        if issued:
            return f"{self.explanation}. Pending the preemption of {issued} workload(s)"
        if failed:
            return f"{self.explanation}. Preempting {failed} workload(s) failed, will retry."
        return self.explanation


class Wait(msgspec.Struct, frozen=True):
    """A workload that was considered and has to wait."""

    key: Key
    cluster_queue: str
    reason: str
    """Reason of QuotaReserved=False."""
    message: str
    requests: tuple[tuple[str, Amounts], ...] = ()
    """Effective requests per pod set, for `status.resourceRequests`."""
    blocked_on_gate: bool = False
    """Also set BlockedOnPreemptionGates=True."""
    second_pass: bool = False
    """It keeps its quota; only a place on nodes is missing. Upstream tells by a SecondPassFailed event, no condition."""
    preempting: bool = False
    """It waits for those it preempts to leave."""
    cause: str = ""
    """Why it was requeued, upstream's name: NoFit, PreemptionNoCandidates, NamespaceMismatch …"""

    @property
    def resource_requests(self) -> list[Obj]:
        return [
            {
                "name": name,
                "resources": {resource: format_amount(resource, amount) for resource, amount in amounts.items()},
            }
            for name, amounts in self.requests
        ]


class Evict(msgspec.Struct, frozen=True):
    """Evict a running workload for a reason that is not preemption."""

    key: Key
    reason: str
    message: str
    detail: str = ""
    """What was tried first; the message of a SecondPassFailed event when the eviction cannot be written."""


Decision = Admit | Preempt | Wait | Evict


def _concerned(decision: Decision) -> list[Key]:
    """The Workloads that carrying out a decision writes."""
    if isinstance(decision, Preempt):
        return [decision.key, *(victim.key for victim in decision.victims)]
    if isinstance(decision, Admit) and decision.replaces is not None:
        return [decision.key, decision.replaces]
    return [decision.key]


class CyclePlan(msgspec.Struct, frozen=True):
    """All decisions of one call, in order."""

    decisions: tuple[Decision, ...] = ()
    rounds: int = 0
    skipped_preemptions: dict[str, int] = {}
    """Per ClusterQueue, entries that needed preemption but had to wait for another one (a metric)."""
    more: bool = False
    """The bound on rounds was hit; plan again at once."""
    next_at: float | None = None
    """Earliest time at which a waiting back-off ends; plan again then even if nothing happens."""

    def stages(self) -> list[list[Decision]]:
        """The decisions in groups to be written one after the other; within a group no Workload is concerned twice.

        A Workload admitted in one round may be the victim of a later one: its eviction can only follow its admission.
        """
        result: list[list[Decision]] = []
        next_free: dict[Key, int] = {}
        for decision in self.decisions:
            concerned = _concerned(decision)
            stage = max(next_free.get(key, 0) for key in concerned)
            if stage == len(result):
                result.append([])
            result[stage].append(decision)
            next_free.update(dict.fromkeys(concerned, stage + 1))
        return result

    @property
    def admissions(self) -> Iterator[Admit]:
        return (decision for decision in self.decisions if isinstance(decision, Admit))

    @property
    def preemptions(self) -> Iterator[Preempt]:
        return (decision for decision in self.decisions if isinstance(decision, Preempt))

    @property
    def waiting(self) -> Iterator[Wait]:
        return (decision for decision in self.decisions if isinstance(decision, Wait))

    @property
    def evictions(self) -> Iterator[Evict]:
        return (decision for decision in self.decisions if isinstance(decision, Evict))
