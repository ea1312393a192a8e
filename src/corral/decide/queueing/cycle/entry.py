"""A workload on its way through a round."""

from __future__ import annotations

from corral.core.budget import SET_ASIDE
from corral.decide.queueing.cycle.assignment import Assignment
from corral.decide.queueing.cycle.preemption.candidates import Target
from corral.decide.queueing.model.values import Amounts, Usage, WorkloadInfo
from corral.decide.queueing.queue.pending import Pending, WaitVerdict
from corral.decide.queueing.quota.cluster_queue import ClusterQueue


class Entry:
    """The head of a queue on its way through a round."""

    __slots__ = (
        "assignment",
        "cause",
        "cost",
        "info",
        "is_reported",
        "item",
        "message",
        "queue",
        "reason",
        "targets",
        "usage",
    )

    def __init__(self, item: Pending, queue: ClusterQueue) -> None:
        self.item = item
        self.info: WorkloadInfo = item.info
        self.queue = queue
        self.assignment: Assignment | None = None
        self.targets: list[Target] = []
        self.cost = 0.0
        """What looking for its place has cost, in seconds of the processor."""
        self.message = ""
        self.cause = "Generic"
        """Why it is requeued, which decides when it is tried again."""
        self.reason = ""
        """Granular reason of the condition."""
        self.is_reported = False
        """Its message is part of another decision already."""
        self.usage: Usage = {}
        """Quota the admission would add; nothing on a second pass."""

    @property
    def nominated(self) -> Assignment:
        """The assignment, for code that runs after nomination."""
        assert self.assignment is not None
        return self.assignment

    @property
    def requests(self) -> tuple[tuple[str, Amounts], ...]:
        """What the pod sets ask for, for statuses."""
        return tuple((pod_set.name, pod_set.requests) for pod_set in self.info.pod_sets)

    @property
    def nominated_flavors(self) -> list[dict[str, str]]:
        """Per pod set and resource."""
        return [
            {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
            for pod_set in self.nominated.pod_sets
        ]

    def start_over(self) -> None:
        """Begin the next search for flavors with the first one."""
        self.item.cursor = None

    def granular_verdict(self) -> WaitVerdict:
        return WaitVerdict(self.cause, self.reason, self.message, self.reason) if self.reason else self.plain_verdict()

    def plain_verdict(self) -> WaitVerdict:
        """The verdict in the two reasons there were before they became granular."""
        plain = "Waiting" if self.reason == "WaitingForPodsReady" else "Pending"
        if self.cause == SET_ASIDE:
            plain = SET_ASIDE
        return WaitVerdict(self.cause, plain, self.message, self.reason)
