"""Topology assignments that come late or have to change: after provisioning, and after a node went bad."""

from __future__ import annotations

import pytest
from topology_notation import TopologyScenario

from corral.decide.queueing.model.settings import QueueingSettings

PROVISIONING = "kueue.x-k8s.io/provisioning-request"

#   b1: r1 (x1) r2 (x2 x3 x4)   b2: r1 (x5) r2 (x6, larger)
RACKS = """
    topology t: block rack host
    flavor tas topology t
    node x1 b1/r1: cpu=1 memory=1Gi
    node x2 b1/r2: cpu=1 memory=1Gi
    node x3 b1/r2: cpu=1 memory=1Gi
    node x4 b1/r2: cpu=1 memory=1Gi
    node x5 b2/r1: cpu=1 memory=1Gi
    node x6 b2/r2: cpu=2 memory=4Gi pods=40
    queue q: tas cpu=50 memory=50Gi
"""
HOSTS = """
    topology t: host
    flavor tas topology t
"""
TWO_POOLS = f"""
    topology t: host
    flavor first topology t label pool=first
    flavor second topology t label pool=second
    node x1 pool=first: cpu=1
    node y1 pool=second: cpu=1
    check prov: {PROVISIONING}
"""
NO_SPARE = "Workload was evicted as there was no replacement for unhealthy node(s): x0"

CASES = {
    "TAS-05 several resources that use up the quota": f"""{HOSTS}
        node x1: cpu=1 memory=1Gi
        check prov: {PROVISIONING}
        queue q: tas cpu=1 memory=1Gi ; checks=prov
        run w @q: tas cpu=1 memory=1Gi required=host delayed=Pending ready=prov
        ->
        admit w: main 1x cpu@tas memory@tas on=x1:1 delayed=Ready
    """,
    "TAS-06 only the other flavor is provisioned": f"""
        topology t: host
        flavor reserved topology t label pool=reserved
        flavor made topology t label pool=made
        node x1 pool=reserved: cpu=1
        check prov: {PROVISIONING}
        queue q: reserved cpu=1, made cpu=1 ; checks=prov@made
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@reserved on=x1:1
    """,
    "TAS-07 a replacement is not given away in the same cycle": f"""{HOSTS}
        node x1: cpu=1
        node x2: cpu=1
        node x3: cpu=1
        queue q: tas cpu=50
        run moved @q: tas cpu=1 required=host on=x1:1 unhealthy=x1
        wait new @q: cpu=1 required=host
        ->
        admit moved: main 1x cpu@tas on=x2:1
        admit new: main 1x cpu@tas on=x3:1
    """,
    "TAS-11 what pods ask for beyond quota counts": f"""{RACKS}
        queue q: tas cpu=50
        run w @q: tas cpu=1 limit.memory=2Gi preferred=rack on=x0:1 unhealthy=x0
        ->
        admit w: main 1x cpu@tas on=x6:1
    """,
    "TAS-18 only the pod set on the node moves": f"""{RACKS}
        run w @q: one tas cpu=1 preferred=host on=x0:1 unhealthy=x0, two tas cpu=1 preferred=host on=x1:1
        ->
        admit w: one 1x cpu@tas on=x2:1, two 1x cpu@tas on=x1:1
    """,
    "TAS-19 half a slice moves within its rack": f"""{RACKS}
        run w @q: tas 2x cpu=1 preferred=block slices=rack:2 on=x2:1+x3:1 unhealthy=x2
        ->
        admit w: main 2x cpu@tas on=x3:1+x4:1
    """,
    "TAS-20 half of a large slice": f"""{RACKS}
        run w @q: tas 8x cpu=250m preferred=block slices=rack:8 on=x2:4+x3:4 unhealthy=x2
        ->
        admit w: main 8x cpu@tas on=x3:4+x4:4
    """,
    "TAS-21 whole slices may go to another rack of the block": f"""{RACKS}
        run w @q: tas 12x cpu=250m required=block slices=rack:4 on=x2:4+x3:4+x4:4 unhealthy=x3
        ->
        admit w: main 12x cpu@tas on=x1:4+x2:4+x4:4
    """,
    "TAS-22 a whole slice and half of one": f"""{RACKS}
        run w @q: tas 8x cpu=200m required=block slices=rack:2 on=x1:3+x2:5 unhealthy=x1
        ->
        admit w: main 8x cpu@tas on=x2:5+x3:3
    """,
    "TAS-23 everything was on the node": f"""{RACKS}
        run w @q: tas 4x cpu=250m required=rack slices=host:2 on=x1:4 unhealthy=x1
        ->
        admit w: main 4x cpu@tas on=x5:4
    """,
    "TAS-24 the domain of the broken slice is found": f"""{RACKS}
        run w @q: tas 8x cpu=500m preferred=block slices=block:4 on=x1:2+x3:2+x5:2+x7:2 unhealthy=x7
        ->
        admit w: main 8x cpu@tas on=x1:2+x3:2+x5:2+x6:2
    """,
    "TAS-25 quota is not counted twice": f"""{HOSTS}
        node x1: cpu=50 pods=50
        check prov: {PROVISIONING}
        queue q: tas cpu=50 ; checks=prov
        run w @q: tas 26x cpu=1 preferred=host delayed=Pending ready=prov
        ->
        admit w: main 26x cpu@tas on=x1:26 delayed=Ready
    """,
    "TAS-26 the flavor that was reserved is kept": f"""{TWO_POOLS}
        queue q: first cpu=50, second cpu=50 ; checks=prov
        run w @q: second cpu=1 required=host delayed=Pending ready=prov
        ->
        admit w: main 1x cpu@second on=y1:1 delayed=Ready
    """,
    "TAS-27 one pod set has its place, the other gets it": f"""{TWO_POOLS}
        queue q: first cpu=50, second cpu=50 ; checks=prov@second
        run w @q: one first cpu=1 required=host on=x1:1, two second cpu=1 required=host delayed=Pending ready=prov
        ->
        admit w: one 1x cpu@first on=x1:1, two 1x cpu@second on=y1:1 delayed=Ready
    """,
    "TAS-28 topology that nobody asked for waits for provisioning too": f"""{HOSTS}
        check prov: {PROVISIONING}
        queue q: tas cpu=50 ; checks=prov
        wait w @q: cpu=1
        ->
        admit w: main 1x cpu@tas delayed=Pending
    """,
    "TAS-29 and comes once it is ready": f"""{TWO_POOLS}
        queue q: first cpu=50, second cpu=50 ; checks=prov
        run w @q: second cpu=1 delayed=Pending ready=prov
        ->
        admit w: main 1x cpu@second on=y1:1 delayed=Ready
    """,
    "TAS-31 other checks do not delay": f"""{HOSTS}
        node x1: cpu=1
        check own: example.com/own
        queue q: tas cpu=50 ; checks=own
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-54 a slice that cannot be repaired": f"""{RACKS}
        run w @q: tas 2x cpu=1 preferred=block slices=rack:2 on=x0:1+x1:1 unhealthy=x0
        ->
        evict w: {NO_SPARE}
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_second_pass(name: str) -> None:
    TopologyScenario(CASES[name]).check()


BLOCKED = {
    "TAS-106 delayed topology": """
        run w @q: tas cpu=1 required=host delayed=Pending ready=prov
        wait other @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x1:1 delayed=Ready
        left other: waiting for all admitted workloads to be in PodsReady condition
    """,
    "TAS-107 a failed node": """
        run w @q: tas cpu=1 required=host on=x1:1 unhealthy=x1 ready=prov
        wait other @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x2:1
        left other: waiting for all admitted workloads to be in PodsReady condition
    """,
}


@pytest.mark.parametrize("name", BLOCKED)
def test_a_second_pass_does_not_wait_for_pods(name: str) -> None:
    world = f"""{HOSTS}
        node x1: cpu=1
        node x2: cpu=1
        node x3: cpu=1
        check prov: {PROVISIONING}
        queue q: tas cpu=50 ; checks=prov
    """
    TopologyScenario(world + BLOCKED[name], QueueingSettings(block_on_pods_ready=True)).check()
