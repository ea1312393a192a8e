"""A plan under construction: the decisions so far, and whether another round can decide anything more."""

from __future__ import annotations

from corral.decide.queueing.cycle.plan import CyclePlan, Decision
from corral.decide.queueing.quota.tree import QuotaNode


class PlanBuilder:
    """Collects the decisions of one plan."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.is_blocked = False
        """Nobody may be admitted before something else happens."""
        self.progress = False
        """Did this round admit or park anybody?"""
        self.rounds = 0
        self._skipped: dict[str, int] = {}
        self._changed: dict[QuotaNode, None] = {}

    def add(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def skip_preemption(self, cluster_queue: str) -> None:
        """Count a preemption that has to wait for another one."""
        self._skipped[cluster_queue] = self._skipped.get(cluster_queue, 0) + 1

    def begin_round(self) -> None:
        self.rounds += 1
        self.progress = False
        self._changed.clear()

    def change(self, node: QuotaNode) -> None:
        """Something happened in the tree of `node`, which is worth another round."""
        self._changed[node.root()] = None

    @property
    def changed_roots(self) -> list[QuotaNode]:
        return list(self._changed)

    def finish(self, *, more: bool) -> CyclePlan:
        return CyclePlan(
            decisions=tuple(self.decisions),
            rounds=self.rounds,
            skipped_preemptions=self._skipped,
            more=more and not self.is_blocked,
        )
