"""A workload on its way through a round."""

from __future__ import annotations

from corral.decide.queueing.assignment import Assignment
from corral.decide.queueing.candidates import Target
from corral.decide.queueing.clusterqueue import ClusterQueue
from corral.decide.queueing.model import Usage, WorkloadInfo
from corral.decide.queueing.pending import Pending


class Entry:
    """The head of a queue on its way through a round."""

    __slots__ = ("assignment", "cause", "item", "message", "queue", "reason", "targets", "told", "usage")

    def __init__(self, item: Pending, queue: ClusterQueue) -> None:
        self.item = item
        self.queue = queue
        self.assignment: Assignment | None = None
        self.targets: list[Target] = []
        self.message = ""
        self.cause = "Generic"
        self.reason = ""
        """Granular reason of the condition."""
        self.told = False
        """Its message is part of another decision already."""
        self.usage: Usage = {}
        """Quota the admission would add; nothing on a second pass."""

    @property
    def info(self) -> WorkloadInfo:
        return self.item.info

    @property
    def nominated(self) -> Assignment:
        """The assignment, for code that runs after nomination."""
        assert self.assignment is not None
        return self.assignment
