"""Dominant resource share: how much of what its cohort can lend a node borrows, weighed by its entitlement.

Shares decide, under fair sharing, who is considered next and who has to give. They are compared exactly as upstream
does: nodes of weight zero that borrow are above all others and among themselves ordered by the plain ratio.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import total_ordering

from corral.core.quantity import as_float
from corral.decide.queueing.model.amounts import MAX_INT64
from corral.decide.queueing.model.values import FlavorResource, Usage
from corral.decide.queueing.quota.tree import QuotaNode


@total_ordering
class DominantShare:
    """The dominant resource share of a node."""

    __slots__ = ("borrowed", "ratio", "resource", "weight")

    def __init__(
        self, ratio: float, weight: float, resource: str = "", borrowed: Collection[FlavorResource] = ()
    ) -> None:
        self.ratio = ratio
        """Borrowed per thousand of what is lendable, for the resource where that is most."""
        self.weight = weight
        self.resource = resource
        self.borrowed = borrowed

    @property
    def weighted(self) -> float:
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rounded(self) -> int:
        """The integer a status shows."""
        weighted = self.weighted
        return MAX_INT64 if math.isinf(weighted) else math.ceil(weighted)

    @property
    def is_borrowing(self) -> bool:
        return bool(self.borrowed)

    def borrows_on(self, requested: Usage) -> bool:
        """Does the node borrow any flavor and resource that is asked for?"""
        return any(requested.get(column, 0) > 0 for column in self.borrowed)

    def _order(self) -> tuple[bool, float]:
        # Comparing `weighted` would make all borrowers of weight zero equal (infinite): they would be picked by chance.
        boundless = self.weight == 0 and self.ratio != 0
        return boundless, self.ratio if boundless else self.weighted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DominantShare) and self._order() == other._order()

    def __lt__(self, other: DominantShare) -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(self._order())

    def __repr__(self) -> str:
        return f"DominantShare({self.weighted:g}, {self.resource!r})"


def share_of(node: QuotaNode, extra: Mapping[FlavorResource, int] | None = None) -> DominantShare:
    """The share of `node`, as if it used `extra` on top; zero for a root, which has nobody to borrow from.

    Flavors of a resource are added up, but only those used beyond quota: unused quota of one flavor does not pay for
    borrowing another. Resources are not added up; the one borrowed most, relative to what could be lent, is the share.
    """
    parent = node.parent
    if parent is None:
        return DominantShare(0.0, node.weight)
    borrowed: dict[str, int] = {}
    columns: list[FlavorResource] = []
    usage = node.usage
    for column, quota in node.subtree.items():
        above = usage.get(column, 0) - quota
        if extra:
            above += extra.get(column, 0)
        if above > 0:
            borrowed[column.resource] = borrowed.get(column.resource, 0) + above
            columns.append(column)
    if not borrowed:
        return DominantShare(0.0, node.weight)
    lendable = lendable_by(parent)
    ratio, dominant = 0.0, ""
    for resource in sorted(borrowed):  # by name, so that of equal ones always the same is called dominant
        whole = lendable.get(resource, 0)
        if whole > 0:
            part = as_float(borrowed[resource]) * 1000.0 / as_float(whole)
            if part > ratio:
                ratio, dominant = part, resource
    return DominantShare(ratio, node.weight, dominant, columns)


def lendable_by(cohort: QuotaNode) -> dict[str, int]:
    """Per resource, all that anyone below `cohort` could ever use through it."""
    # The columns of the root, because a cohort may have no quota of its own for what it can borrow from above.
    lendable: dict[str, int] = {}
    for column in cohort.root().subtree:
        lendable[column.resource] = lendable.get(column.resource, 0) + cohort.potential(column)
    return lendable
