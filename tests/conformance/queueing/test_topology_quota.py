"""Topology together with quota: transformed resources, cohorts, preemption, and several workloads in one cycle."""

from __future__ import annotations

import pytest
from topology_notation import TopologyScenario

from corral.decide.queueing.model.settings import QueueingSettings, Transformation

HOSTS = """
    topology t: host
    flavor tas topology t
"""
SIBLINGS = """
    topology t: host
    flavor a topology t taint team=a:NoSchedule
    flavor b topology t taint team=b:NoSchedule
"""
ONE_NODE = f"""{HOSTS}
    node x1: cpu=5 memory=5Gi
    queue q: tas cpu=50 memory=50Gi ; within=LowerPriority
"""
TWO_NODES = f"""{HOSTS}
    node x1: cpu=5 memory=5Gi
    node y1: cpu=5 memory=5Gi
"""

CASES = {
    "TAS-01 one byte of memory": f"""{HOSTS}
        node x1: memory=2Gi
        queue q: tas cpu=50 memory=50Gi
        wait w @q: memory=1 required=host
        ->
        admit w: main 1x memory@tas on=x1:1
    """,
    "TAS-02 memory of pods decides where they go": f"""{HOSTS}
        node x1: cpu=4 memory=2Gi
        node x2: cpu=4 memory=2Gi
        queue q: tas cpu=50 memory=50Gi
        wait w @q: 2x cpu=1 memory=1536Mi preferred=host
        ->
        admit w: main 2x cpu@tas memory@tas on=x1:1+x2:1
    """,
    "TAS-44 the second pod set is too large": """
        topology t: rack host
        flavor tas topology t
        node x1 r1: cpu=3
        node y1 r1: cpu=3
        queue q: tas cpu=50
        wait w @q: launcher cpu=1 preferred=host, worker cpu=7 preferred=host
        ->
        parked w: couldn't assign flavors to pod set worker: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 2; excluded: resource "cpu": 2
    """,
    "TAS-46 pod sets share a rack": """
        topology t: rack host
        flavor tas topology t
        node x1 r1: cpu=8
        node y1 r1: cpu=8
        queue q: tas cpu=16
        wait w @q: launcher cpu=1 required=rack, worker 15x cpu=1 required=rack
        ->
        admit w: launcher 1x cpu@tas on=x1:1, worker 15x cpu@tas on=x1:7+y1:8
    """,
    "TAS-50 pod sets of two flavors over the same nodes": f"""{SIBLINGS}
        node x1: cpu=400m memory=400Mi
        node x2: cpu=400m memory=400Mi
        queue q: a cpu=400m memory=400Mi, b cpu=400m memory=400Mi
        wait w @q: one cpu=300m memory=300Mi preferred=host tolerates=team:a, \
two cpu=300m memory=300Mi preferred=host tolerates=team:b
        ->
        admit w: one 1x cpu@a memory@a on=x1:1, two 1x cpu@b memory@b on=x2:1
    """,
    "TAS-60 nothing of a resource the queue does not have": f"""{HOSTS}
        node x1: cpu=1
        queue q: tas cpu=50
        wait w @q: cpu=1 example.com/gpu=0 preferred=host
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-65 a healthy node": f"""{HOSTS}
        node x1: cpu=1
        queue q: tas cpu=50
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x1:1
    """,
    "TAS-66 racks without hosts leave cordoned nodes out": """
        topology t: rack
        flavor tas topology t
        node x1 r1 cordoned: cpu=1
        node x2 r2: cpu=1
        queue q: tas cpu=50
        wait w @q: cpu=1 required=rack
        ->
        admit w: main 1x cpu@tas on=r2:1
    """,
    "TAS-67 cordoned hosts are left out": f"""{HOSTS}
        node x1 cordoned: cpu=1
        node x2: cpu=1
        queue q: tas cpu=50
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas on=x2:1
    """,
    "TAS-68 the victim is on a node that is gone": f"""{TWO_NODES}
        queue q: tas cpu=10 memory=10Gi ; within=LowerPriority
        run low @q: tas cpu=5 p=1 required=host on=z1:1
        wait w @q: 10x cpu=1 p=3 preferred=host
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor tas, 5 more needed. \
Pending the preemption of 1 workload(s)
    """,
    "TAS-69 memory of pods decides who makes room": f"""{ONE_NODE}
        run low @q: tas cpu=1 memory=2Gi p=1 required=host on=x1:1
        wait w @q: cpu=1 memory=4Gi p=3 preferred=host
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 1; excluded: resource "memory": 1. Pending the preemption of 1 workload(s)
    """,
    "TAS-70 the only one of lower priority": f"""{ONE_NODE}
        run low @q: tas cpu=5 p=1 required=host on=x1:1
        wait w @q: cpu=2 p=3 preferred=host
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 1; excluded: resource "cpu": 1. Pending the preemption of 1 workload(s)
    """,
    "TAS-72 the one of lowest priority": f"""{ONE_NODE}
        run mid @q: tas cpu=2 p=2 required=host on=x1:1
        run low @q: tas cpu=2 p=1 required=host on=x1:1
        wait w @q: cpu=2 p=3 preferred=host
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 1; excluded: resource "cpu": 1. Pending the preemption of 1 workload(s)
    """,
    "TAS-73 there is room, but in pieces": f"""{TWO_NODES}
        queue q: tas cpu=50 memory=50Gi ; within=LowerPriority
        run mid @q: tas cpu=4 p=2 required=host on=x1:1
        run low @q: tas cpu=4 p=1 required=host on=y1:1
        wait w @q: 2x cpu=1 p=3 required=host
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: topology "t" allows to fit only 1 out of 2 pod(s). \
Pending the preemption of 1 workload(s)
    """,
    "TAS-74 equals wait for each other": f"""{ONE_NODE}
        run mid @q: tas cpu=4 p=2 required=host on=x1:1
        wait w @q: 2x cpu=1 p=2 required=host
        wait small @q: cpu=1 p=1 required=host
        ->
        parked w: couldn't assign flavors to pod set main: topology "t" allows to fit only 1 out of 2 pod(s)
        left small:
    """,
    "TAS-90 the second pod set is one pod too many": f"""{HOSTS}
        node x1: cpu=2 pods=1
        queue q: tas cpu=4
        wait w @q: one cpu=1 required=host, two cpu=1 required=host
        ->
        parked w: couldn't assign flavors to pod set two: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 1; excluded: resource "pods": 1
    """,
    "TAS-71 the node takes one pod only": f"""{ONE_NODE}
        node x1: cpu=5 memory=5Gi pods=1
        run low @q: tas cpu=5 p=1 required=host on=x1:1
        wait w @q: cpu=2 p=3 preferred=host
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 1; excluded: resource "cpu": 1. Pending the preemption of 1 workload(s)
    """,
    "TAS-76 quota of one resource and room for another": f"""{TWO_NODES}
        queue q: tas cpu=10 memory=10Gi ; within=LowerPriority
        run low-cpu @q: tas 2x cpu=3 p=-1000 required=host on=x1:1+y1:1
        run low-mem @q: tas 2x cpu=10m memory=5Gi p=-1000 required=host on=x1:1+y1:1
        wait w @q: cpu=3 memory=5Gi required=host
        ->
        preempt low-cpu for w: InClusterQueue
        preempt low-mem for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: insufficient unused quota for memory in flavor tas, 5Gi more needed. \
Pending the preemption of 2 workload(s)
    """,
    "TAS-77 another flavor's pods force preemption in one's own": f"""{SIBLINGS}
        node x1: cpu=5 memory=5Gi
        queue q: a cpu=5 memory=5Gi, b cpu=5 memory=5Gi ; within=LowerPriority
        run mine @q: a cpu=1 memory=1Gi p=1 preferred=host on=x1:1 tolerates=team:a
        run other @q: b cpu=3 memory=3Gi p=1 preferred=host on=x1:1 tolerates=team:b
        wait w @q: cpu=2 memory=2Gi p=5 preferred=host tolerates=team:a
        ->
        preempt mine for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: topology "t" doesn't allow to fit any of 1 pod(s). \
Total nodes: 1; excluded: resource "cpu": 1. Pending the preemption of 1 workload(s)
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_placing(name: str) -> None:
    TopologyScenario(CASES[name]).check()


def test_without_topology_flavors_with_one_are_like_others() -> None:
    """TAS-75."""
    text = f"""{HOSTS}
        node x1: cpu=1 memory=1Gi
        queue q: tas cpu=3 memory=3Gi ; within=LowerPriority
        run low @q: tas cpu=3 p=1
        wait w @q: cpu=3 p=2
        ->
        preempt low for w: InClusterQueue
        left w: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor tas, 3 more needed. \
Pending the preemption of 1 workload(s)
    """
    TopologyScenario(text, topology=False).check()


CREDITS = {
    "TAS-61 credits for cpus": """
        queue q: tas cpu=1 | plain credits=1
        wait w @q: cpu=1 required=host
        ->
        admit w: main 1x cpu@tas credits@plain on=x1:1
    """,
    "TAS-62 not enough credits": """
        queue q: tas cpu=2 | plain credits=1
        wait w @q: cpu=2 required=host
        ->
        parked w: couldn't assign flavors to pod set main: insufficient quota for credits in flavor plain, \
previously considered podsets requests (0) + current podset request (2) > maximum capacity (1)
    """,
}


@pytest.mark.parametrize("name", CREDITS)
def test_transformed_resources_have_no_place(name: str) -> None:
    settings = QueueingSettings(transformations=(Transformation("cpu", {"credits": "1"}),))
    TopologyScenario(f"{HOSTS}\nnode x1: cpu=2\n{CREDITS[name]}", settings).check()


# -- several workloads in one cycle -----------------------------------------------------------------------------------

UNEVEN = f"""{HOSTS}
    node x1: cpu=3 memory=5Gi
    node y1: cpu=5 memory=3Gi
    queue a in co: tas cpu=4 memory=4Gi ; within=LowerPriority reclaim=Any
    queue b in co: tas cpu=4 memory=4Gi ; reclaim=Any
    queue c in co: tas cpu=4 memory=4Gi ; reclaim=Any
"""
PAIR = UNEVEN.replace("    queue c in co: tas cpu=4 memory=4Gi ; reclaim=Any\n", "")
SAME_NODE = f"""{HOSTS}
    node n1: cpu=8
    node n2: cpu=8
    queue a in co: tas cpu=8
    queue b in co: tas cpu=8
    wait first @a: cpu=8 p=10 required=host
    wait second @b: cpu=8 p=5 required=host t=60
"""
TWO_FLAVORS = """
    topology t: host
    flavor one topology t label pool=1
    flavor two topology t label pool=2
    node n1 pool=1: cpu=8
    node n2 pool=2: cpu=8
    queue a in co: one cpu=8
    queue b in co: one cpu=8, two cpu=8
    wait first @a: cpu=8 p=10 required=host
    wait second @b: cpu=8 p=5 required=host t=60
"""
STALE = f"""{HOSTS}
    node n1: cpu=1
    node n2: cpu=2
    node n3: cpu=2
    queue a in co: tas cpu=2
    queue b in co: tas cpu=2/0 ; within=LowerPriority
    run low @b: tas cpu=1 p=1 required=host on=n1:1
    wait first @a: cpu=2 p=2 preferred=host
    wait second @b: cpu=2 p=2 preferred=host t=60
"""
RECLAIMED = f"""{UNEVEN}
    run a1 @a: tas 5x cpu=1 p=2 required=host on=x1:3+y1:2
    run a2 @a: tas cpu=1 p=1 required=host on=y1:1
    run a3 @a: tas cpu=1 p=1 required=host on=y1:1
    wait first @b: 3x cpu=1 p=3 required=host
    wait last @c: cpu=1 p=1 preferred=host
"""
FIRST_RECLAIMS = """
    preempt a2 for first: InCohortReclamation
    preempt a3 for first: InCohortReclamation
    left first: couldn't assign flavors to pod set main: topology "t" allows to fit only 1 out of 3 pod(s). \
Total nodes: 2; excluded: resource "cpu": 1. Pending the preemption of 2 workload(s)
"""
NO_LONGER = "Workload no longer fits after processing another workload"
NO_ROOM = "couldn't assign flavors to pod set main: topology \"t\" doesn't allow to fit any of"


def small(reclaim: str, low: int) -> str:
    """A preemptor of four pods on a node of five, two of them taken."""
    return f"""{HOSTS}
        node y1: cpu=5 memory=3Gi
        queue a in co: tas cpu=8/0 memory=4Gi/0 ; within=LowerPriority reclaim={reclaim}
        queue b in co: tas cpu=4 memory=4Gi ; reclaim=Any
        run old @a: tas 2x cpu=1 p={low} required=host on=y1:2
        wait four @a: 4x cpu=1 p=2 preferred=host
        wait three @b: 3x cpu=1 p=1 preferred=host
    """


WAITS_FOR_ROOM = (
    'left four: couldn\'t assign flavors to pod set main: topology "t" allows to fit only 3 out of 4 pod(s)'
)
CYCLES: dict[str, tuple[bool, str]] = {
    "TAS-79 room kept by a preemptor": (
        True,
        f"""{RECLAIMED}
        ->{FIRST_RECLAIMS}
        preempt a1 for last: InCohortReclamation
        left last: {NO_ROOM} 1 pod(s). Total nodes: 2; excluded: resource "cpu": 2. Pending the preemption of 1 workload(s)
        """,
    ),
    "TAS-95 room kept by a preemptor, not recomputed": (
        False,
        f"""{RECLAIMED}
        ->{FIRST_RECLAIMS}
        left last: {NO_LONGER}
        """,
    ),
    "TAS-80 the nominated flavor is kept": (
        True,
        f"""{TWO_FLAVORS}
        ->
        admit first: main 1x cpu@one on=n1:1
        left second: {NO_ROOM} 1 pod(s). Total nodes: 1; excluded: resource "cpu": 1
        """,
    ),
    "TAS-88 the nominated flavor is kept, not recomputed": (
        False,
        f"""{TWO_FLAVORS}
        ->
        admit first: main 1x cpu@one on=n1:1
        left second: {NO_LONGER}
        """,
    ),
    "TAS-81 both want the same node": (
        True,
        f"""{SAME_NODE}
        ->
        admit first: main 1x cpu@tas on=n1:1
        admit second: main 1x cpu@tas on=n2:1
        """,
    ),
    "TAS-89 both want the same node, not recomputed": (
        False,
        f"""{SAME_NODE}
        ->
        admit first: main 1x cpu@tas on=n1:1
        left second: {NO_LONGER}
        """,
    ),
    "TAS-82 both want the small node": (
        True,
        f"""{PAIR}
        wait first @a: cpu=2 p=2 preferred=host
        wait second @b: cpu=2 p=1 preferred=host
        ->
        admit first: main 1x cpu@tas on=x1:1
        admit second: main 1x cpu@tas on=y1:1
        """,
    ),
    "TAS-100 both want the small node, not recomputed": (
        False,
        f"""{PAIR}
        wait first @a: cpu=2 p=2 preferred=host
        wait second @b: cpu=2 p=1 preferred=host
        ->
        admit first: main 1x cpu@tas on=x1:1
        left second: {NO_LONGER}
        """,
    ),
    "TAS-91 more than its own quota": (
        True,
        f"""{PAIR}
        wait w @a: 6x cpu=1 preferred=host
        ->
        admit w: main 6x cpu@tas on=x1:1+y1:5
        """,
    ),
    "TAS-92 reclaims from one": (
        True,
        f"""{PAIR}
        run old @a: tas 5x cpu=1 required=host on=x1:5
        wait w @b: 4x cpu=1 preferred=host
        ->
        preempt old for w: InCohortReclamation
        left w: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor tas, 1 more needed. \
Pending the preemption of 1 workload(s)
        """,
    ),
    "TAS-96 each on the node that suits it": (
        True,
        f"""{PAIR}
        wait first @a: cpu=5 p=2 preferred=host
        wait second @b: memory=5 p=1 preferred=host
        ->
        admit first: main 1x cpu@tas on=y1:1
        admit second: main 1x memory@tas on=x1:1
        """,
    ),
    "TAS-97 both on one node": (
        True,
        f"""{PAIR}
        wait first @a: cpu=1 p=2 preferred=host
        wait second @b: 2x cpu=1 p=1 preferred=host
        ->
        admit first: main 1x cpu@tas on=x1:1
        admit second: main 2x cpu@tas on=x1:2
        """,
    ),
    "TAS-99 quota for the first only": (
        True,
        f"""{PAIR}
        wait first @a: 5x cpu=1 p=2 preferred=host
        wait second @b: 5x cpu=1 p=1 preferred=host
        ->
        admit first: main 5x cpu@tas on=y1:5
        left second: {NO_LONGER}
        """,
    ),
    "TAS-83 room for one on the first node": (
        True,
        f"""{UNEVEN}
        wait first @a: cpu=1 p=2 preferred=host
        wait second @b: 3x cpu=1 p=1 preferred=host
        ->
        admit first: main 1x cpu@tas on=x1:1
        admit second: main 3x cpu@tas on=y1:3
        """,
    ),
    "TAS-98 room for one on the first node, not recomputed": (
        False,
        f"""{UNEVEN}
        wait first @a: cpu=1 p=2 preferred=host
        wait second @b: 3x cpu=1 p=1 preferred=host
        ->
        admit first: main 1x cpu@tas on=x1:1
        left second: {NO_LONGER}
        """,
    ),
    "TAS-84 a preemptor keeps its room": (
        True,
        f"""{small("Any", 1)}
        ->
        preempt old for four: InClusterQueue
        {WAITS_FOR_ROOM}. Pending the preemption of 1 workload(s)
        parked three: {NO_ROOM} 3 pod(s). Total nodes: 1; excluded: resource "cpu": 1
        """,
    ),
    "TAS-101 a preemptor keeps its room, not recomputed": (
        False,
        f"""{small("Any", 1)}
        ->
        preempt old for four: InClusterQueue
        {WAITS_FOR_ROOM}. Pending the preemption of 1 workload(s)
        left three: {NO_LONGER}
        """,
    ),
    "TAS-85 a preemptor without victims keeps its room": (
        True,
        f"""{small("LowerPriority", 2)}
        ->
        {WAITS_FOR_ROOM.replace("left", "parked")}
        parked three: {NO_ROOM} 3 pod(s). Total nodes: 1; excluded: resource "cpu": 1
        """,
    ),
    "TAS-102 a preemptor without victims keeps its room, not recomputed": (
        False,
        f"""{small("LowerPriority", 2)}
        ->
        {WAITS_FOR_ROOM.replace("left", "parked")}
        left three: {NO_LONGER}
        """,
    ),
    "TAS-103 a preemptor that can always reclaim keeps nothing": (
        True,
        f"""{small("Any", 2)}
        ->
        {WAITS_FOR_ROOM.replace("left", "parked")}
        admit three: main 3x cpu@tas on=y1:3
        """,
    ),
    "TAS-86 a preemptor moves to a free node": (
        True,
        f"""{STALE}
        ->
        admit first: main 1x cpu@tas on=n2:1
        preempt low for second: InClusterQueue
        left second: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor tas, 1 more needed. \
Pending the preemption of 1 workload(s)
        """,
    ),
    "TAS-87 a preemptor moves to a free node, not recomputed": (
        False,
        f"""{STALE}
        ->
        admit first: main 1x cpu@tas on=n2:1
        left second: {NO_LONGER}
        """,
    ),
    "TAS-93 one of three candidates": (
        True,
        f"""{UNEVEN}
        run a1 @a: tas 5x cpu=1 p=1 required=host on=x1:5
        run a2 @a: tas 2x cpu=1 p=2 required=host on=y1:2
        run a3 @a: tas cpu=1 p=2 required=host on=y1:1
        queue c: tas cpu=0 memory=0
        wait w @b: 3x cpu=1 p=3 preferred=host
        ->
        preempt a1 for w: InCohortReclamation
        left w: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor tas, 3 more needed. \
Pending the preemption of 1 workload(s)
        """,
    ),
    "TAS-94 fewer pods after preemption": (
        True,
        f"""{UNEVEN}
        run a1 @a: tas 4x cpu=1 p=3 required=host on=y1:4
        run a2 @a: tas 3x cpu=1 p=2 required=host on=x1:3
        queue c: tas cpu=0 memory=0
        wait w @b: 4x cpu=1 memory=1 p=3 min=3 required=host
        ->
        preempt a2 for w: InCohortReclamation
        left w: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor tas, 2 more needed. \
Pending the preemption of 1 workload(s)
        """,
    ),
    "TAS-104 quota of one resource and room for another while borrowing": (
        True,
        f"""{HOSTS}
        node n1: cpu=8 gpu=8
        node n2: cpu=8 gpu=8
        cohort co: tas cpu=16 gpu=16
        queue a in co: tas cpu=0/16 gpu=0/16 ; within=LowerPriority reclaim=Any borrow=LowerPriority
        queue b in co: tas cpu=0/16 gpu=0/16 ; within=LowerPriority reclaim=Any borrow=LowerPriority
        run low-cpu @a: tas 2x cpu=5 p=-1000 required=host on=n1:1+n2:1
        run low-gpu @a: tas 2x cpu=10m gpu=8 p=-1000 required=host on=n1:1+n2:1
        wait w @b: cpu=5 gpu=8 required=host
        ->
        preempt low-cpu for w: InCohortReclaimWhileBorrowing
        preempt low-gpu for w: InCohortReclaimWhileBorrowing
        left w: couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor tas, 8 more needed. \
Pending the preemption of 2 workload(s)
        """,
    ),
}


@pytest.mark.parametrize("name", CYCLES)
def test_cycle(name: str) -> None:
    recompute, text = CYCLES[name]
    TopologyScenario(text, topology_recompute=recompute).check()


def test_victims_and_places_are_found_again_together() -> None:
    """TAS-78."""
    text = f"""{HOSTS}
        node x1: cpu=5
        node y1: cpu=5
        cohort co: tas cpu=0
        queue a in co: tas cpu=5/10 ; within=LowerPriority reclaim=Any
        queue b in co: tas cpu=5/10 ; within=LowerPriority reclaim=Any
        queue c in co: tas cpu=0/10 ; within=LowerPriority reclaim=Any
        run low @c: tas cpu=3 p=1 required=host on=x1:1
        run mid @c: tas cpu=3 p=2 required=host on=y1:1
        wait first @a: cpu=3 p=10 required=host
        wait second @b: cpu=3 p=10 t=1 required=host
        ->
        preempt low for first: InCohortReclamation
        preempt mid for second: InCohortReclamation
        left first: {NO_ROOM} 1 pod(s). Total nodes: 2; excluded: resource "cpu": 2. Pending the preemption of 1 workload(s)
        left second: {NO_ROOM} 1 pod(s). Total nodes: 2; excluded: resource "cpu": 2. Pending the preemption of 1 workload(s)
    """
    TopologyScenario(text, topology_recompute=True, recompute_on_overlap=True).check()
