"""Flavors whose nodes form a topology: what is assigned, what is refused, and where the search goes on."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Key, Obj
from corral.decide.queueing.cycle.assignment import Assignment, Cursor, FlavorChoice, Mode, PodSetChoice
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.nomination import _total_requests
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.model.settings import Features, QueueingSettings, Transformation
from corral.decide.queueing.model.values import FlavorResource, TopologyAssignment, TopologyDomain
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.decide.queueing.topology.assigning import topology_usage
from corral.testing.queueing import (
    EPOCH,
    Flavors,
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

HOST = "kubernetes.io/hostname"
ON_HOST = {"required": HOST}
MIB, GIB = 2**20, 2**30


def world(
    *groups: Flavors,
    nodes: dict[str, dict[str, str]] | None = None,
    settings: QueueingSettings | None = None,
    **cq: Any,
) -> QueueingWorld:
    """Flavors named `tas-…` have a topology of hosts, with the nodes whose label `pool` is their name."""
    built = QueueingWorld(settings or QueueingSettings(features=Features(granular_reasons=True)))
    built.state.upsert_topology(make_topology("hosts", HOST))
    for name in {flavor: None for group in groups for flavor in group}:
        spec = {"topologyName": "hosts", "nodeLabels": {"pool": name}} if name.startswith("tas") else {}
        built.state.upsert_flavor(make_flavor(name, **spec))
    for name, allocatable in (nodes or {}).items():
        pool, _, host = name.partition("/")
        built.state.upsert_node(make_node(host, {"pool": pool}, **allocatable))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", *groups, **cq))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return built


def nominate(built: QueueingWorld, workload: Obj) -> Entry:
    """Give one workload flavors and places, nothing more."""
    built.put(workload)
    built.state.settle()
    (entry,) = built.state._cycle._heads()
    built.state._cycle._nominate(entry)
    return entry


def pods(name: str, count: int = 1, group: str = "", explicit: bool = True, **requests: str | int) -> Obj:
    topology = {**(ON_HOST if explicit else {}), **({"podSetGroupName": group} if group else {})}
    return make_pod_set(name, count, requests, topology=topology or None)


def flavors(entry: Entry) -> dict[str, dict[str, str]]:
    return {
        choice.name: {resource: found.flavor for resource, found in choice.flavors.items()}
        for choice in entry.nominated.pod_sets
    }


def errors(entry: Entry) -> dict[str, str]:
    return {choice.name: choice.error for choice in entry.nominated.pod_sets if choice.error}


NO_INFORMATION = "workload requires Topology, but there is no TAS cache information"
TWO_FLAVORS = "more than one TAS flavor assigned: tas-a, tas-b"


def test_flv_59_resources_on_two_topology_flavors_lead_to_no_fit() -> None:
    built = world({"tas-a": {"cpu": 10}}, {"tas-b": {"memory": "10Mi"}})
    entry = nominate(built, make_workload("w", "lq", pods("main", cpu=1, memory="1Mi")))
    assert flavors(entry) == {"main": {"cpu": "tas-a", "memory": "tas-b"}}
    assert errors(entry) == {"main": TWO_FLAVORS}
    assert entry.nominated.mode is Mode.NO_FIT
    columns = {FlavorResource("tas-a", "cpu"): 1000, FlavorResource("tas-b", "memory"): MIB}
    assert entry.nominated.usage == columns


CREDITS = Transformation("gpu", {"credits": "1"}, retain=False)
"""A resource quota counts that no node has."""

UNPLACED = {
    "FLV-82 workload requires Topology, but there is no TAS cache information": (
        [{"plain": {"credits": 10}}],
        pods("main", gpu=1),
        NO_INFORMATION,
    ),
    "FLV-83 workload requires Topology, but there is no TAS flavor assigned": (
        [{"plain": {"credits": 10}}, {"tas-a": {"cpu": 10}}],
        pods("main", gpu=1),
        "no TAS flavor assigned",
    ),
    "FLV-84 more than one TAS flavor assigned": (
        [{"tas-a": {"cpu": 10}}, {"tas-b": {"memory": "1Gi"}}],
        pods("main", cpu=1, memory="1Mi"),
        TWO_FLAVORS,
    ),
}


@pytest.mark.parametrize("name", UNPLACED, ids=list(UNPLACED))
def test_a_workload_without_one_topology_flavor_is_not_admitted(name: str) -> None:
    groups, pod_set, error = UNPLACED[name]
    built = world(*groups, settings=QueueingSettings(transformations=(CREDITS,)))
    built.put(make_workload("w", "lq", pod_set))
    plan = built.cycle()
    assert not list(plan.admissions)
    assert [wait.message for wait in plan.waiting] == [f"failed to assign flavors to pod set main: {error}"]


def test_without_the_gate_topology_requests_mean_nothing() -> None:
    settings = QueueingSettings(features=Features(topology=False))
    built = world({"tas-a": {"cpu": 10}}, settings=settings)
    built.put(make_workload("w", "lq", pods("main", cpu=1)))
    (admission,) = built.cycle().admissions
    assert (admission.pod_sets[0].flavors, admission.pod_sets[0].topology) == ({"cpu": "tas-a"}, None)


A, B = {"tas-a": {"gpu-a": 4}}, {"tas-b": {"gpu-b": 4}}
NODES = {"tas-a/node-a": {"gpu-a": "4"}, "tas-b/node-b": {"gpu-b": "4"}}
GPU_A, GPU_B = {"gpu-a": "tas-a"}, {"gpu-b": "tas-b"}

GROUPS = {
    "FLV-132 leader without a managed request infers the group's TAS flavor": (
        [A, {"tas-b": {"memory": "8Gi"}}],
        [pods("leader", group="g"), pods("worker", group="g", **{"gpu-a": 1})],
        {"leader": GPU_A, "worker": GPU_A},
        {},
    ),
    "FLV-133 leader without a group is rejected": (
        [A],
        [pods("leader"), pods("worker", **{"gpu-a": 1})],
        {"leader": {}, "worker": GPU_A},
        {"leader": "no TAS flavor assigned"},
    ),
    "FLV-134 peers in the same group resolving to different TAS flavors are rejected": (
        [A, B],
        [pods("leader", group="g"), pods("one", group="g", **{"gpu-a": 1}), pods("two", group="g", **{"gpu-b": 1})],
        {"leader": {**GPU_A, **GPU_B}, "one": GPU_A, "two": GPU_B},
        {"leader": TWO_FLAVORS},
    ),
    "FLV-135 multiple groups: leaders infer flavors from their own groups": (
        [A, B],
        [
            pods("leader1", group="g1"),
            pods("worker1", group="g1", **{"gpu-a": 1}),
            pods("leader2", group="g2"),
            pods("worker2", group="g2", **{"gpu-b": 1}),
        ],
        {"leader1": GPU_A, "worker1": GPU_A, "leader2": GPU_B, "worker2": GPU_B},
        {},
    ),
    "FLV-136 leader in group where peer resolves to non-TAS flavor is rejected": (
        [{"plain": {"gpu-c": 4}}],
        [pods("leader", group="g"), pods("worker", group="g", explicit=False, **{"gpu-c": 1})],
        {"leader": {}, "worker": {"gpu-c": "plain"}},
        {"leader": NO_INFORMATION},
    ),
}


@pytest.mark.parametrize("name", GROUPS, ids=list(GROUPS))
def test_pod_sets_that_ask_for_nothing_go_with_their_group(name: str) -> None:
    groups, pod_sets, expected, wrong = GROUPS[name]
    entry = nominate(world(*groups, nodes=NODES), make_workload("w", "lq", *pod_sets))
    assert (flavors(entry), errors(entry)) == (expected, wrong)
    assert entry.nominated.mode is (Mode.NO_FIT if wrong else Mode.FIT)


def test_recomputing_keeps_a_group_on_the_flavor_only_one_of_it_asks_for() -> None:
    groups = {"tas-a": {"cpu": 10, "gpu": 10}, "tas-b": {"cpu": 10, "gpu": 10}}
    nodes = {"tas-a/node-a": {"cpu": "4", "gpu": "4"}, "tas-b/node-b": {"cpu": "4", "gpu": "4"}}
    built = world(groups, nodes=nodes)
    entry = nominate(
        built, make_workload("w", "lq", pods("leader", group="g", cpu=1), pods("worker", group="g", gpu=1))
    )
    entry.item.cursor = None
    built.state._cycle._nominator.assign(entry, [{"cpu": "tas-a"}, {"gpu": "tas-a"}])
    assert flavors(entry) == {"leader": {"cpu": "tas-a"}, "worker": {"gpu": "tas-a"}}


# -- slices of elastic jobs -------------------------------------------------------------------------------------------

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
SUCCESSOR = {**ELASTIC, "kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}
NOT_REQUIRED = "required topology is not supported with ElasticJobsViaWorkloadSlices"
NOT_PREFERRED = "preferred topology is not supported with ElasticJobsViaWorkloadSlices"

SLICES: dict[str, tuple[dict[str, str], Obj, str]] = {
    "FLV-85 required topology is rejected with ElasticJobsViaWorkloadSlices": (SUCCESSOR, ON_HOST, NOT_REQUIRED),
    "FLV-86 preferred topology is rejected with ElasticJobsViaWorkloadSlices": (
        SUCCESSOR,
        {"preferred": HOST},
        NOT_PREFERRED,
    ),
    "FLV-87 preferred topology is rejected for new elastic workload": (ELASTIC, {"preferred": HOST}, NOT_PREFERRED),
    "FLV-88 unconstrained topology is accepted with ElasticJobsViaWorkloadSlices": (
        SUCCESSOR,
        {"unconstrained": True},
        "",
    ),
    "FLV-89 required topology is accepted for regular jobs": ({}, ON_HOST, ""),
    "FLV-90 preferred topology is accepted for regular jobs": ({}, {"preferred": HOST}, ""),
}


@pytest.mark.parametrize("name", SLICES, ids=list(SLICES))
def test_elastic_slices_are_placed_anywhere_or_not_at_all(name: str) -> None:
    annotations, topology, problem = SLICES[name]
    settings = QueueingSettings(features=Features(elastic_slices_with_topology=True))
    built = world({"tas-a": {"cpu": 10}}, nodes={"tas-a/node-a": {"cpu": "10"}}, settings=settings)
    if annotations is SUCCESSOR:
        held = make_assignment("main", {"cpu": "tas-a"}, {"cpu": 1})
        held["topologyAssignment"] = {"levels": [HOST], "domains": [{"values": ["node-a"], "count": 1}]}
        old = make_workload("old", "lq", make_pod_set("main", 1, {"cpu": 1}, topology=topology), annotations=ELASTIC)
        built.put(reserve(old, "cq", held))
    entry = nominate(
        built, make_workload("w", "lq", make_pod_set("main", 3, {"cpu": 1}, topology=topology), annotations=annotations)
    )
    assert errors(entry) == ({"main": problem} if problem else {})
    assert entry.nominated.mode is (Mode.NO_FIT if problem else Mode.FIT)
    assert (entry.nominated.pod_sets[0].topology is None) is bool(problem)


# -- what is asked for and used ---------------------------------------------------------------------------------------


def requested(*old: PodSetAssignment) -> dict[FlavorResource, int]:
    """Quota asked for by two workers of 1 cpu, 1Mi and three coordinators of 2 cpu, 2Mi."""
    assignment = Assignment(Cursor(0, 0, ""))
    for name, count, size in (("worker", 2, 1), ("coordinator", 3, 2)):
        choice = PodSetChoice(name, count, {"cpu": count * size * 1000, "memory": count * size * MIB})
        choice.flavors = {resource: FlavorChoice("default", Mode.FIT) for resource in choice.requests}
        assignment.pod_sets.append(choice)
    built = world({"default": {"cpu": 100}})
    replaced = None
    if old:
        flavors = {"cpu": "default", "memory": "default"}
        entries = [make_assignment(entry.name, flavors, entry.requests, entry.count) for entry in old]
        for entry in entries:
            entry["resourceUsage"]["cpu"] += "m"
        sets = [make_pod_set(entry.name, entry.count, {"cpu": 1}) for entry in old]
        built.put(reserve(make_workload("old", "lq", *sets), "cq", *entries))
        replaced = built.state.world.reservations[Key("default", "old")]
    return _total_requests(assignment, replaced)


def columns(cpu: int, memory: int) -> dict[FlavorResource, int]:
    return {FlavorResource("default", "cpu"): cpu * 1000, FlavorResource("default", "memory"): memory * MIB}


def test_flv_91_a_regular_workload_asks_for_all_its_pods() -> None:
    assert requested() == columns(2 + 6, 2 + 6)


def test_flv_95_a_slice_asks_for_nothing_more_where_a_pod_set_is_unchanged() -> None:
    old = (
        PodSetAssignment("worker", 2, {}, {"cpu": 2000, "memory": 2 * MIB}),
        PodSetAssignment("coordinator", 1, {}, {"cpu": 2000, "memory": 2 * MIB}),
    )
    assert requested(*old) == columns(4, 4)


def test_flv_96_nodes_are_charged_for_what_pods_really_request() -> None:
    settings = QueueingSettings(
        transformations=(Transformation("gpu", {"logical": "1"}, retain=False),), excluded_prefixes=("net/",)
    )
    groups = [{"tas-a": {"cpu": 10, "memory": "10Gi"}}, {"quota": {"logical": 10}}]
    room = {"cpu": "4", "memory": "8Gi", "gpu": "4", "net/vpc": "4"}
    built = world(*groups, nodes={"tas-a/node-a": room}, settings=settings)
    requests = {"cpu": "1", "memory": "1Gi", "gpu": "1", "net/vpc": "1"}
    entry = nominate(built, make_workload("w", "lq", make_pod_set("main", 2, requests, topology=ON_HOST)))
    assert flavors(entry) == {"main": {"cpu": "tas-a", "memory": "tas-a", "logical": "quota"}}
    per_pod = {"cpu": 1000, "memory": GIB, "gpu": 1, "net/vpc": 1}
    assert entry.nominated.topology_usage == {"tas-a": [(("node-a",), per_pod, 2)]}


NET = {
    "FLV-97 a domain the recomputed assignment moved to": (
        {"node-a": 2},
        {"node-b": 2},
        [(("node-b",), {"cpu": 1000}, 2)],
    ),
    "FLV-98 only the additional pods of a domain that grew": (
        {"node-a": 1},
        {"node-a": 3},
        [(("node-a",), {"cpu": 1000}, 2)],
    ),
    "FLV-99 skips usage already present in previous admission": ({"node-a": 2}, {"node-a": 2}, None),
}


@pytest.mark.parametrize("name", NET, ids=list(NET))
def test_a_second_pass_takes_only_what_it_does_not_hold(name: str) -> None:
    before, after, expected = NET[name]
    built = world({"tas-a": {"cpu": 10}}, nodes={"tas-a/node-a": {"cpu": "4"}, "tas-a/node-b": {"cpu": "4"}})
    built.state.settle()
    held = make_assignment("main", {"cpu": "tas-a"}, {"cpu": sum(before.values())}, sum(before.values()))
    domains = [{"values": [host], "count": count} for host, count in before.items()]
    held["topologyAssignment"] = {"levels": [HOST], "domains": domains}
    info = WorkloadDecoder(QueueingSettings()).decode(
        reserve(make_workload("w", "lq", pods("main", sum(after.values()), cpu=1)), "cq", held)
    )
    assignment = Assignment(Cursor(0, 0, ""))
    choice = PodSetChoice("main", sum(after.values()), {"cpu": 1000 * sum(after.values())})
    choice.flavors = {"cpu": FlavorChoice("tas-a", Mode.FIT)}
    choice.topology = TopologyAssignment((HOST,), tuple(TopologyDomain((host,), pods) for host, pods in after.items()))
    assignment.pod_sets.append(choice)
    usage = topology_usage(assignment, built.state.world.queues["cq"], info)
    assert usage == ({} if expected is None else {"tas-a": expected})


DONE = {
    "FLV-103 mixed: 1 completed (count=0) + 1 running (count=1)": (
        {"completed": (1, 1), "running": (1, 0)},
        ["running"],
    ),
    "FLV-104 all completed (count=0): no TAS requests": ({"sampler": (1, 1), "controller": (1, 1)}, []),
    "FLV-105 3 podSets: 2 completed + 1 running": ({"s0": (1, 1), "s1": (1, 0), "controller": (1, 1)}, ["s1"]),
    "FLV-106 all running: all get TAS requests": ({"w0": (2, 0), "w1": (3, 0)}, ["w0", "w1"]),
}


@pytest.mark.parametrize("name", DONE, ids=list(DONE))
def test_pod_sets_that_are_done_need_no_place(name: str) -> None:
    sizes, placed = DONE[name]
    built = world({"tas-a": {"cpu": 10}}, nodes={"tas-a/node-a": {"cpu": "10"}})
    workload = make_workload("w", "lq", *(pods(name, count, cpu=1) for name, (count, _) in sizes.items()))
    done = [{"name": name, "count": done} for name, (_, done) in sizes.items()]
    workload["status"] = {"reclaimablePods": done}
    built.put(workload)
    (admission,) = built.cycle().admissions
    assert [entry.name for entry in admission.pod_sets if entry.topology is not None] == placed
    assert {entry.name: entry.count for entry in admission.pod_sets} == {
        name: count - done for name, (count, done) in sizes.items()
    }


# -- why not ----------------------------------------------------------------------------------------------------------

MIXED = {"a": {"cpu": (2, 2)}, "b": {"cpu": (2, 2)}, "tas-a": {"cpu": (2, 2)}}
NO_NODES = {
    "FLV-124 tas placement fails": (1, 0, "TopologyPlacementFailed"),
    "FLV-125 tas placement fails, cohort has no capacity": (3, 0, "ExceedsMaxQuota"),
    "FLV-126 tas placement fails, but queue has available capacity (waiting for preemption)": (
        1,
        2,
        "TopologyPlacementFailed",
    ),
}


@pytest.mark.parametrize("name", NO_NODES, ids=list(NO_NODES))
def test_the_mildest_reason_among_flavors_counts(name: str) -> None:
    cpu, used, reason = NO_NODES[name]
    built = world(MIXED, within="LowerPriority")
    if used:
        assignment = make_assignment("main", {"cpu": "tas-a"}, {"cpu": used})
        built.put(reserve(make_workload("low", priority=-1, requests={"cpu": used}), "cq", assignment))
    entry = nominate(built, make_workload("w", "lq", pods("main", cpu=cpu)))
    assert {attempt.flavor: attempt.reason for attempt in entry.nominated.pod_sets[0].attempts} == {
        "a": "NoMatchingFlavor",
        "b": "NoMatchingFlavor",
        "tas-a": reason,
    }
    assert (entry.nominated.mode, entry.nominated.no_fit_reason) == (Mode.NO_FIT, reason)


# -- where the search goes on -----------------------------------------------------------------------------------------

TRY_NEXT = {
    "whenCanBorrow": "TryNextFlavor",
    "whenCanPreempt": "TryNextFlavor",
    "preference": "PreemptionOverBorrowing",
}


def two_flavors(nominal: int = 10) -> QueueingWorld:
    quotas = {"tas-a": {"cpu": nominal}, "tas-b": {"cpu": nominal}}
    nodes = {"tas-a/node-1": {"cpu": "4"}, "tas-b/node-2": {"cpu": "4"}}
    return world(quotas, nodes=nodes, flavorFungibility=TRY_NEXT)


def occupy(built: QueueingWorld, host: str, cpu: int) -> None:
    """Take room on a node without any quota, as a pod outside the queues would."""
    pod = {"metadata": {"name": "other", "namespace": "default"}, "spec": {"nodeName": host}}
    pod["spec"]["containers"] = [{"resources": {"requests": {"cpu": str(cpu)}}}]
    built.state.upsert_pod(pod)


def test_flv_138_a_pod_larger_than_any_node_still_bookmarks_the_first_flavor() -> None:
    entry = nominate(two_flavors(), make_workload("w", "lq", pods("main", cpu=6)))
    assert (entry.nominated.mode, entry.nominated.cursor.tried) == (Mode.NO_FIT, [{"cpu": 0}])
    assert entry.nominated.pod_sets[0].topology is None


def test_flv_139_a_fragmented_topology_still_bookmarks_the_first_flavor() -> None:
    built = two_flavors()
    built.put(make_workload("first", "lq", pods("main", cpu=2)))
    built.cycle()
    entry = nominate(built, make_workload("w", "lq", pods("main", cpu=3)))
    assert (entry.nominated.mode, entry.nominated.cursor.tried) == (Mode.PREEMPT, [{"cpu": 0}])
    built.state._cycle._return([entry])
    built.state.world.mark_dirty("cq")
    (admission,) = built.cycle().admissions
    assert admission.pod_sets[0].flavors == {"cpu": "tas-b"}


RECOMPUTED = {
    "FLV-144 quota still accepts the nominated flavor: bookmark keeps naming it": (0, 0),
    "FLV-145 quota tightened as well: bookmark says start over": (10, -1),
}


@pytest.mark.parametrize("name", RECOMPUTED, ids=list(RECOMPUTED))
def test_recomputing_moves_the_bookmark_only_past_refused_flavors(name: str) -> None:
    taken, tried = RECOMPUTED[name]
    built = two_flavors()
    entry = nominate(built, make_workload("w", "lq", pods("main", cpu=3)))
    assert (entry.nominated.mode, entry.nominated.cursor.tried) == (Mode.FIT, [{"cpu": 0}])
    assert entry.nominated.pod_sets[0].topology is not None
    state = built.state.world
    state.topology.change("tas-a", [(("node-1",), {"cpu": 2000}, 1)], 1)
    columns = {FlavorResource(flavor, "cpu"): taken * 1000 for flavor in ("tas-a", "tas-b")}
    state.queues["cq"].node.add(columns)
    entry.item.cursor = None
    built.state._cycle._nominator.assign(entry, [{"cpu": "tas-a"}])
    assert (entry.nominated.mode, entry.nominated.cursor.tried) == (Mode.PREEMPT, [{"cpu": tried}])


def test_pods_outside_the_queues_fragment_nodes_too() -> None:
    built = two_flavors()
    occupy(built, "node-1", 2)
    built.put(make_workload("w", "lq", pods("main", cpu=3)))
    (admission,) = built.state.plan_cycle(EPOCH).admissions
    assert admission.pod_sets[0].flavors == {"cpu": "tas-b"}
