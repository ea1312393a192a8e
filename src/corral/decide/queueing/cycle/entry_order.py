"""The order in which the entries of a round get their turn.

Classical: what already holds quota, then the least borrowing, priority, age. With fair sharing a tournament per
cohort tree: the child with the smaller share after admission wins, at every level, again after each winner.
"""

from __future__ import annotations

from collections.abc import Iterator

from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.quota.fair_shares import DominantShare, share_of
from corral.decide.queueing.quota.tree import QuotaNode
from corral.decide.queueing.world import World


class EntryOrder:
    """Orders entries by the state of a world, lazily: later turns see what earlier ones changed."""

    def __init__(self, world: World) -> None:
        self._world = world

    def ordered(self, entries: list[Entry]) -> Iterator[Entry]:
        """The entries, each when its turn comes."""
        if len(entries) < 2:
            return iter(entries)
        if self._world.settings.fair_sharing:
            return self._tournament(entries)
        features = self._world.settings.features
        by_priority = features.priority_sorting_within_cohort

        def order(entry: Entry) -> tuple[object, ...]:
            info = entry.info
            assert entry.assignment is not None
            return (
                not info.reserving,
                not (features.prioritize_preemptors and self.is_preemptor(entry)),
                entry.assignment.borrows,
                -info.priority if by_priority else 0,
                info.order_time,
            )

        return iter(sorted(entries, key=order))

    def is_preemptor(self, entry: Entry) -> bool:
        """Does it wait for victims of an earlier cycle to leave?"""
        return self._world.pending[entry.queue.name].preemptor == entry.info.key

    def _tournament(self, entries: list[Entry]) -> Iterator[Entry]:
        """Fair sharing: at every cohort the child wins whose share would be least; repeated after each winner."""
        left: dict[QuotaNode, dict[QuotaNode, Entry]] = {}
        for entry in entries:
            if entry.queue.node.parent is None or entry.info.reserving:
                yield entry
            else:
                left.setdefault(entry.queue.node.root(), {})[entry.queue.node] = entry
        for root, contenders in left.items():
            while contenders:
                shares = {node: self._shares_on_path(node, entry) for node, entry in contenders.items()}
                winner = self._winner(root, contenders, shares)
                del contenders[winner.queue.node]
                yield winner

    def _shares_on_path(self, node: QuotaNode, entry: Entry) -> dict[QuotaNode, DominantShare]:
        """Per ancestor cohort, the share of its child on the way to `node` once the entry is admitted."""
        node.add(entry.usage)
        shares: dict[QuotaNode, DominantShare] = {}
        at: QuotaNode = node
        while at.parent is not None:
            shares[at.parent] = share_of(at)
            at = at.parent
        node.remove(entry.usage)
        return shares

    def _winner(
        self,
        root: QuotaNode,
        contenders: dict[QuotaNode, Entry],
        shares: dict[QuotaNode, dict[QuotaNode, DominantShare]],
    ) -> Entry:
        """Contenders meet where their ways up meet; the loser of each meeting is out."""
        best: dict[QuotaNode, QuotaNode] = {}
        order = sorted(contenders, key=lambda node: -_depth(node))
        for node in order:
            best[node] = node
        deepest = max((_depth(node) for node in contenders), default=0)
        for depth in range(deepest, 0, -1):
            for at in [at for at in best if _depth(at) == depth]:
                candidate = best.pop(at)
                parent = at.parent
                assert parent is not None
                rival = best.get(parent)
                if rival is None or self._beats(contenders[candidate], contenders[rival], parent, shares):
                    best[parent] = candidate
        return contenders[best[root]]

    def _beats(
        self,
        one: Entry,
        other: Entry,
        cohort: QuotaNode,
        shares: dict[QuotaNode, dict[QuotaNode, DominantShare]],
    ) -> bool:
        features = self._world.settings.features
        if features.prioritize_preemptors and self.is_preemptor(one) != self.is_preemptor(other):
            return self.is_preemptor(one)
        mine, theirs = shares[one.queue.node][cohort], shares[other.queue.node][cohort]
        if features.fair_sharing_prioritize_non_borrowing:
            borrows = mine.borrows_on(one.usage)
            if borrows != theirs.borrows_on(other.usage):
                return not borrows
        if mine != theirs:
            return mine < theirs
        if features.priority_sorting_within_cohort and one.info.priority != other.info.priority:
            return one.info.priority > other.info.priority
        return one.info.order_time < other.info.order_time


def _depth(node: QuotaNode) -> int:
    return sum(1 for _ in node.path())
