"""Pods that prefer some nodes to others: the nodes they like come before the ones that fit better."""

from __future__ import annotations

import pytest
from topology_notation import TopologyScenario

from corral.core.meta import Obj
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.testing.queueing import (
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

HOSTS = """
    topology t: host
    flavor tas topology t
    queue q: tas cpu=50
"""
RACKS = """
    topology t: rack host
    flavor tas topology t
    queue q: tas cpu=50
"""
LIKED = "likes=region:west:10"

CASES = {
    "the rack that is liked": f"""{RACKS}
        node x1 r1 region=east: cpu=1
        node x2 r2 region=west: cpu=1
        wait w @q: cpu=1 preferred=rack {LIKED}
        ->
        admit w: main 1x cpu@tas on=x2:1
    """,
    "only among those that may be used": f"""{RACKS}
        node x1 r1 region=west zone=eu: cpu=1
        node x2 r2 region=east zone=us: cpu=1
        node x3 r3 region=west zone=us: cpu=1
        wait w @q: cpu=1 node.zone=us preferred=rack {LIKED}
        ->
        admit w: main 1x cpu@tas on=x3:1
    """,
    "weights add up": f"""{RACKS}
        node x1 r1 region=west: cpu=1
        node x2 r2 disk=fast: cpu=1
        node x3 r3 disk=fast net=fast: cpu=1
        wait w @q: cpu=1 preferred=rack {LIKED} likes=disk:fast:6 likes=net:fast:5
        ->
        admit w: main 1x cpu@tas on=x3:1
    """,
    "liked comes before tight": f"""{HOSTS}
        node x1 region=east: cpu=1
        node x2 region=west: cpu=8
        wait w @q: cpu=1 preferred=host {LIKED}
        ->
        admit w: main 1x cpu@tas on=x2:1
    """,
    "a required rack that is liked but too small": f"""{RACKS}
        node x1 r1 region=west: cpu=2
        node x2 r2 region=east: cpu=4
        node x3 r2 region=east: cpu=4
        wait w @q: 4x cpu=1 required=rack {LIKED}
        ->
        admit w: main 4x cpu@tas on=x2:4
    """,
    "no required rack is large enough": f"""{RACKS}
        node x1 r1 region=west: cpu=2
        node x2 r2 region=east: cpu=4
        wait w @q: 5x cpu=1 required=rack {LIKED}
        ->
        parked w: couldn't assign flavors to pod set main: topology "t" allows to fit only 2 out of 5 pod(s)
    """,
    "liked hosts are filled first": f"""{HOSTS}
        node x1 region=west: cpu=2
        node x2 region=west: cpu=1
        node x3: cpu=2
        node x4: cpu=1
        wait w @q: 5x cpu=1 preferred=host {LIKED}
        ->
        admit w: main 5x cpu@tas on=x1:2+x2:1+x3:2
    """,
    "liked hosts are filled first, then the least free": f"""{HOSTS}
        node x1 region=west: cpu=2
        node x2 region=west: cpu=1
        node x3: cpu=2
        node x4: cpu=1
        node x5: cpu=1
        wait w @q: 5x cpu=1 unconstrained {LIKED}
        ->
        admit w: main 5x cpu@tas on=x1:2+x2:1+x4:1+x5:1
    """,
    "slices go where they fit": f"""{HOSTS}
        node x1 region=west: cpu=2
        node x2 region=west: cpu=1
        node x3: cpu=2
        node x4: cpu=2
        wait w @q: 4x cpu=1 preferred=host slices=host:2 {LIKED}
        ->
        admit w: main 4x cpu@tas on=x1:2+x3:2
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_preferences(name: str) -> None:
    TopologyScenario(CASES[name], topology_preferred_affinity=True).check()


def test_without_the_gate_they_do_not_count() -> None:
    text = CASES["liked comes before tight"].replace("on=x2:1", "on=x1:1")
    TopologyScenario(text, topology_preferred_affinity=False).check()


# -- workloads of one pod ---------------------------------------------------------------------------------------------

POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}

# Owners, whether it is a group, whether the gate is open; the host after x1 went bad.
OWNED: dict[str, tuple[list[Obj], bool, bool, str]] = {
    "a pod stays where it is": ([POD], False, True, "x1"),
    "a job's pods move": ([JOB], False, True, "x2"),
    "pods of a group move": ([POD, {**POD, "name": "p2", "uid": "u2"}], False, True, "x2"),
    "a group of one pod moves": ([POD], True, True, "x2"),
    "without the gate a pod moves": ([POD], False, False, "x2"),
}


@pytest.mark.parametrize("name", OWNED)
def test_who_gets_another_node(name: str) -> None:
    owners, group, gate, host = OWNED[name]
    world = QueueingWorld(QueueingSettings(features=Features(skip_pod_reassignment=gate)))
    world.state.upsert_topology(make_topology("t", "kubernetes.io/hostname"))
    world.state.upsert_flavor(make_flavor("tas", topologyName="t"))
    world.state.upsert_node(make_node("x2", cpu="1"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 9}}))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    pod_set = make_pod_set("main", 1, {"cpu": 1}, topology={"required": "kubernetes.io/hostname"})
    workload = make_workload("w", "lq", pod_set)
    workload["metadata"]["ownerReferences"] = owners
    if group:
        workload["metadata"]["annotations"] = {"kueue.x-k8s.io/is-group-workload": "true"}
    assignment = make_assignment("main", {"cpu": "tas"}, {"cpu": 1})
    places = [{"values": ["x1"], "count": 1}]
    assignment["topologyAssignment"] = {"levels": ["kubernetes.io/hostname"], "domains": places}
    workload = reserve(workload, "cq", assignment)
    workload["status"]["unhealthyNodes"] = [{"name": "x1"}]
    world.put(workload)
    (admission,) = world.cycle().admissions
    assert admission.pod_sets[0].topology is not None
    assert [domain.values for domain in admission.pod_sets[0].topology.domains] == [(host,)]
