"""Topology domains of one flavor as a tree, built from the labels of its nodes."""

from __future__ import annotations

from collections.abc import Iterable

from corral.decide.queueing.model.amounts import add_into
from corral.decide.queueing.model.values import Amounts, NodeSpec

HOSTNAME = "kubernetes.io/hostname"

Values = tuple[str, ...]


class Domain:
    """A set of nodes that share label values down to one level. A domain without children is a leaf."""

    __slots__ = ("allocatable", "children", "index", "key", "level", "nodes", "parent", "values")

    def __init__(self, values: Values, index: int, parent: Domain | None, key: Values) -> None:
        self.values = values
        self.level = len(values) - 1
        self.index = index
        self.parent = parent
        self.children: list[Domain] = []
        self.key = key
        """How assignments name it."""
        self.nodes: list[NodeSpec] = []
        self.allocatable: Amounts = {}
        """What the nodes of a leaf offer, without what pods outside topology scheduling use."""

    def __repr__(self) -> str:
        return f"Domain({'/'.join(self.values)})"

    def ancestor(self, level: int) -> Domain:
        domain = self
        while domain.level > level and domain.parent is not None:
            domain = domain.parent
        return domain


class DomainTree:
    """All domains, by level and by name."""

    def __init__(self, levels: tuple[str, ...]) -> None:
        self.levels = levels
        self.lowest = len(levels) - 1
        self.is_lowest_host = bool(levels) and levels[-1] == HOSTNAME
        self.domains: list[Domain] = []
        self.by_level: list[list[Domain]] = [[] for _ in levels]
        self.leaves: dict[Values, Domain] = {}
        self._known: dict[Values, Domain] = {}

    def add_node(self, node: NodeSpec, used: Amounts | None) -> None:
        """Put a node under its domains; `used` is what other pods take of it."""
        values = tuple(node.labels[level] for level in self.levels)
        leaf = self._domain(values)
        leaf.nodes.append(node)
        add_into(leaf.allocatable, node.allocatable)
        if used:
            add_into(leaf.allocatable, used, -1)

    def leaf_key(self, values: Values) -> Values:
        """Host names are unique, so they may stand alone."""
        return values[-1:] if self.is_lowest_host else values

    def level_index(self, level: str) -> int:
        """-1 when the topology has no such level."""
        return self.levels.index(level) if level in self.levels else -1

    def _domain(self, values: Values) -> Domain:
        known = self._known.get(values)
        if known is not None:
            return known
        parent = self._domain(values[:-1]) if len(values) > 1 else None
        is_leaf = len(values) == len(self.levels)
        domain = Domain(values, len(self.domains), parent, self.leaf_key(values) if is_leaf else values)
        self.domains.append(domain)
        self.by_level[domain.level].append(domain)
        self._known[values] = domain
        if parent is not None:
            parent.children.append(domain)
        if is_leaf:
            self.leaves[domain.key] = domain
        return domain


def build_tree(levels: tuple[str, ...], nodes: Iterable[NodeSpec], used: dict[str, Amounts]) -> DomainTree:
    tree = DomainTree(levels)
    for node in nodes:
        if all(level in node.labels for level in levels):
            tree.add_node(node, used.get(node.name))
    return tree
