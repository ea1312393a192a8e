"""Where pods go and what is said, place by place, for workloads that neither borrow nor preempt."""

from __future__ import annotations

import pytest
from test_topology_second_pass import RACKS
from topology_notation import TopologyScenario

HOSTS = """
    topology t: host
    flavor tas topology t
"""
ONE = f"""{HOSTS}
    node x1: cpu=1 memory=1Gi
    queue q: tas cpu=50 memory=50Gi
"""
TWO_LEVELS = """
    topology t: rack host
    flavor tas topology t
"""
PARTLY_EMPTY = f"""{TWO_LEVELS}
    node x1 r1: cpu=0
    node x2 r1: cpu=1
    node x3 r1: cpu=1
    queue q: tas cpu=50
"""
NO_ROOM = "couldn't assign flavors to pod set main: topology \"t\" doesn't allow to fit any of 1 pod(s)."

CASES = {
    "TAS-03 a pod set without pods": f"""{TWO_LEVELS}
        node x1 r1: cpu=3
        queue q: tas cpu=50
        wait w @q: launcher cpu=1 preferred=host, worker 0x cpu=1 preferred=host
        ->
        admit w: launcher 1x cpu@tas on=x1:1, worker 0x cpu@tas
    """,
    "TAS-08 a failed node": f"""{RACKS}
        run w @q: tas cpu=1 preferred=host on=x0:1 unhealthy=x0
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-09 a failed node, room in another rack": f"""{RACKS}
        run w @q: tas 2x cpu=500m preferred=rack on=x0:1+x1:1 unhealthy=x0
        ->
        admit w: main 2x cpu@tas on=x1:2
    """,
    "TAS-15 a failed node, room in the required rack": f"""{RACKS}
        run w @q: tas 2x cpu=1 required=rack on=x0:1+x2:1 unhealthy=x0
        ->
        admit w: main 2x cpu@tas on=x2:1+x3:1
    """,
    "TAS-16 a failed node held everything": f"""{RACKS}
        run w @q: tas cpu=1 required=rack on=x0:1 unhealthy=x0
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-32 the only flavor has a topology": f"""{ONE}
        wait w @q: cpu=1
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-33 topology is required": f"""{HOSTS}
        node x1: cpu=1
        queue q: plain cpu=50, tas cpu=50
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-34 topology is not asked for": f"""{HOSTS}
        node x1: cpu=1
        queue q: tas cpu=50, plain cpu=50
        wait w @q: cpu=1
        ->
        admit w: main 1x cpu@plain
    """,
    "TAS-35 one pod set with topology and one without": f"""{HOSTS}
        node x1: cpu=1
        queue q: tas cpu=50, plain cpu=50
        wait w @q: launcher cpu=500m, worker cpu=500m required=host
        ->
        admit w: launcher 1x cpu@plain, worker 1x cpu@tas on=x1:1
    """,
    "TAS-36 required": f"""{ONE}
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-37 no such level": f"""{ONE}
        wait w @q: cpu=1 required=rack
        ->
        parked w: couldn't assign flavors to pod set main: Flavor "tas" does not contain the requested level
    """,
    "TAS-38 only the second flavor has the level": f"""{HOSTS}
        topology racks: rack
        flavor other topology racks
        node x1 r1: cpu=1
        queue q: tas cpu=50, other cpu=50
        wait w @q: cpu=1 required=rack
        ->
        admit w: main 1x cpu@other on=r1:1
    """,
    "TAS-39 larger than the node": f"""{ONE}
        wait w @q: cpu=2 required=host
        ->
        parked w: {NO_ROOM} Total nodes: 1; excluded: resource "cpu": 1
    """,
    "TAS-40 the node is taken": f"""{ONE}
        run old @q: tas cpu=1 required=host on=x1:1
        wait w @q: cpu=1 required=host
        ->
        parked w: {NO_ROOM} Total nodes: 1; excluded: resource "cpu": 1
    """,
    "TAS-41 the node is partly taken by other pods": f"""{ONE}
        pod daemon on x1: cpu=300m
        wait w @q: cpu=1 required=host
        ->
        parked w: {NO_ROOM} Total nodes: 1; excluded: resource "cpu": 1
    """,
    "TAS-42 the node is wholly taken by other pods": f"""{ONE}
        pod daemon on x1: cpu=1
        wait w @q: cpu=300m required=host
        ->
        parked w: {NO_ROOM} Total nodes: 1; excluded: resource "cpu": 1
    """,
    "TAS-43 beside another": f"""{ONE}
        run old @q: tas cpu=500m memory=500Mi required=host on=x1:1
        wait w @q: cpu=500m memory=500Mi required=host
        ->
        admit w: main 1x cpu@tas memory@tas on=x1:1
    """,
    "TAS-45 two pod sets fill two hosts": f"""{TWO_LEVELS}
        node x1 r1: cpu=8
        node y1 r1: cpu=8
        queue q: tas cpu=16
        wait w @q: launcher cpu=1 required=host, worker 15x cpu=1 preferred=host
        ->
        admit w: launcher 1x cpu@tas on=x1:1, worker 15x cpu@tas on=x1:7+y1:8
    """,
    "TAS-47 another's node is gone": f"""{HOSTS}
        node y1: cpu=1
        queue q: tas cpu=50
        run old @q: tas cpu=1 required=host on=x1:1
        wait w @q: cpu=1 preferred=host
        ->
        admit w: main 1x cpu@tas on=y1:1
    """,
    "TAS-49 the second flavor over the same nodes": """
        topology t: host
        flavor a topology t
        flavor b topology t taint class=b:NoSchedule
        node x1: cpu=400m memory=400Mi
        node x2: cpu=400m memory=400Mi
        queue q: a cpu=400m memory=400Mi, b cpu=100m memory=100Mi
        run one @q: a cpu=200m memory=200Mi preferred=host on=x1:1
        run two @q: a cpu=200m memory=200Mi preferred=host on=x1:1
        wait w @q: cpu=100m memory=100Mi preferred=host tolerates=class:b
        ->
        admit w: main 1x cpu@b memory@b on=x2:1
    """,
    "TAS-51 fewer pods": f"""{ONE}
        wait w @q: 5x cpu=1 min=1 required=host
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-52 too many pods": f"""{ONE}
        node x1: cpu=1 pods=3
        pod daemon on x1: cpu=300m
        run old @q: tas 2x cpu=150m required=host on=x1:2
        wait w @q: cpu=300m required=host
        ->
        parked w: {NO_ROOM} Total nodes: 1; excluded: resource "pods": 1
    """,
    "TAS-53 none of one resource": f"""{ONE}
        wait w @q: cpu=0 memory=10Mi
        ->
        admit w: main 1x cpu@tas memory@tas on=x1:1
    """,
    "TAS-57 an empty node, unconstrained": f"""{PARTLY_EMPTY}
        wait w @q: 2x cpu=1 unconstrained
        ->
        admit w: main 2x cpu@tas on=x2:1+x3:1
    """,
    "TAS-58 an empty node, preferred": f"""{PARTLY_EMPTY}
        wait w @q: 2x cpu=1 preferred=rack
        ->
        admit w: main 2x cpu@tas on=x2:1+x3:1
    """,
    "TAS-59 an empty node, required": f"""{PARTLY_EMPTY}
        wait w @q: 2x cpu=1 required=rack
        ->
        admit w: main 2x cpu@tas on=x2:1+x3:1
    """,
    "TAS-63 slices within slices": """
        topology t: block rack host
        flavor tas topology t
        node x1 b1/r1: cpu=1
        node x2 b1/r1: cpu=4
        node x3 b1/r2: cpu=3
        node x4 b1/r2: cpu=4
        queue q: tas cpu=50
        wait w @q: 8x cpu=1 required=block layers=rack:4+host:2
        ->
        admit w: main 8x cpu@tas on=x2:4+x3:2+x4:2
    """,
    "TAS-64 slices within slices leave gaps": """
        topology t: block rack host
        flavor tas topology t
        node x1 b1/r1: cpu=3
        node x2 b1/r1: cpu=3
        queue q: tas cpu=50
        wait w @q: 6x cpu=1 required=block layers=rack:6+host:2
        ->
        parked w: couldn't assign flavors to pod set main: topology "t" doesn't allow to fit; 0/1 slice(s) fit on level \
cloud/rack; 2/3 slice(s) fit on level kubernetes.io/hostname
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_place(name: str) -> None:
    TopologyScenario(CASES[name]).check()


def test_without_its_gate_flavors_do_not_see_each_others_pods() -> None:
    text = CASES["TAS-49 the second flavor over the same nodes"].replace("on=x2:1", "on=x1:1")
    TopologyScenario(text, topology_overlapping_flavors=False).check()


PATIENT = {
    "TAS-10 a failed node and no room": f"""{RACKS}
        run w @q: tas cpu=3 preferred=rack on=x0:1 unhealthy=x0
        ->
        parked w: {NO_ROOM} Total nodes: 6; excluded: resource "cpu": 6
    """,
    "TAS-17 a failed node and no room in the required rack": f"""{RACKS}
        run w @q: tas 2x cpu=1 required=rack on=x0:1+x1:1 unhealthy=x0
        ->
        parked w: {NO_ROOM} Total nodes: 6; excluded: resource "cpu": 1, topologyDomain: 5
    """,
}


@pytest.mark.parametrize("name", PATIENT)
def test_wait_for_a_place(name: str) -> None:
    TopologyScenario(PATIENT[name], topology_fail_fast=False).check()


def test_flavors_that_were_passed_over_are_named() -> None:
    scenario = TopologyScenario(CASES["TAS-35 one pod set with topology and one without"])
    (admission,) = scenario.state.plan_cycle(0.0).admissions
    assert admission.considered == (
        'Flavors considered: launcher: tas(NoFit;Flavor "tas" supports only TopologyAwareScheduling)'
    )
