"""The nodes of one flavor: their domains, what is used of them, and placements on what is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from corral.decide.queueing.model.values import (
    UNCONSTRAINED,
    Amounts,
    FlavorSpec,
    PodConstraints,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)
from corral.decide.queueing.topology.balanced import place_balanced
from corral.decide.queueing.topology.counts import (
    AmountItems,
    Capacity,
    CountKey,
    Counts,
    exclusion_summary,
)
from corral.decide.queueing.topology.placement import DomainShare, NoPlacement, Placer, Shape, assignment_of
from corral.decide.queueing.topology.tree import Domain, DomainTree, Values

_MAX_TABLES = 48
_KEPT_CHANGES = 8192


class PodSetPlacement(msgspec.Struct, frozen=True):
    """Pods of one pod set that want places."""

    name: str
    count: int
    per_pod: Amounts
    constraints: PodConstraints = UNCONSTRAINED
    topology: TopologyRequest | None = None
    implied: bool = False
    existing: TopologyAssignment | None = None
    """Where the pods are now, when some of them need another node."""
    previous: TopologyAssignment | None = None
    """Where the pods of the slice are that this one takes over from."""

    @property
    def group(self) -> str:
        return self.topology.group if self.topology is not None else ""

    @property
    def one_pod(self) -> AmountItems:
        return tuple(sorted({**self.per_pod, "pods": 1}.items()))


class FlavorCapacity:
    """One topology flavor. Usage is shared with the other flavors of the cluster when leaves are hosts."""

    def __init__(self, flavor: FlavorSpec, topology: str, tree: DomainTree, usage: dict[Values, Amounts]) -> None:
        self.flavor = flavor
        self.topology = topology
        self.tree = tree
        self.usage = usage
        self._tables: dict[CountKey, Counts] = {}
        self._changes: list[Values] = []
        """Leaves whose usage changed, in order. A table has seen those before its own position."""

    @property
    def levels(self) -> tuple[str, ...]:
        return self.tree.levels

    def has_levels(self, request: TopologyRequest) -> bool:
        """Does the topology have every level the request names?"""
        named = [request.required, request.preferred, *(layer.topology for layer in request.slices)]
        return all(level in self.levels for level in named if level)

    def touched(self, key: Values) -> None:
        """The usage of a leaf changed."""
        self._changes.append(key)
        if len(self._changes) >= 2 * _KEPT_CHANGES:
            self._forget_changes()

    def fits(self, domains: Iterable[tuple[Values, Mapping[str, int], int]]) -> bool:
        """Is there room for these pods exactly where they are?"""
        capacity = Capacity(self.usage)
        for values, per_pod, pods in domains:
            leaf = self.tree.leaves.get(self.tree.leaf_key(values))
            if leaf is None or capacity.room(leaf, (*per_pod.items(), ("pods", 1)), False) < pods:
                return False
        return True

    def place(
        self,
        workers: PodSetPlacement,
        leader: PodSetPlacement | None,
        assumed: Mapping[Values, Amounts],
        *,
        mixed: bool = True,
        balanced: bool = False,
        empty: bool = False,
        within: Domain | None = None,
    ) -> dict[str, TopologyAssignment] | str:
        """Assignments by pod set name, or why there are none."""
        shape = self._shape(workers, leader, mixed)
        if isinstance(shape, str):
            return shape
        if balanced and not shape.required and not shape.unconstrained:
            shape = shape._replace(balanced=True)
        key = CountKey(
            requests=workers.one_pod,
            leader=None if leader is None else leader.one_pod,
            constraints=workers.constraints if self.tree.is_lowest_host else UNCONSTRAINED,
            slice_size=shape.slice_size,
            slice_level=shape.slice_level,
            inner_sizes=tuple(shape.inner_sizes.items()),
            empty=empty,
        )
        if not self.tree.by_level[shape.level]:
            return f"no topology domains at level: {self.levels[shape.level]}"
        capacity = Capacity(self.usage, assumed)
        counts = self._counts(key, capacity, within)
        found = self._found(counts, shape)
        if isinstance(found, NoPlacement):
            return self._failure(found, shape, workers, counts, capacity)
        of_workers, of_leader = found
        return {workers.name: of_workers} if leader is None else {workers.name: of_workers, leader.name: of_leader}

    def _found(self, counts: Counts, shape: Shape) -> tuple[TopologyAssignment, TopologyAssignment] | NoPlacement:
        """Places of the workers and of the leader, or why there are none: remembered for as long as the counts stay as they are."""
        key = (
            shape.pods,
            shape.leaders,
            shape.level,
            shape.required,
            shape.unconstrained,
            shape.least_free,
            shape.balanced,
        )
        found: tuple[TopologyAssignment, TopologyAssignment] | NoPlacement | None = counts.placed.get(key)
        if found is None:
            try:
                shares = _shares(counts, shape)
                found = (
                    self._assignment([(share.domain, share.pods) for share in shares]),
                    self._assignment([(share.domain, share.leaders) for share in shares]),
                )
            except NoPlacement as failure:
                found = failure
            counts.placed[key] = found
        return found

    def _assignment(self, pods: list[tuple[Domain, int]]) -> TopologyAssignment:
        return assignment_of(pods, self.levels, self.tree.is_lowest_host)

    def _counts(self, key: CountKey, capacity: Capacity, within: Domain | None) -> Counts:
        if capacity.assumed or within is not None:
            return Counts(key, self.tree, capacity, self.flavor.tolerations, within)
        table = self._tables.pop(key, None)
        if table is None:
            if len(self._tables) >= _MAX_TABLES:
                del self._tables[next(iter(self._tables))]
            table = Counts(key, self.tree, capacity, self.flavor.tolerations)
        elif table.seen < len(self._changes):
            table.refresh(capacity, dict.fromkeys(self._changes[table.seen :]))
        table.seen = len(self._changes)
        self._tables[key] = table
        return table

    def _forget_changes(self) -> None:
        """Keep the newer half; a table that has not seen the older one is made anew when it is asked again."""
        gone = len(self._changes) - _KEPT_CHANGES
        del self._changes[:gone]
        self._tables = {key: table for key, table in self._tables.items() if table.seen >= gone}
        for table in self._tables.values():
            table.seen -= gone

    def _shape(self, workers: PodSetPlacement, leader: PodSetPlacement | None, mixed: bool) -> Shape | str:
        request, tree = workers.topology, self.tree
        level_name = self._level_name(workers)
        if level_name is None:
            return "topology level not specified"
        level = tree.level_index(level_name)
        if level < 0:
            return f"no requested topology level: {level_name}"
        slices = request.slices if request is not None else ()
        slice_level, slice_size = tree.lowest, 1
        if slices:
            slice_level, slice_size = tree.level_index(slices[0].topology), slices[0].size
            if slice_size <= 0:
                return "slice topology requested, but slice size not provided"
            if slice_level < 0:
                return f"no requested topology level for slices: {slices[0].topology}"
        if level > slice_level:
            return f"podset slice topology {tree.levels[slice_level]} is above the podset topology {level_name}"
        inner = self._inner_sizes(workers, slice_size, slice_level)
        if isinstance(inner, str):
            return inner
        only_slices = bool(slices) and request is not None and not request.required and not request.preferred
        unconstrained = workers.implied or only_slices or (request is not None and request.unconstrained)
        return Shape(
            pods=workers.count,
            leaders=0 if leader is None else 1,
            level=level,
            slice_level=slice_level,
            slice_size=slice_size,
            inner_sizes=inner,
            required=request is not None and bool(request.required),
            unconstrained=unconstrained,
            least_free=unconstrained and mixed,
        )

    def _level_name(self, workers: PodSetPlacement) -> str | None:
        request = workers.topology
        if request is not None:
            if request.required or request.preferred:
                return request.required or request.preferred
            if request.slices:
                return self.levels[0]
            if request.unconstrained:
                return self.levels[-1]
        return self.levels[-1] if workers.implied else None

    def _inner_sizes(self, workers: PodSetPlacement, size: int, level: int) -> dict[int, int] | str:
        """Slice size per level below the outermost slice level; nested sizes must divide each other."""
        sizes: dict[int, int] = {}
        layers = workers.topology.slices[1:] if workers.topology is not None else ()
        for layer in layers:
            at = self.tree.level_index(layer.topology)
            if at < 0:
                return f"no requested topology level for additional slice layer: {layer.topology}"
            if at <= level:
                above = self.levels[level]
                return f"additional slice layer topology {layer.topology} must be at a lower level than {above}"
            if layer.size <= 0 or size % layer.size:
                return f"additional slice layer size {layer.size} must evenly divide parent layer size {size}"
            for between in range(level + 1, at + 1):
                sizes[between] = layer.size
            size, level = layer.size, at
        return sizes

    def _failure(
        self, failure: NoPlacement, shape: Shape, workers: PodSetPlacement, counts: Counts, capacity: Capacity
    ) -> str:
        excluded = exclusion_summary(counts, capacity, self.flavor.tolerations)
        if shape.inner_sizes and workers.topology is not None:
            return self._layered_failure(failure.level, workers, counts) + excluded
        unit = "pod" if shape.slice_size == 1 else "slice"
        if failure.fitting <= 0:
            text = f'topology "{self.topology}" doesn\'t allow to fit any of {failure.wanted} {unit}(s)'
        else:
            text = f'topology "{self.topology}" allows to fit only {failure.fitting} out of {failure.wanted} {unit}(s)'
        return text + excluded

    def _layered_failure(self, level: int, workers: PodSetPlacement, counts: Counts) -> str:
        text = f'topology "{self.topology}" doesn\'t allow to fit'
        domains = self.tree.by_level[level]
        if not domains or workers.topology is None:
            return text
        best = min(domains, key=lambda domain: (-counts.slices[domain.index], domain.values))
        for layer in workers.topology.slices:
            at = self.tree.level_index(layer.topology)
            fitting = sum(
                counts.pods[domain.index] // layer.size
                for domain in self.tree.by_level[at]
                if domain.ancestor(level) is best
            )
            text += f"; {fitting}/{workers.count // layer.size} slice(s) fit on level {layer.topology}"
        return text

    # -- replacing a node -----------------------------------------------------------------------------------------

    def replace(
        self,
        pods: PodSetPlacement,
        node: str,
        assumed: Mapping[Values, Amounts],
        *,
        mixed: bool = True,
        balanced: bool = False,
    ) -> tuple[TopologyAssignment, TopologyAssignment] | str:
        """The assignment without `node`, and the part of it that is new; or why there is none."""
        assert pods.existing is not None
        kept = [domain for domain in pods.existing.domains if domain.values[-1] != node]
        moved = sum(domain.pods for domain in pods.existing.domains if domain.values[-1] == node)
        for domain in kept:
            if self.tree.leaf_key(domain.values) not in self.tree.leaves:
                return (
                    "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the "
                    f"stale domain {domain.values[0]}"
                )
        wanted = msgspec.structs.replace(pods, count=moved, existing=None)
        within = self._replacement_domain(wanted, kept)
        if within is not None and wanted.topology is not None and wanted.topology.slices:
            wanted = msgspec.structs.replace(wanted, topology=_loosened(wanted.topology, moved))
        placed = self.place(wanted, None, assumed, mixed=mixed, balanced=balanced, within=within)
        if isinstance(placed, str):
            return placed
        new = placed[pods.name]
        if not new.domains:
            return f"cannot find replacement assignment for unhealthy node: {node}"
        return self.merged(new, kept), new

    def _replacement_domain(self, wanted: PodSetPlacement, kept: list[TopologyDomain]) -> Domain | None:
        """The domain the replacement must stay in, if any."""
        request = wanted.topology
        if request is None or not kept:
            return None
        if request.slices and wanted.count % request.slices[0].size:
            broken = next(layer for layer in reversed(request.slices) if wanted.count % layer.size)
            return self._incomplete_slice(kept, wanted.count, broken.size, self.tree.level_index(broken.topology))
        if not request.required:
            return None
        leaf = self.tree.leaves.get(self.tree.leaf_key(kept[0].values))
        return None if leaf is None else leaf.ancestor(self.tree.level_index(request.required))

    def _incomplete_slice(self, kept: list[TopologyDomain], missing: int, size: int, level: int) -> Domain | None:
        held: dict[Domain, int] = {}
        for domain in kept:
            leaf = self.tree.leaves.get(self.tree.leaf_key(domain.values))
            if leaf is not None:
                at = leaf.ancestor(level)
                held[at] = held.get(at, 0) + domain.pods
        return next((domain for domain, pods in held.items() if (pods + missing) % size == 0), None)

    def is_stale(self, assignment: TopologyAssignment) -> bool:
        """Has a domain of the assignment gone?"""
        return any(self.tree.leaf_key(domain.values) not in self.tree.leaves for domain in assignment.domains)

    def merged(self, new: TopologyAssignment, kept: Iterable[TopologyDomain]) -> TopologyAssignment:
        """Both together, in the order of the domains."""
        pods: dict[Values, int] = {}
        for domain in (*new.domains, *kept):
            pods[domain.values] = pods.get(domain.values, 0) + domain.pods
        order = sorted(pods, key=lambda values: self.tree.leaves[self.tree.leaf_key(values)].values)
        return TopologyAssignment(new.levels, tuple(TopologyDomain(values, pods[values]) for values in order))


def _shares(counts: Counts, shape: Shape) -> list[DomainShare]:
    """Leaves with their pods; raises NoPlacement."""
    found = _balanced_shares(counts, shape) if shape.balanced else None
    return Placer(counts, shape).place() if found is None else found


def _balanced_shares(counts: Counts, shape: Shape) -> list[DomainShare] | None:
    """Shares of the leaves in a balanced placement, if there is one."""
    found = place_balanced(counts, shape)
    if found is None:
        return None
    placer, level, shares = found
    try:
        return placer.split_down(level, shares)
    except NoPlacement:
        return None  # equal shares do not go into whole slices further down


def _loosened(request: TopologyRequest, count: int) -> TopologyRequest:
    """Slices that still make sense for a part of a slice: the innermost whose size divides the count."""
    if count % request.slices[0].size == 0:
        return request
    layer = next((layer for layer in reversed(request.slices) if count % layer.size == 0), None)
    return msgspec.structs.replace(request, slices=() if layer is None else (layer,))
