"""Hierarchical quota: a forest of nodes whose usage is kept up to date by the changes themselves.

A node is a ClusterQueue (a leaf) or a Cohort. For every flavor and resource it knows its own quota, the quota of its
subtree, the part of that which is never lent upwards, and its usage. Only usage above the never-lent part is visible
to the parent, so a change of a leaf costs at most the height of the tree and is undone by the opposite change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from corral.decide.queueing.model.values import NO_QUOTA, FlavorResource, ResourceQuota, Usage


class QuotaNode:
    """A ClusterQueue or Cohort in the tree. `parent` is None for a root."""

    __slots__ = (
        "cohorts",
        "height",
        "is_queue",
        "local",
        "name",
        "parent",
        "potentials",
        "queues",
        "quotas",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self, name: str, *, is_queue: bool) -> None:
        self.name = name
        self.is_queue = is_queue
        self.parent: QuotaNode | None = None
        self.cohorts: dict[str, QuotaNode] = {}
        self.queues: dict[str, QuotaNode] = {}
        self.quotas: Mapping[FlavorResource, ResourceQuota] = {}
        self.subtree: dict[FlavorResource, int] = {}
        """Quota of this node and what its children lend to it."""
        self.local: dict[FlavorResource, int] = {}
        """The part of `subtree` the parent never sees; missing means 0."""
        self.potentials: dict[FlavorResource, int] = {}
        """What `potential` found since quotas last changed."""
        self.usage: Usage = {}
        self.weight = 1.0
        self.height = 0
        """Longest way down to a leaf; 0 for a leaf."""

    def __repr__(self) -> str:
        return f"QuotaNode({self.name!r})"

    def quota(self, column: FlavorResource) -> ResourceQuota:
        return self.quotas.get(column, NO_QUOTA)

    def path(self) -> Iterator[QuotaNode]:
        """Ancestors, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> QuotaNode:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def subtree_queues(self) -> Iterator[QuotaNode]:
        """All ClusterQueues below this node, or the node itself when it is one."""
        if self.is_queue:
            yield self
            return
        yield from self.queues.values()
        for cohort in self.cohorts.values():
            yield from cohort.subtree_queues()

    def local_available(self, column: FlavorResource) -> int:
        """Unused quota that only this subtree can use."""
        local = self.local.get(column, 0)
        return max(0, local - self.usage.get(column, 0)) if local else 0

    def available(self, column: FlavorResource) -> int:
        """How much more this node may use now; negative after quota was cut below usage.

        This is the largest amount that can be added to the node's usage without any ancestor going beyond its quota or
        its borrowing limit. It is not cut off at 0: a negative answer says how much has to leave before anything fits,
        which preemption counts on.
        """
        used = self.usage.get(column, 0)
        parent = self.parent
        if parent is None:
            return self.subtree.get(column, 0) - used
        beyond = parent.available(column)
        local = self.local.get(column, 0)
        quota = self.quotas.get(column)
        if quota is not None and quota.borrowing_limit is not None:
            # The limit is on usage beyond the subtree's quota. Part of what the parent has (`stored`) is quota this node
            # lent to it; using that is not borrowing, so the limit starts behind it, less what is in use already.
            stored = self.subtree.get(column, 0) - local
            taken = used - local if used > local else 0
            own = stored - taken + quota.borrowing_limit
            if own < beyond:
                beyond = own
        return beyond + local - used if local > used else beyond

    def potential(self, column: FlavorResource) -> int:
        """The most this node could ever use, if nothing else used anything.

        It depends on quotas alone, never on usage, so it is kept until `refresh_subtree` runs.
        """
        known = self.potentials.get(column)
        if known is None:
            known = self.potentials[column] = self._potential(column)
        return known

    def _potential(self, column: FlavorResource) -> int:
        if self.parent is None:
            return self.subtree.get(column, 0)
        most = self.local.get(column, 0) + self.parent.potential(column)
        quota = self.quotas.get(column)
        if quota is not None and quota.borrowing_limit is not None:
            most = min(most, self.subtree.get(column, 0) + quota.borrowing_limit)
        return most

    def is_borrowing(self, column: FlavorResource, extra: int = 0) -> bool:
        """Would usage exceed the node's own subtree quota?"""
        return self.usage.get(column, 0) + extra > self.subtree.get(column, 0)

    def is_within_nominal(self, columns: Iterable[FlavorResource]) -> bool:
        usage, subtree = self.usage, self.subtree
        for column in columns:  # noqa: SIM110 - asked for every queue of a tree, and `all` costs four times as much
            if usage.get(column, 0) > subtree.get(column, 0):
                return False
        return True

    def change(self, column: FlavorResource, amount: int) -> None:
        """Add `amount` (negative removes) to this node's usage and to what its ancestors see of it.

        Invariant: a cohort's usage is the sum over its children of max(0, usage - local). What goes up is therefore the
        difference of that term before and after, not the amount: below the never-lent line a parent sees nothing.
        The opposite change undoes this one exactly, which is what trials of preemption rely on.
        """
        node: QuotaNode | None = self
        while node is not None and amount:
            before = node.usage.get(column, 0)
            after = node.usage[column] = before + amount
            local = node.local.get(column, 0)
            if local:
                amount = max(0, after - local) - max(0, before - local)
            node = node.parent

    def add(self, usage: Usage) -> None:
        for column, amount in usage.items():
            self.change(column, amount)

    def remove(self, usage: Usage) -> None:
        for column, amount in usage.items():
            self.change(column, -amount)

    def fits(self, usage: Usage) -> bool:
        """Is there room for all of `usage` now?"""
        for column, amount in usage.items():  # noqa: SIM110 - asked for every admission, and `all` costs more
            if amount > self.available(column):
                return False
        return True


def refresh_subtree(node: QuotaNode) -> None:
    """Recompute quota, usage and height of a cohort and everything below it, from the leaves up."""
    _refresh_quota(node)
    if node.is_queue:
        # The usage of a leaf is the sum of its reservations and is never derived; only that of cohorts is.
        _refresh_local(node)
        return
    node.usage = {}
    node.height = 0
    for child in (*node.cohorts.values(), *node.queues.values()):
        refresh_subtree(child)
        node.height = max(node.height, child.height + 1)
        for column, quota in child.subtree.items():
            node.subtree[column] = node.subtree.get(column, 0) + quota - child.local.get(column, 0)
        for column, used in child.usage.items():
            node.usage[column] = node.usage.get(column, 0) + max(0, used - child.local.get(column, 0))
    _refresh_local(node)  # last: what a cohort keeps is a part of all its children lend to it


def _refresh_quota(node: QuotaNode) -> None:
    node.potentials = {}
    node.subtree = {column: quota.nominal for column, quota in node.quotas.items()}


def _refresh_local(node: QuotaNode) -> None:
    # Without a lending limit everything is lent and nothing is local; so a missing entry means 0, not "all of it".
    node.local = {}
    for column, quota in node.quotas.items():
        if quota.lending_limit is not None:
            kept = node.subtree[column] - quota.lending_limit
            if kept > 0:
                node.local[column] = kept


def lowest_fitting_subtree(queue: QuotaNode, column: FlavorResource, amount: int) -> tuple[int, bool]:
    """Height of the lowest subtree around `queue` with unused quota for `amount`, and whether more lies outside it.

    0 means the queue's own quota covers it. When nothing fits it is the height of the whole tree.
    """
    if queue.parent is None or not queue.is_borrowing(column, amount):
        return 0, queue.parent is not None
    # On each level the part that never-lent quota covers is not asked of the parent.
    remaining = amount - queue.local_available(column)
    node: QuotaNode | None = queue.parent
    top = queue.parent
    while node is not None:
        if not node.is_borrowing(column, remaining):
            return node.height, node.parent is not None
        remaining -= node.local_available(column)
        top, node = node, node.parent
    return top.height, False


def fit_in_quota(node: QuotaNode, requests: Usage) -> tuple[bool, Usage]:
    """Do `requests` fit in the node's subtree quota, and what of them its parent would see."""
    fits = True
    remaining: Usage = {}
    for column, amount in requests.items():
        if node.is_borrowing(column, amount):
            fits = False
        remaining[column] = max(0, amount - node.local_available(column))
    return fits, remaining


class QuotaForest:
    """All cohort trees by name. Cohorts that are only mentioned exist without quota of their own.

    Changes of structure only mark trees; `settle` recomputes the marked ones, so loading a thousand queues costs one
    pass. A cycle among cohorts is cut out: its members and everything below them are `broken` until it is gone, and
    every other tree is untouched.
    """

    def __init__(self) -> None:
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self._declared: dict[str, str] = {}
        """Parent (or empty) of every Cohort object."""
        self._cyclic: set[str] = set()
        self._marked: dict[int, QuotaNode] = {}

    def set_queue(
        self, name: str, cohort: str, quotas: Mapping[FlavorResource, ResourceQuota], weight: float
    ) -> QuotaNode:
        """Add or change a ClusterQueue; its usage is kept."""
        node = self.queues.get(name)
        if node is None:
            node = self.queues[name] = QuotaNode(name, is_queue=True)
        node.quotas, node.weight = quotas, weight
        old, new = node.parent, self._cohort(cohort) if cohort else None
        if old is not new:
            self._unlink(node)
            if new is not None:
                new.queues[name] = node
                node.parent = new
            if old is not None:
                self._retire(old)
        self._mark(node)
        return node

    def delete_queue(self, name: str) -> None:
        node = self.queues.pop(name, None)
        if node is not None and node.parent is not None:
            parent = node.parent
            self._unlink(node)
            self._retire(parent)

    def set_cohort(
        self, name: str, parent: str, quotas: Mapping[FlavorResource, ResourceQuota], weight: float
    ) -> QuotaNode:
        """Add or change a Cohort object."""
        node = self._cohort(name)
        node.quotas, node.weight = quotas, weight
        before = self._declared.get(name, "")
        self._declared[name] = parent
        if parent != before:
            self._relink(name, before)
        self._mark(node)
        return node

    def delete_cohort(self, name: str) -> None:
        """Forget the object; the cohort lives on without quota while somebody still names it."""
        if name not in self._declared:
            return
        before = self._declared.pop(name)
        node = self.cohorts[name]
        node.quotas, node.weight = {}, 1.0
        if before:
            self._relink(name, before)
        self._mark(node)
        self._retire(node)

    def is_broken(self, node: QuotaNode) -> bool:
        """Does `node` hang on a cycle of cohorts?"""
        return node.root().name in self._cyclic if self._cyclic and not _is_lone_queue(node) else False

    def settle(self) -> None:
        """Recompute all trees whose structure or quota changed."""
        # Each tree once, however many of its nodes are marked; the order does not matter.
        roots = {id(root): root for root in (node.root() for node in self._marked.values())}
        self._marked.clear()
        for root in roots.values():
            refresh_subtree(root)

    def _mark(self, node: QuotaNode) -> None:
        self._marked[id(node)] = node

    def _cohort(self, name: str) -> QuotaNode:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = QuotaNode(name, is_queue=False)
        return node

    def _unlink(self, node: QuotaNode) -> None:
        if node.parent is not None:
            children = node.parent.queues if node.is_queue else node.parent.cohorts
            children.pop(node.name, None)
            self._mark(node.parent)
            node.parent = None

    def _relink(self, name: str, before: str) -> None:
        """Rebuild the links between cohorts after `name` got another parent, cutting whatever runs in a circle."""
        touched = {name, *self._cyclic}
        self._cyclic = _cyclic_members(self._declared)
        touched |= self._cyclic
        for cohort in sorted(touched):
            node = self._cohort(cohort)
            self._unlink(node)
            parent = self._declared.get(cohort, "")
            if parent and cohort not in self._cyclic:
                node.parent = self._cohort(parent)
                node.parent.cohorts[cohort] = node
            self._mark(node)
        if before:
            self._retire(self._cohort(before))

    def _retire(self, node: QuotaNode) -> None:
        """Drop a cohort nobody mentions any more."""
        unused = node.name not in self._declared and not node.queues and not node.cohorts
        if unused and node.name not in self._declared.values():
            self.cohorts.pop(node.name, None)
            self._marked.pop(id(node), None)
        else:
            self._mark(node)


def _is_lone_queue(node: QuotaNode) -> bool:
    return node.is_queue and node.parent is None


def _cyclic_members(parents: Mapping[str, str]) -> set[str]:
    """Names that reach themselves by following parents."""
    cyclic: set[str] = set()
    done: set[str] = set()
    for start in parents:
        way: list[str] = []
        at = start
        while at and at not in done and at not in way:
            way.append(at)
            at = parents.get(at, "")
        if at in way:
            cyclic.update(way[way.index(at) :])
        done.update(way)
    return cyclic
