"""More of topology-aware scheduling, by the numbers of the scenario list."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_topology import BLOCK, HOST, RACK, Layout, message, placed, replacement, running, wants, world

from corral.decide.queueing.plan import CyclePlan
from corral.testing.queueing import (
    QueueingWorld,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_pod_set,
    make_topology,
    make_workload,
)

ONE: Layout = {"x1": ("b1", "r1", 4)}
TWO: Layout = {"x1": ("b1", "r1", 2), "x2": ("b1", "r1", 2)}


def half_full(mode: str, level: str = "") -> CyclePlan:
    """Two more pods where two of three hosts have one cpu left each."""
    built = world({"x1": ("b1", "r1", 2), "x2": ("b1", "r1", 2), "x3": ("b1", "r2", 1)})
    built.put(running("a", 1, "required", HOST, {"x1": 1}), running("b", 1, "required", HOST, {"x2": 1}))
    built.put(wants("w", 2, mode, level, created=5))
    return built.cycle()


def nothing_to_place() -> None:
    built = world(ONE)
    built.put(wants("w", 0, "required", HOST))
    (admission,) = built.cycle().admissions
    assert admission.pod_sets[0].count == 0


def mixed_pod_sets() -> None:
    built = world(ONE)
    built.state.upsert_flavor(make_flavor("plain"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"plain": {"cpu": 9}, "tas": {"cpu": 9}}))
    placed_one = make_pod_set("placed", 1, {"cpu": "1"}, topology={"required": HOST})
    built.put(make_workload("w", "lq", placed_one, make_pod_set("free", 1, {"cpu": "1"})))
    (admission,) = built.cycle().admissions
    assert [entry.flavors["cpu"] for entry in admission.pod_sets] == ["tas", "plain"]
    assert [entry.topology is not None for entry in admission.pod_sets] == [True, False]


def level_of_the_second_flavor() -> None:
    built = world(ONE, levels=(HOST,))
    built.state.upsert_topology(make_topology("deep", RACK, HOST))
    built.state.upsert_flavor(make_flavor("second", nodeLabels={"tas": "true"}, topologyName="deep"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 9}, "second": {"cpu": 9}}))
    built.put(wants("w", 1, "required", RACK))
    (admission,) = built.cycle().admissions
    assert admission.pod_sets[0].flavors == {"cpu": "second"}


def two_resources() -> None:
    built = world(ONE)
    labels = {"tas": "true", BLOCK: "b1", RACK: "r1"}
    built.state.upsert_node(make_node("x1", labels, cpu="4", memory="4Gi"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 9, "memory": "9Gi"}}))
    for number, name in enumerate(("a", "b", "c")):
        pod_set = make_pod_set("main", 1, {"cpu": "1", "memory": "2Gi"}, topology={"required": HOST})
        built.put(make_workload(name, "lq", pod_set, created=number))
    plan = built.cycle()
    assert (placed(plan, "a"), placed(plan, "b"), placed(plan, "c")) == ({"x1": 1}, {"x1": 1}, None)


def node_of_another_is_gone() -> None:
    built = world(TWO)
    built.put(running("old", 2, "required", HOST, {"x1": 2}))
    built.cycle()
    built.state.delete_node("x1")
    built.put(wants("w", 2, "required", HOST, created=5))
    assert placed(built.cycle()) == {"x2": 2}


def no_request_at_all() -> None:
    built = world(ONE)
    built.put(wants("w", 1, "required", HOST, cpu="0"))
    assert placed(built.cycle()) == {"x1": 1}


def partly_empty_unconstrained() -> None:
    found = placed(half_full("unconstrained"))
    assert found is not None
    assert sum(found.values()) == 2


def partly_empty_preferred() -> None:
    assert placed(half_full("preferred", RACK)) == {"x1": 1, "x2": 1}


def partly_empty_required() -> None:
    assert placed(half_full("required", RACK)) == {"x1": 1, "x2": 1}


def another_rack_when_preferred() -> None:
    layout: Layout = {"x2": ("b1", "r1", 1), "y1": ("b1", "r2", 1)}
    found, _ = replacement(layout, running("w", 2, "preferred", RACK, {"x1": 1, "x2": 1}, "x1"))
    assert found == {"x2": 1, "y1": 1}


def no_room_anywhere() -> None:
    layout: Layout = {"x2": ("b1", "r1", 1)}
    built = running("w", 2, "preferred", RACK, {"x1": 1, "x2": 1}, "x1")
    found, evicted = replacement(layout, built, topology_fail_fast=False)
    assert (found, evicted) == (None, [])


def single_node_in_its_rack() -> None:
    layout: Layout = {"x2": ("b1", "r1", 1), "y1": ("b1", "r2", 1)}
    found, _ = replacement(layout, running("w", 1, "required", RACK, {"x1": 1}, "x1"))
    assert found is not None
    assert sum(found.values()) == 1


def in_a_cohort(layout: Layout, **spec: object) -> QueueingWorld:
    built = world(layout, quota=2, cohort="co", **spec)
    built.state.upsert_cluster_queue(make_cluster_queue("cq2", {"tas": {"cpu": 2}}, cohort="co"))
    built.state.upsert_local_queue(make_local_queue("lq2", "cq2"))
    return built


def borrows() -> None:
    built = in_a_cohort(ONE)
    built.put(wants("w", 4, "required", HOST))
    assert placed(built.cycle()) == {"x1": 4}


def reclaims() -> None:
    built = in_a_cohort(ONE, reclaim="Any")
    borrower = wants("borrower", 4, "required", HOST)
    borrower["spec"]["queueName"] = "lq2"
    built.put(borrower)
    built.cycle()
    built.put(wants("w", 2, "required", HOST, created=5))
    plan = built.cycle()
    assert [victim.key.name for entry in plan.preemptions for victim in entry.victims] == ["borrower"]


def two_small_ones(layout: Layout, expected: tuple[dict[str, int], dict[str, int]]) -> Callable[[], None]:
    def check() -> None:
        built = in_a_cohort(layout)
        other = wants("b", 1, "required", HOST, created=1)
        other["spec"]["queueName"] = "lq2"
        built.put(wants("a", 1, "required", HOST), other)
        plan = built.cycle()
        assert (placed(plan, "a"), placed(plan, "b")) == expected

    return check


def two_pod_sets_are_too_many_pods() -> None:
    built = world(ONE)
    built.state.upsert_node(make_node("x1", {"tas": "true", BLOCK: "b1", RACK: "r1"}, cpu="9", pods="3"))
    sets = [make_pod_set(name, 2, {"cpu": "1"}, topology={"required": HOST}) for name in ("a", "b")]
    built.put(make_workload("w", "lq", *sets))
    plan = built.cycle()
    assert not list(plan.admissions)
    assert "allows to fit only 1 out of 2 pod(s)" in message(plan)


CASES: dict[str, Callable[[], None]] = {
    "TAS-03 no pods": nothing_to_place,
    "TAS-09 another rack when preferred": another_rack_when_preferred,
    "TAS-10 no room anywhere": no_room_anywhere,
    "TAS-16 a single node": single_node_in_its_rack,
    "TAS-35 pod sets with and without": mixed_pod_sets,
    "TAS-38 only the second flavor has the level": level_of_the_second_flavor,
    "TAS-43 two resources": two_resources,
    "TAS-47 the node of another is gone": node_of_another_is_gone,
    "TAS-53 no request": no_request_at_all,
    "TAS-57 partly empty, unconstrained": partly_empty_unconstrained,
    "TAS-58 partly empty, preferred": partly_empty_preferred,
    "TAS-59 partly empty, required": partly_empty_required,
    "TAS-90 two pod sets are too many pods": two_pod_sets_are_too_many_pods,
    "TAS-91 borrows": borrows,
    "TAS-92 reclaims": reclaims,
    "TAS-96 two small ones on two nodes": two_small_ones(
        {"x1": ("b1", "r1", 1), "x2": ("b1", "r1", 1)}, ({"x1": 1}, {"x2": 1})
    ),
    "TAS-97 two small ones on one node": two_small_ones({"x1": ("b1", "r1", 2)}, ({"x1": 1}, {"x1": 1})),
}


@pytest.mark.parametrize("name", CASES)
def test_topology(name: str) -> None:
    CASES[name]()
