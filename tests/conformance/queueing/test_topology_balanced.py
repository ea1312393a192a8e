"""Balanced placement: equal shares on the preferred level, and the usual search where there are none."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from corral.core.meta import Obj
from corral.decide.queueing.model.settings import Features, QueueingSettings
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

HOST = "kubernetes.io/hostname"


class Case(NamedTuple):
    """Hosts by their path with the gpus they have, pods of one gpu each, and where they go."""

    hosts: str
    pods: int
    prefers: str
    want: str
    slices: str = ""
    leader: int = 0
    """Gpus of the leader, if there is one."""
    led: str = ""
    levels: str = "block rack host"


CASES = {
    "two racks share": Case("b1/r1/x1=15 b1/r2/x2=15", 25, "rack", "x1=13 x2=12"),
    "the fewest and smallest hosts": Case("b1/r1/x1=15 b1/r1/x2=13 b1/r1/x3=10", 23, "rack", "x1=12 x2=11"),
    "the fewest and smallest hosts for slices": Case(
        "b1/r1/x1=20 b1/r1/x2=15 b1/r1/x3=10", 25, "rack", "x2=15 x3=10", slices="host:5"
    ),
    "the block that balances better": Case(
        "b1/r1/x1=20 b1/r1/x2=10 b2/r2/x3=15 b2/r2/x4=15", 22, "rack", "x3=11 x4=11"
    ),
    "not across blocks": Case("b1/r1/x1=14 b1/r1/x2=11 b2/r2/x3=15 b2/r2/x4=10", 25, "rack", "x1=14 x2=11"),
    "one rack rather than two": Case(
        "b1/r1/x1=15 b1/r2/x2=15 b1/r3/x3=15 b1/r3/x4=15", 25, "rack", "x3=15 x4=10", slices="host:5"
    ),
    "slices two levels below": Case(
        "b1/s1/r1/x1=18 b1/s1/r2/x2=8 b1/s2/r3/x3=15 b1/s2/r4/x4=9 b1/s2/r4/x5=7",
        20,
        "section",
        "x3=10 x4=8 x5=2",
        slices="host:2",
        levels="block section rack host",
    ),
    "slices one level below": Case(
        "b1/s1/r1/x1=18 b1/s1/r2/x2=8 b1/s2/r3/x3=15 b1/s2/r4/x4=9 b1/s2/r4/x5=7",
        20,
        "section",
        "x3=10 x4=3 x5=7",
        slices="rack:2",
        levels="block section rack host",
    ),
    "hosts are not known": Case(
        "b1/s1/r1=18 b1/s1/r2=8 b1/s2/r3=15 b1/s2/r4=15",
        20,
        "section",
        "b1/s2/r3=10 b1/s2/r4=10",
        slices="rack:2",
        levels="block section rack",
    ),
    "slices on the balanced level": Case(
        "b1/r1/x1=15 b1/r1/x2=13 b1/r1/x3=10 b1/r2/x4=20 b1/r2/x5=8", 22, "host", "x2=12 x3=10", slices="host:2"
    ),
    "hosts of one rack": Case("b1/r1/x1=20 b1/r1/x2=8 b1/r2/x3=15 b1/r2/x4=13 b1/r2/x5=10", 22, "host", "x3=11 x4=11"),
    "the highest level": Case(
        "r1/x1=21 r1/x2=9 r2/x3=11 r2/x4=10 r2/x5=10", 23, "rack", "x1=12 x3=11", levels="rack host"
    ),
    "the rack whose hosts are alike": Case(
        "b1/r1/x1=10 b1/r1/x2=5 b1/r2/x3=5 b1/r2/x4=5 b1/r2/x5=5", 15, "rack", "x3=5 x4=5 x5=5"
    ),
    "the rack whose hosts are alike comes first": Case(
        "b1/r1/x1=8 b1/r1/x2=8 b1/r1/x3=8 b1/r2/x4=16 b1/r2/x5=8", 24, "rack", "x1=8 x2=8 x3=8"
    ),
    "what is left without small hosts": Case(
        "b1/r1/x1=5 b1/r1/x2=5 b1/r2/x3=5 b1/r2/x4=5 "
        "b2/r3/x5=10 b2/r3/x6=4 b2/r3/x7=4 b2/r3/x8=4 b2/r4/x9=5 b2/r5/xa=5",
        20,
        "rack",
        "x1=5 x2=5 x3=5 x4=5",
    ),
    "a leader": Case(
        "b1/r1/x1=20 b1/r1/x2=15 b1/r1/x3=12", 25, "rack", "x2=15 x3=10", slices="host:5", leader=1, led="x3"
    ),
    "a leader on the larger host": Case("b1/r1/x1=6 b1/r1/x2=5", 10, "rack", "x1=5 x2=5", leader=1, led="x1"),
    "a leader needs room on one host only": Case("b1/r1/x1=7 b1/r1/x2=5", 10, "rack", "x1=5 x2=5", leader=1, led="x1"),
    "a leader leaves no balance": Case(
        "b1/r1/x1=3 b1/r2/x2=3 b1/r3/x3=8 b2/r1/x4=11", 7, "block", "x1=3 x2=1 x3=3", leader=5, led="x3"
    ),
}


def label(level: str) -> str:
    return HOST if level == "host" else f"cloud/{level}"


def amounts(text: str) -> dict[str, int]:
    return {name: int(amount) for name, amount in (pair.split("=") for pair in text.split())}


def request(case: Case, **more: object) -> Obj:
    wanted: Obj = {"preferred": label(case.prefers), **more}
    if case.leader:
        wanted["podSetGroupName"] = "group"
    return wanted


def place(case: Case, *, balanced: bool = True) -> dict[str, dict[str, int]]:
    """Pods per domain, by pod set."""
    world = QueueingWorld(QueueingSettings(features=Features(topology_balanced=balanced)))
    levels = case.levels.split()
    world.state.upsert_topology(make_topology("t", *map(label, levels)))
    world.state.upsert_flavor(make_flavor("tas", topologyName="t"))
    for path, gpus in amounts(case.hosts).items():
        names = path.split("/")
        node = make_node(names[-1], dict(zip(map(label, levels), names, strict=True)), gpu=str(gpus))
        world.state.upsert_node(node)
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"gpu": 1000}}))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    slicing: Obj = {}
    if case.slices:
        level, _, size = case.slices.partition(":")
        slicing = {"podSetSliceRequiredTopology": label(level), "podSetSliceSize": int(size)}
    workers = make_pod_set("workers", case.pods, {"gpu": 1}, topology=request(case, **slicing))
    leaders = [make_pod_set("leader", 1, {"gpu": case.leader}, topology=request(case))] if case.leader else []
    world.put(make_workload("w", "lq", *leaders, workers))
    (admission,) = world.cycle().admissions
    return {
        entry.name: {"/".join(domain.values): domain.pods for domain in entry.topology.domains}
        for entry in admission.pod_sets
        if entry.topology is not None
    }


@pytest.mark.parametrize("name", CASES)
def test_balanced(name: str) -> None:
    case = CASES[name]
    found = place(case)
    assert found["workers"] == amounts(case.want)
    assert found.get("leader", {}) == ({case.led: 1} if case.led else {})


def test_without_the_gate_domains_are_filled() -> None:
    assert place(CASES["two racks share"], balanced=False) == {"workers": {"x1": 15, "x2": 10}}


def test_only_preferences_are_balanced() -> None:
    world = CASES["two racks share"]
    assert place(world)["workers"] == {"x1": 13, "x2": 12}
    for wanted in ("required", "unconstrained"):
        built = QueueingWorld(QueueingSettings(features=Features(topology_balanced=True)))
        built.state.upsert_topology(make_topology("t", "cloud/block", "cloud/rack", HOST))
        built.state.upsert_flavor(make_flavor("tas", topologyName="t"))
        for number in (1, 2):
            labels = {"cloud/block": "b1", "cloud/rack": f"r{number}"}
            built.state.upsert_node(make_node(f"x{number}", labels, gpu="15"))
        built.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"gpu": 1000}}))
        built.state.upsert_local_queue(make_local_queue("lq", "cq"))
        topology = {wanted: "cloud/block" if wanted == "required" else True}
        built.put(make_workload("w", "lq", make_pod_set("main", 25, {"gpu": 1}, topology=topology)))
        (admission,) = built.cycle().admissions
        assert admission.pod_sets[0].topology is not None
        assert sorted(domain.pods for domain in admission.pod_sets[0].topology.domains) == [10, 15]
