"""Topology-aware scheduling: where pods go, and what is said when they go nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Key, Obj, status_of
from corral.decide.queueing.cycle.plan import CyclePlan
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.topology.encoding import decode_assignment
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_pod_set,
    make_topology,
    make_workload,
    reserve,
)

BLOCK, RACK, HOST = "cloud/block", "cloud/rack", "kubernetes.io/hostname"
Layout = dict[str, tuple[str, str, int]]
"""Host to block, rack and cpus."""

#   b1: r1 (x1) r2 (x2 x3 x4)   b2: r1 (x5) r2 (x6, twice the size)
DEFAULT: Layout = {
    "x1": ("b1", "r1", 1),
    "x2": ("b1", "r2", 1),
    "x3": ("b1", "r2", 1),
    "x4": ("b1", "r2", 1),
    "x5": ("b2", "r1", 1),
    "x6": ("b2", "r2", 2),
}


def world(
    layout: Layout | None = None,
    levels: tuple[str, ...] = (BLOCK, RACK, HOST),
    quota: int = 50,
    settings: QueueingSettings | None = None,
    **queue: Any,
) -> QueueingWorld:
    built = QueueingWorld(settings)
    built.state.upsert_topology(make_topology("t", *levels))
    built.state.upsert_flavor(make_flavor("tas", nodeLabels={"tas": "true"}, topologyName="t"))
    for name, (block, rack, cpu) in (layout or DEFAULT).items():
        labels = {"tas": "true", BLOCK: block, RACK: rack}
        built.state.upsert_node(make_node(name, labels, cpu=str(cpu)))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": quota}}, **queue))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return built


def wants(name: str, count: int, mode: str | None = None, level: str = "", cpu: str = "1", **extra: Any) -> Obj:
    request: Obj = {}
    if mode == "unconstrained":
        request["unconstrained"] = True
    elif mode:
        request[mode] = level
    if "slice_level" in extra:
        request["podSetSliceRequiredTopology"] = extra.pop("slice_level")
        request["podSetSliceSize"] = extra.pop("slice_size")
    if "layers" in extra:
        request["podsetSliceRequiredTopologyConstraints"] = [
            {"topology": topology, "size": size} for topology, size in extra.pop("layers")
        ]
    pod_set = make_pod_set(
        "main",
        count,
        {"cpu": cpu},
        topology=request or None,
        min_count=extra.pop("min_count", None),
        **extra.pop("spec", {}),
    )
    return make_workload(name, "lq", pod_set, **extra)


def placed(plan: CyclePlan, name: str = "w", pod_set: str = "main") -> dict[str, int] | None:
    """Pods per host (or deepest domain) of an admission."""
    for admission in plan.admissions:
        if admission.key.name == name:
            entry = next(entry for entry in admission.pod_sets if entry.name == pod_set)
            assert entry.topology is not None
            return {"/".join(domain.values): domain.pods for domain in entry.topology.domains}
    return None


def message(plan: CyclePlan, name: str = "w") -> str:
    for decision in (*plan.waiting, *plan.preemptions):
        if decision.key.name == name:
            return decision.message
    return ""


# -- placement --------------------------------------------------------------------------------------------------------

PLACEMENTS = {
    "required rack gets scheduled": (DEFAULT, wants("w", 3, "required", RACK), {"x2": 1, "x3": 1, "x4": 1}),
    "required host takes the tightest": (DEFAULT, wants("w", 1, "required", HOST), {"x1": 1}),
    "required host takes the only one that fits": (DEFAULT, wants("w", 2, "required", HOST), {"x6": 2}),
    "required block takes the tightest block": (DEFAULT, wants("w", 3, "required", BLOCK), {"x5": 1, "x6": 2}),
    "preferred rack fits in one": (DEFAULT, wants("w", 2, "preferred", RACK), {"x6": 2}),
    "preferred rack climbs to the block": (
        DEFAULT,
        wants("w", 4, "preferred", RACK),
        {"x1": 1, "x2": 1, "x3": 1, "x4": 1},
    ),
    "preferred splits over blocks at last": (
        DEFAULT,
        wants("w", 6, "preferred", RACK),
        {"x1": 1, "x2": 1, "x3": 1, "x4": 1, "x6": 2},
    ),
    "unconstrained starts with the least free capacity": (DEFAULT, wants("w", 1, "unconstrained"), {"x1": 1}),
    "unconstrained fills small hosts first": (
        {"x1": ("b1", "r1", 3), "x2": ("b1", "r1", 1), "x3": ("b1", "r1", 2)},
        wants("w", 4, "unconstrained"),
        {"x1": 1, "x2": 1, "x3": 2},
    ),
    "without a request in a queue of topology flavors only, anywhere": (DEFAULT, wants("w", 1), {"x1": 1}),
    "slices stay within their domain": (
        {"x1": ("b1", "r1", 3), "x2": ("b1", "r2", 3), "x3": ("b1", "r3", 2)},
        wants("w", 4, "preferred", BLOCK, slice_level=RACK, slice_size=2),
        {"x1": 2, "x3": 2},
    ),
    "slices alone are enough of a request": (
        {"x1": ("b1", "r1", 3), "x2": ("b1", "r2", 5)},
        wants("w", 4, slice_level=HOST, slice_size=4),
        {"x2": 4},
    ),
    "nested slices": (
        {f"x{n}": ("b1", f"r{n // 2}", 2) for n in range(6)},
        wants("w", 8, "required", BLOCK, layers=[(RACK, 4), (HOST, 2)]),
        {"x0": 2, "x1": 2, "x2": 2, "x3": 2},
    ),
}


@pytest.mark.parametrize("name", PLACEMENTS, ids=list(PLACEMENTS))
def test_placement(name: str) -> None:
    layout, workload, expected = PLACEMENTS[name]
    built = world(layout)
    built.put(workload)
    assert placed(built.cycle()) == expected


def test_lowest_levels_above_hosts_are_recorded_in_full() -> None:
    built = world(levels=(BLOCK, RACK))
    built.put(wants("w", 3, "required", RACK))
    assert placed(built.cycle()) == {"b1/r2": 3}


FAILURES = {
    "a level too small for all pods": (
        wants("w", 4, "required", RACK),
        'couldn\'t assign flavors to pod set main: topology "t" allows to fit only 3 out of 4 pod(s)',
    ),
    "pods larger than any node": (
        wants("w", 1, "required", HOST, cpu="5"),
        "couldn't assign flavors to pod set main: topology \"t\" doesn't allow to fit any of 1 pod(s). "
        'Total nodes: 6; excluded: resource "cpu": 6',
    ),
    "a selector no node matches": (
        wants("w", 1, "required", HOST, spec={"nodeSelector": {"gpu": "yes"}}),
        "couldn't assign flavors to pod set main: topology \"t\" doesn't allow to fit any of 1 pod(s). "
        "Total nodes: 6; excluded: nodeSelector: 6",
    ),
    "a level the topology does not have": (
        wants("w", 1, "required", "cloud/zone"),
        'couldn\'t assign flavors to pod set main: Flavor "tas" does not contain the requested level',
    ),
    "nested slices whose sizes do not fit": (
        wants("w", 4, "required", BLOCK, layers=[(RACK, 4), (HOST, 4)]),
        "couldn't assign flavors to pod set main: topology \"t\" doesn't allow to fit; 0/1 slice(s) fit on level "
        "cloud/rack; 0/1 slice(s) fit on level kubernetes.io/hostname",
    ),
}


@pytest.mark.parametrize("name", FAILURES, ids=list(FAILURES))
def test_no_placement(name: str) -> None:
    workload, text = FAILURES[name]
    built = world()
    built.put(workload)
    assert message(built.cycle()) == text


def test_nodes_that_are_not_ready_or_cordoned_do_not_count() -> None:
    built = world({"x1": ("b1", "r1", 1)})
    node = make_node("x1", {"tas": "true", BLOCK: "b1", RACK: "r1"}, cpu="1")
    built.state.upsert_node({**node, "spec": {"unschedulable": True}})
    built.put(wants("w", 1, "required", HOST))
    assert message(built.cycle()).endswith(f"no topology domains at level: {HOST}")
    built.state.upsert_node(node)
    assert placed(built.cycle()) == {"x1": 1}


def test_a_taint_on_a_node_needs_a_toleration_of_pod_or_flavor() -> None:
    taint = {"key": "example.com/gpu", "value": "present", "effect": "NoSchedule"}
    built = world({"x1": ("b1", "r1", 1)})
    built.state.upsert_node(make_node("x1", {"tas": "true", BLOCK: "b1", RACK: "r1"}, [taint], cpu="1"))
    built.put(wants("w", 1, "required", HOST))
    assert 'excluded: taint "example.com/gpu=present:NoSchedule": 1' in message(built.cycle())
    tolerations = [{"key": "example.com/gpu", "operator": "Exists"}]
    built.state.upsert_flavor(make_flavor("tas", nodeLabels={"tas": "true"}, topologyName="t", tolerations=tolerations))
    assert placed(built.cycle()) == {"x1": 1}


def test_node_affinity_is_honoured() -> None:
    built = world()
    term = {"matchExpressions": [{"key": RACK, "operator": "NotIn", "values": ["r1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    built.put(wants("w", 1, "required", HOST, spec={"affinity": affinity}))
    assert placed(built.cycle()) == {"x2": 1}


# -- what is used -----------------------------------------------------------------------------------------------------


def test_workloads_do_not_share_what_is_taken() -> None:
    built = world({"x1": ("b1", "r1", 3)})
    built.put(wants("a", 2, "required", HOST), wants("b", 2, "required", HOST, created=1))
    plan = built.cycle()
    assert placed(plan, "a") == {"x1": 2}
    assert message(plan, "b").startswith(
        'couldn\'t assign flavors to pod set main: topology "t" allows to fit only 1 out of 2'
    )
    built.finish("a")
    assert placed(built.cycle(), "b") == {"x1": 2}


def test_pods_outside_topology_scheduling_take_room_until_they_end() -> None:
    built = world({"x1": ("b1", "r1", 2)})
    pod = {
        "metadata": {"name": "daemon", "namespace": "kube-system"},
        "spec": {"nodeName": "x1", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    }
    built.state.upsert_pod(pod)
    built.put(wants("w", 2, "required", HOST))
    assert placed(built.cycle()) is None
    built.state.upsert_pod({**pod, "status": {"phase": "Succeeded"}})
    assert placed(built.cycle()) == {"x1": 2}


def test_the_number_of_pods_a_node_takes_is_a_limit() -> None:
    built = world({"x1": ("b1", "r1", 10)})
    built.state.upsert_node(make_node("x1", {"tas": "true", BLOCK: "b1", RACK: "r1"}, cpu="10", pods="2"))
    built.put(wants("w", 3, "required", HOST))
    assert "allows to fit only 2 out of 3 pod(s)" in message(built.cycle())


def test_flavors_that_share_nodes_share_their_usage() -> None:
    built = world({"x1": ("b1", "r1", 1)})
    built.state.upsert_flavor(make_flavor("sibling", nodeLabels={"tas": "true"}, topologyName="t"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq2", {"sibling": {"cpu": 50}}))
    built.state.upsert_local_queue(make_local_queue("lq2", "cq2"))
    built.put(wants("a", 1, "required", HOST))
    built.cycle()
    other = wants("b", 1, "required", HOST)
    other["spec"]["queueName"] = "lq2"
    built.put(other)
    assert placed(built.cycle(), "b") is None
    built.finish("a")
    assert placed(built.cycle(), "b") == {"x1": 1}


def test_usage_on_a_node_that_went_away_is_there_when_it_returns() -> None:
    built = world({"x1": ("b1", "r1", 1)})
    built.put(wants("a", 1, "required", HOST))
    built.cycle()
    built.state.delete_node("x1")
    built.put(wants("b", 1, "required", HOST, created=1))
    built.cycle()
    built.state.upsert_node(make_node("x1", {"tas": "true", BLOCK: "b1", RACK: "r1"}, cpu="1"))
    assert placed(built.cycle(), "b") is None
    built.finish("a")
    assert placed(built.cycle(), "b") == {"x1": 1}


def test_pod_sets_of_one_workload_do_not_overlap() -> None:
    built = world({"x1": ("b1", "r1", 1), "x2": ("b1", "r1", 1)})
    sets = [make_pod_set(name, 1, {"cpu": "1"}, topology={"required": HOST}) for name in ("a", "b")]
    built.put(make_workload("w", "lq", *sets))
    plan = built.cycle()
    assert (placed(plan, pod_set="a"), placed(plan, pod_set="b")) == ({"x1": 1}, {"x2": 1})


def test_a_leader_goes_with_its_workers() -> None:
    built = world({"x1": ("b1", "r1", 1), "x2": ("b1", "r2", 2), "x3": ("b1", "r2", 1)})
    leader = make_pod_set("leader", 1, {"cpu": "1"}, topology={"required": RACK, "podSetGroupName": "g"})
    workers = make_pod_set("workers", 2, {"cpu": "1"}, topology={"required": RACK, "podSetGroupName": "g"})
    built.put(make_workload("w", "lq", leader, workers))
    plan = built.cycle()
    hosts = {**placed(plan, pod_set="leader"), **placed(plan, pod_set="workers")}  # type: ignore[dict-item]
    assert set(hosts) == {"x2", "x3"}
    assert sum(placed(plan, pod_set="workers").values()) == 2  # type: ignore[union-attr]


def test_partial_admission_trims_to_what_fits_on_nodes() -> None:
    built = world({"x1": ("b1", "r1", 5)})
    built.put(wants("w", 10, "required", HOST, min_count=1))
    assert placed(built.cycle()) == {"x1": 5}


# -- flavors ----------------------------------------------------------------------------------------------------------


def mixed(workload: Obj, order: tuple[str, str] = ("plain", "tas")) -> CyclePlan:
    built = world()
    built.state.upsert_flavor(make_flavor("plain"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {name: {"cpu": 50} for name in order}))
    built.put(workload)
    return built.cycle()


def flavor_used(plan: CyclePlan) -> str:
    (admission,) = plan.admissions
    return admission.pod_sets[0].flavors["cpu"]


def test_a_workload_requiring_topology_skips_the_flavor_without() -> None:
    assert flavor_used(mixed(wants("w", 1, "required", RACK))) == "tas"


def test_a_workload_which_does_not_need_topology_skips_the_flavor_with() -> None:
    assert flavor_used(mixed(wants("w", 1), ("tas", "plain"))) == "plain"


def test_flavors_say_why_they_do_not_match() -> None:
    built = world(quota=0)
    built.state.upsert_flavor(make_flavor("plain"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"plain": {"cpu": 5}, "tas": {"cpu": 0}}))
    built.put(wants("w", 1, "required", RACK))
    assert 'Flavor "plain" does not support TopologyAwareScheduling' in message(built.cycle())
    built = world()
    built.state.upsert_flavor(make_flavor("plain"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"plain": {"cpu": 0}, "tas": {"cpu": 5}}))
    built.put(wants("w", 1))
    assert 'Flavor "tas" supports only TopologyAwareScheduling' in message(built.cycle())


# -- preemption -------------------------------------------------------------------------------------------------------


def test_a_lower_priority_workload_is_preempted_for_room_on_nodes() -> None:
    built = world({"x1": ("b1", "r1", 1), "x2": ("b1", "r1", 1)}, within="LowerPriority")
    built.put(wants("low", 1, "required", HOST), wants("mid", 1, "required", HOST, priority=1, created=1))
    built.cycle()
    built.put(wants("w", 1, "required", HOST, priority=5, created=2))
    plan = built.cycle()
    assert [victim.key.name for preemption in plan.preemptions for victim in preemption.victims] == ["low"]
    built.vacate()
    assert placed(built.cycle()) == {"x2": 1}


def test_fragmented_capacity_needs_preemption_although_there_is_enough_in_sum() -> None:
    built = world({"x1": ("b1", "r1", 2), "x2": ("b1", "r1", 2)}, within="LowerPriority")
    for name, host in (("a", "x1"), ("b", "x2")):
        built.put(wants(name, 1, "required", HOST, spec={"nodeSelector": {HOST: host}}))
    built.cycle()
    built.put(wants("w", 2, "required", HOST, priority=5))
    assert len([victim for preemption in built.cycle().preemptions for victim in preemption.victims]) == 1


def test_equal_priority_waits_for_others_to_complete() -> None:
    built = world({"x1": ("b1", "r1", 1)}, within="LowerPriority")
    built.put(wants("a", 1, "required", HOST))
    built.cycle()
    built.put(wants("w", 1, "required", HOST, created=1))
    plan = built.cycle()
    assert not list(plan.preemptions)
    assert message(plan)


# -- several queues in one round --------------------------------------------------------------------------------------


def two_queues(cpu: int = 1, **features: bool) -> QueueingWorld:
    settings = QueueingSettings(features=Features(**features), max_rounds=1)
    built = world({"x1": ("b1", "r1", cpu), "x2": ("b1", "r1", 1)}, settings=settings, cohort="co")
    built.state.upsert_cluster_queue(make_cluster_queue("cq2", {"tas": {"cpu": 50}}, cohort="co"))
    built.state.upsert_local_queue(make_local_queue("lq2", "cq2"))
    other = wants("b", 1, "required", HOST, created=1)
    other["spec"]["queueName"] = "lq2"
    built.put(wants("a", 1, "required", HOST), other)
    return built


def test_two_workloads_nominated_to_the_same_node_are_both_admitted_when_recomputing() -> None:
    plan = two_queues().cycle()
    assert (placed(plan, "a"), placed(plan, "b")) == ({"x1": 1}, {"x2": 1})


def test_without_recomputing_the_second_waits_for_the_next_round() -> None:
    built = two_queues(topology_recompute=False)
    plan = built.cycle()
    assert (placed(plan, "a"), placed(plan, "b")) == ({"x1": 1}, None)
    assert message(plan, "b") == "Workload no longer fits after processing another workload"
    assert placed(built.cycle(), "b") == {"x2": 1}


# -- second pass ------------------------------------------------------------------------------------------------------


def running(
    name: str, count: int, mode: str, level: str, domains: dict[str, int], unhealthy: str = "", **extra: Any
) -> Obj:
    workload = wants(name, count, mode, level, **extra)
    assignment = make_assignment("main", {"cpu": "tas"}, {"cpu": count}, count)
    assignment["topologyAssignment"] = {
        "levels": [HOST],
        "domains": [{"values": [host], "count": pods} for host, pods in domains.items()],
    }
    workload = reserve(workload, "cq", assignment)
    if unhealthy:
        workload["status"]["unhealthyNodes"] = [{"name": unhealthy}]
    return workload


def replacement(layout: Layout, workload: Obj, **features: bool) -> tuple[dict[str, int] | None, list[str]]:
    built = world(layout, settings=QueueingSettings(features=Features(**features)))
    built.put(workload)
    plan = built.cycle()
    return placed(plan), [eviction.message for eviction in plan.evictions]


RACKS: Layout = {
    "x1": ("b1", "r1", 1),
    "x2": ("b1", "r1", 1),
    "x3": ("b1", "r1", 1),
    "y1": ("b1", "r2", 1),
    "y2": ("b1", "r2", 2),
}


def test_a_failed_node_is_replaced_and_the_others_stay() -> None:
    found, _ = replacement(RACKS, running("w", 2, "preferred", RACK, {"x1": 1, "x2": 1}, "x1"))
    assert found is not None
    assert found.pop("x2") == 1
    assert sum(found.values()) == 1
    assert "x1" not in found or found == {"x1": 1}


def test_a_required_rack_is_kept() -> None:
    layout = {name: entry for name, entry in RACKS.items() if name != "x1"}
    found, _ = replacement(layout, running("w", 2, "required", RACK, {"x1": 1, "x2": 1}, "x1"))
    assert found == {"x2": 1, "x3": 1}


def test_a_required_rack_without_room_evicts_at_once() -> None:
    layout: Layout = {"x2": ("b1", "r1", 1), "y1": ("b1", "r2", 4)}
    found, evicted = replacement(layout, running("w", 2, "required", RACK, {"x1": 1, "x2": 1}, "x1"))
    assert found is None
    assert evicted == ["Workload was evicted as there was no replacement for unhealthy node(s): x1"]


def test_without_fail_fast_a_workload_waits_for_a_replacement() -> None:
    layout: Layout = {"x2": ("b1", "r1", 1)}
    workload = running("w", 2, "required", RACK, {"x1": 1, "x2": 1}, "x1")
    built = world(layout, settings=QueueingSettings(features=Features(topology_fail_fast=False)))
    built.put(workload)
    plan = built.cycle()
    assert not list(plan.evictions)
    assert "doesn't allow to fit any of 1 pod(s)" in message(plan)
    assert not built.cycle().decisions
    built.state.upsert_node(make_node("x9", {"tas": "true", BLOCK: "b1", RACK: "r1"}, cpu="1"))
    assert placed(built.cycle()) == {"x2": 1, "x9": 1}


def test_a_broken_slice_is_repaired_in_its_own_domain() -> None:
    layout: Layout = {"x2": ("b1", "r1", 2), "x3": ("b1", "r1", 1), "y1": ("b1", "r2", 9)}
    workload = running("w", 4, "preferred", BLOCK, {"x1": 1, "x2": 1, "y1": 2}, "x1", slice_level=RACK, slice_size=2)
    found, _ = replacement(layout, workload)
    assert found is not None
    assert found["y1"] == 2
    assert {host for host in found if host.startswith("x")} <= {"x2", "x3"}


def test_a_workload_on_a_node_that_is_gone_elsewhere_cannot_be_repaired() -> None:
    layout: Layout = {"x3": ("b1", "r1", 4)}
    _, evicted = replacement(layout, running("w", 2, "preferred", RACK, {"x1": 1, "gone": 1}, "x1"))
    assert evicted


def test_topology_waits_for_a_provisioning_check_and_comes_in_a_second_pass() -> None:
    built = world({"x1": ("b1", "r1", 4)})
    built.state.upsert_admission_check(
        {
            "metadata": {"name": "prov"},
            "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"},
            "status": {"conditions": [{"type": "Active", "status": "True"}]},
        }
    )
    built.state.upsert_cluster_queue(
        make_cluster_queue("cq", {"tas": {"cpu": 50}}, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    )
    built.put(wants("w", 2, "required", HOST))
    (admission,) = built.cycle().admissions
    assert admission.checks == ("prov",)
    assert admission.pod_sets[0].delayed_topology == "Pending"
    assert admission.pod_sets[0].topology is None
    workload = built.get("w")
    update = {"name": "main", "nodeSelector": {HOST: "x1"}}
    checks = [{"name": "prov", "state": "Ready", "podSetUpdates": [update]}]
    built.put({**workload, "status": {**status_of(workload), "admissionChecks": checks}})
    plan = built.state.plan_cycle(EPOCH)
    (second,) = plan.admissions
    assert second.second_pass
    assert second.pod_sets[0].delayed_topology == "Ready"
    assert placed(plan) == {"x1": 2}


def test_with_multikueue_the_worker_places_the_pods() -> None:
    built = world({"x1": ("b1", "r1", 4)})
    built.state.upsert_admission_check(
        {
            "metadata": {"name": "mk"},
            "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
            "status": {"conditions": [{"type": "Active", "status": "True"}]},
        }
    )
    built.state.upsert_cluster_queue(
        make_cluster_queue("cq", {"tas": {"cpu": 50}}, admissionChecksStrategy={"admissionChecks": [{"name": "mk"}]})
    )
    built.put(wants("w", 2, "required", HOST))
    (admission,) = built.cycle().admissions
    assert admission.pod_sets[0].delayed_topology == "Pending"


# -- recorded form ----------------------------------------------------------------------------------------------------


def test_what_is_written_reads_back_the_same() -> None:
    built = world({f"node-{n:02}.zone": ("b1", "r1", 1) for n in range(12)})
    built.put(wants("w", 12, "required", RACK))
    (admission,) = built.cycle().admissions
    written = admission.admission["podSetAssignments"][0]["topologyAssignment"]
    assert decode_assignment(written) == admission.pod_sets[0].topology
    (entry,) = written["slices"]
    assert entry["podCounts"] == {"universal": 1}
    assert entry["valuesPerLevel"][0]["individual"]["prefix"] == "node-"
    assert entry["valuesPerLevel"][0]["individual"]["suffix"] == ".zone"


def test_a_restart_counts_what_is_recorded() -> None:
    built = world({"x1": ("b1", "r1", 2)})
    built.put(running("old", 2, "required", HOST, {"x1": 2}), wants("w", 1, "required", HOST))
    assert placed(built.cycle()) is None
    assert built.state.questions.explain(Key("default", "old")).state == "admitted"  # type: ignore[union-attr]


def test_usage_survives_a_topology_that_comes_back_with_other_levels() -> None:
    built = world({"x1": ("b1", "r1", 2)})
    built.put(running("old", 2, "required", HOST, {"x1": 2}))
    built.cycle()
    built.state.delete_topology("t")
    built.state.plan_cycle(EPOCH)
    built.state.upsert_topology(make_topology("t", RACK, HOST))
    built.put(wants("w", 1, "required", HOST))
    assert placed(built.cycle()) is None
    built.finish("old")
    assert placed(built.cycle()) == {"x1": 1}


def test_workloads_may_be_known_before_nodes_and_topologies() -> None:
    built = QueueingWorld()
    built.put(running("old", 2, "required", HOST, {"x1": 2}), wants("w", 1, "required", HOST))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 50}}))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    built.state.upsert_node(make_node("x1", {"tas": "true"}, cpu="2"))
    built.state.upsert_flavor(make_flavor("tas", nodeLabels={"tas": "true"}, topologyName="t"))
    built.state.upsert_topology(make_topology("t", HOST))
    assert placed(built.cycle()) is None
    built.finish("old")
    assert placed(built.cycle()) == {"x1": 1}


def test_every_queue_sees_new_nodes_whatever_made_us_look() -> None:
    built = world({"x1": ("b1", "r1", 1)})
    built.state.upsert_node(make_node("x2", {"tas": "true", BLOCK: "b1", RACK: "r1"}, cpu="5"))
    built.state.upsert_cluster_queue(make_cluster_queue("another", {"tas": {"cpu": 1}}))
    built.put(wants("w", 5, "required", HOST))
    assert placed(built.cycle()) == {"x2": 5}
