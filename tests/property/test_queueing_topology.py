"""Incremental topology counts equal counts from scratch, remembered placements those of a cluster that remembers nothing, and
placements never use more than there is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.meta import Key
from corral.decide.queueing.model.settings import Features
from corral.decide.queueing.model.values import (
    FlavorSpec,
    NodeSpec,
    SliceLayer,
    TopologyRequest,
    TopologySpec,
    WorkloadInfo,
)
from corral.decide.queueing.topology.capacity import PodSetPlacement
from corral.decide.queueing.topology.cluster import TopologyCluster
from corral.decide.queueing.topology.counts import Capacity, Counts

BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
NOBODY = WorkloadInfo(Key("", ""), "", "", 0, 0, 0.0, 0.0, (), ())
modest = settings(max_examples=80, deadline=None)

layouts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=10)


def cluster_of(layout: list[tuple[int, int, int]]) -> TopologyCluster:
    cluster = TopologyCluster()
    cluster.set_topology(TopologySpec("t", (BLOCK, RACK, HOST)))
    cluster.set_flavor(FlavorSpec("f", topology="t"))
    for index, (block, rack, cpu) in enumerate(layout):
        name = f"n{index}"
        labels = {BLOCK: f"b{block}", RACK: f"r{rack}", HOST: name}
        cluster.set_node(NodeSpec(name, labels, allocatable={"cpu": cpu, "pods": 10}))
    cluster.settle()
    return cluster


@st.composite
def requests(draw: st.DrawFn) -> TopologyRequest:
    kind = draw(st.sampled_from(("required", "preferred", "unconstrained", "slices", "nested")))
    level = draw(st.sampled_from((BLOCK, RACK, HOST)))
    if kind == "required":
        return TopologyRequest(required=level)
    if kind == "preferred":
        return TopologyRequest(preferred=level)
    if kind == "slices":
        return TopologyRequest(preferred=BLOCK, slices=(SliceLayer(draw(st.sampled_from((RACK, HOST))), 2),))
    if kind == "nested":
        return TopologyRequest(required=BLOCK, slices=(SliceLayer(RACK, 4), SliceLayer(HOST, 2)))
    return TopologyRequest(unconstrained=True)


steps = st.lists(st.tuples(requests(), st.integers(1, 8), st.integers(1, 2), st.booleans()), max_size=12)


@modest
@given(layouts, steps, st.booleans())
def test_placements_stay_within_nodes_and_counts_stay_true(
    layout: list[tuple[int, int, int]], plan: list[tuple[TopologyRequest, int, int, bool]], balanced: bool
) -> None:
    cluster = cluster_of(layout)
    capacity = cluster.capacities["f"]
    held: list[list[tuple[tuple[str, ...], dict[str, int], int]]] = []
    for request, count, cpu, leave in plan:
        if request.slices:
            count -= count % request.slices[0].size
        if count == 0:
            continue
        if leave and held:
            cluster.change("f", held.pop(0), -1)
        pods = PodSetPlacement("main", count, {"cpu": cpu}, topology=request)
        features = Features(topology_balanced=balanced)
        result = cluster.find(cluster.capacities, {"f": [pods]}, NOBODY, features)
        newcomer = cluster_of(layout)
        for domains in held:
            newcomer.change("f", domains, 1)
        assert result == newcomer.find(newcomer.capacities, {"f": [pods]}, NOBODY, features)
        if balanced:
            usual = cluster.find(cluster.capacities, {"f": [pods]}, NOBODY, Features())
            assert (usual.failure is None) == (result.failure is None)
        if result.failure is None:
            domains = [(domain.values, {"cpu": cpu}, domain.pods) for domain in result.assignments["main"].domains]
            assert sum(amount for _, _, amount in domains) == count
            assert capacity.fits(domains)
            assert_keeps_request(request, domains, layout)
            cluster.change("f", domains, 1)
            held.append(domains)
        for leaf in capacity.tree.leaves.values():
            used = capacity.usage.get(leaf.key, {})
            assert all(used.get(name, 0) <= leaf.allocatable[name] for name in ("cpu", "pods"))
        assert_counts_are_fresh(cluster)


@modest
@given(layouts, steps)
def test_forgetting_old_changes_changes_nothing(
    layout: list[tuple[int, int, int]], plan: list[tuple[TopologyRequest, int, int, bool]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corral.decide.queueing.topology.capacity._KEPT_CHANGES", 1)
        test_placements_stay_within_nodes_and_counts_stay_true.hypothesis.inner_test(layout, plan, False)  # type: ignore[attr-defined]


def assert_counts_are_fresh(cluster: TopologyCluster) -> None:
    capacity = cluster.capacities["f"]
    for key, table in capacity._tables.items():
        table.refresh(Capacity(capacity.usage), capacity._changes[table.seen :])
        fresh = Counts(key, capacity.tree, Capacity(capacity.usage), ())
        assert (table.pods, table.slices) == (fresh.pods, fresh.slices)
        for (group, fullest), domains in (table._in_order or {}).items():
            assert domains == sorted(domains, key=fresh.order(fullest=fullest))
            levels = capacity.tree.by_level
            whole = levels[group] if group < len(levels) else capacity.tree.domains[group - len(levels)].children
            assert set(domains) == set(whole)


def assert_keeps_request(
    request: TopologyRequest,
    domains: list[tuple[tuple[str, ...], dict[str, int], int]],
    layout: list[tuple[int, int, int]],
) -> None:
    place = {
        f"n{index}": (f"b{block}", f"b{block}/r{rack}", f"n{index}") for index, (block, rack, _) in enumerate(layout)
    }
    depth = {BLOCK: 0, RACK: 1, HOST: 2}
    if request.required:
        assert len({place[values[-1]][depth[request.required]] for values, _, _ in domains}) == 1
    for layer in request.slices:
        held: dict[str, int] = {}
        for values, _, pods in domains:
            at = place[values[-1]][depth[layer.topology]]
            held[at] = held.get(at, 0) + pods
        assert all(pods % layer.size == 0 for pods in held.values())
