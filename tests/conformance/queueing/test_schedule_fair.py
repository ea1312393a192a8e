"""One cycle with fair sharing, one sentence per case."""

from __future__ import annotations

import pytest
from scenario import Scenario

from corral.decide.queueing.model.settings import Features, QueueingSettings

FAIR = QueueingSettings(fair_sharing=True)

CASES = {
    "with fair sharing: schedule workload with lowest share first": """
        queue alpha in eng: on-demand cpu=50/50
        queue beta in eng: on-demand cpu=50/50
        queue gamma in eng: on-demand cpu=50/0
        run old @alpha: on-demand cpu=85
        wait a @alpha: cpu=10 t=1
        wait b @beta: cpu=65 t=2
        ->
        admit b: main 1x cpu@on-demand
        left a: Workload no longer fits after processing another workload
    """,
    "with fair sharing: nominal-first ordering admits workload fitting within nominal despite higher CQ DRS": """
        queue alpha in eng: on-demand cpu=50/0 | spot gpu=0
        queue beta in eng: on-demand cpu=10/50 | spot gpu=100
        run heavy @alpha: spot gpu=90
        wait nominal @alpha: cpu=45 t=2
        wait borrowing @beta: cpu=20 t=1
        ->
        admit nominal: main 1x cpu@on-demand
        left borrowing: Workload no longer fits after processing another workload
    """,
    "with fair sharing: hierarchical nominal-first prefers non-borrowing subtree": """
        cohort root
        cohort left in root: default cpu=10
        cohort right in root
        queue a in left: default cpu=0
        queue b in right: default cpu=0
        wait wl-a @a: cpu=10 t=2
        wait wl-b @b: cpu=5 t=1
        ->
        admit wl-a: main 1x cpu@default
        left wl-b: Workload no longer fits after processing another workload
    """,
    "with fair sharing: hierarchical nominal-first with deeper nesting": """
        cohort root
        cohort left in root
        cohort sub in left: on-demand cpu=10
        cohort right in root
        queue a in sub: on-demand cpu=0
        queue b in right: on-demand cpu=5
        queue c in right: on-demand cpu=0
        run c0 @c: on-demand cpu=10
        wait wl-a @a: cpu=5 t=2
        wait wl-b @b: cpu=5 t=1
        ->
        admit wl-a: main 1x cpu@on-demand
        left wl-b: Workload no longer fits after processing another workload
    """,
    "with fair sharing: hierarchical nominal-first with mixed CQ and cohort quotas": """
        cohort root
        cohort left in root: on-demand cpu=10
        cohort right in root: on-demand cpu=10
        queue a1 in left: on-demand cpu=5
        queue a2 in left: on-demand cpu=3
        queue b in right: on-demand cpu=5
        queue c in right: on-demand cpu=3
        run a2-admitted @a2: on-demand cpu=6
        run c-admitted @c: on-demand cpu=20
        wait wl-a1 @a1: cpu=7 t=2
        wait wl-b @b: cpu=4 t=1
        ->
        admit wl-a1: main 1x cpu@on-demand
        left wl-b: Workload no longer fits after processing another workload
    """,
    "with fair sharing: prefer reclamation over cq priority based preemption; with preemption while borrowing": """
        queue alpha in other: on-demand gpu=7, spot gpu=7 ; within=LowerPriority reclaim=LowerPriority
        queue beta in other: on-demand gpu=3, spot gpu=3
        run a1 @alpha: on-demand gpu=5 p=50
        run b1 @beta: spot gpu=5 p=50
        wait preemptor @alpha: gpu=8 p=100
        ->
        preempt b1 for preemptor: InCohortFairSharing
        left preemptor: couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor on-demand, 3 more needed, insufficient unused quota for gpu in flavor spot, 3 more needed. Pending the preemption of 1 workload(s)
    """,
    "hierarchical fair sharing schedule workload which wins tournament": """
        cohort a: default cpu=100
        cohort b in a: default cpu=50
        cohort c in a: default cpu=50
        queue d in b: default cpu=0
        queue e in b: default cpu=0
        queue f in c: default cpu=0
        queue g in c: default cpu=0
        run d0 @d: default cpu=90
        run f0 @f: default cpu=10
        wait d1 @d: cpu=95
        wait e1 @e: cpu=95
        wait f1 @f: cpu=90
        wait g1 @g: cpu=91
        ->
        admit g1: main 1x cpu@default
        left d1: Workload no longer fits after processing another workload
        left e1: Workload no longer fits after processing another workload
        left f1: Workload no longer fits after processing another workload
    """,
    "fair sharing schedule workload with lowest drf after admission": """
        cohort a: default cpu=10
        queue b in a: default cpu=0
        queue c in a: default cpu=0
        wait b1 @b: cpu=7
        wait c1 @c: cpu=6
        ->
        admit c1: main 1x cpu@default
        left b1: Workload no longer fits after processing another workload
    """,
    "fair sharing two queues with weight 0 schedules workload which borrows less": """
        cohort a: default cpu=10
        queue b in a: default cpu=0 ; weight=0
        queue c in a: default cpu=0 ; weight=0
        wait b1 @b: cpu=10 t=1
        wait c1 @c: cpu=9 t=2
        ->
        admit c1: main 1x cpu@default
        left b1: Workload no longer fits after processing another workload
    """,
    "fair sharing two queues with high weight schedules workload which borrows less": """
        cohort a: default cpu=10
        queue b in a: default cpu=0 ; weight=10000
        queue c in a: default cpu=0 ; weight=10000
        wait b1 @b: cpu=10 t=1
        wait c1 @c: cpu=9 t=2
        ->
        admit c1: main 1x cpu@default
        left b1: Workload no longer fits after processing another workload
    """,
    "fair sharing schedule singleton cqs and cq without cohort": """
        queue alone: default cpu=10
        queue a in one: default cpu=10
        queue b in two: default cpu=10
        wait w1 @alone: cpu=10
        wait w2 @a: cpu=10
        wait w3 @b: cpu=10
        ->
        admit w1: main 1x cpu@default
        admit w2: main 1x cpu@default
        admit w3: main 1x cpu@default
    """,
    "fair sharing schedule highest priority first": """
        cohort a: default cpu=10
        queue b in a: default cpu=0
        queue c in a: default cpu=0
        wait b1 @b: cpu=10 p=99 t=1
        wait c1 @c: cpu=10 p=101 t=2
        ->
        admit c1: main 1x cpu@default
        left b1: Workload no longer fits after processing another workload
    """,
    "fair sharing schedule earliest timestamp first": """
        cohort a: default cpu=10
        queue b in a: default cpu=0
        queue c in a: default cpu=0
        wait b1 @b: cpu=10 p=101 t=2
        wait c1 @c: cpu=10 p=101 t=1
        ->
        admit c1: main 1x cpu@default
        left b1: Workload no longer fits after processing another workload
    """,
    "with fair sharing: preempt workload from CQ with the highest share": """
        queue alpha in eng: default cpu=50 ; reclaim=Any
        queue beta in eng: default cpu=50
        queue gamma in eng: default cpu=50
        run a1 @alpha: default cpu=10
        run b1 @beta: default cpu=60
        run g1 @gamma: default cpu=80
        wait preemptor @alpha: cpu=30
        ->
        preempt g1 for preemptor: InCohortReclamation
        left preemptor
    """,
    "multiple preemptions within cq when fair sharing": """
        queue alpha in other: default cpu=3 ; within=LowerPriority
        queue beta in other: default cpu=3 ; within=LowerPriority
        run a1 @alpha: default cpu=3
        run b1 @beta: default cpu=3
        wait pa @alpha: cpu=3 p=100
        wait pb @beta: cpu=3 p=100
        ->
        preempt a1 for pa: InClusterQueue
        preempt b1 for pb: InClusterQueue
        left pa
        left pb
    """,
    "multiple preemptions skip overlapping preemption targets": """
        queue alpha in other: default cpu=2 ; reclaim=Any
        queue beta in other: default cpu=2 ; reclaim=Any
        queue bank in other: default cpu=0
        run hog @bank: default cpu=4
        wait pa @alpha: cpu=2 p=100
        wait pb @beta: cpu=2 p=99
        ->
        preempt hog for pa: InCohortReclamation
        left pa
        left pb: Workload has overlapping preemption targets with another workload
    """,
    "not enough resources with fair sharing enabled": """
        queue q: default cpu=2
        run old @q: default cpu=2
        wait new @q: cpu=1
        ->
        parked new: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed
    """,
    "prefer flavor with most local capacity": """
        cohort root: on-demand cpu=5
        queue q in root: on-demand cpu=0, spot cpu=5 ; whenCanBorrow=TryNextFlavor
        wait new @q: cpu=5
        ->
        admit new: main 1x cpu@spot
    """,
    "fair sharing: in-CQ preemption for CQ without cohort": """
        queue alone: default cpu=2 ; within=LowerPriority
        run low @alone: default cpu=2 p=-1
        wait high @alone: cpu=2 p=1
        ->
        preempt low for high: InClusterQueue
        left high
    """,
    "PreemptionOverBorrowing with fair sharing: preempt in first flavor instead of borrowing in second": """
        queue q in co: on-demand cpu=5, spot cpu=0 ; within=LowerPriority whenCanBorrow=TryNextFlavor whenCanPreempt=TryNextFlavor preference=PreemptionOverBorrowing
        queue lender in co: on-demand cpu=0, spot cpu=5
        run low @q: on-demand cpu=5 p=-1
        wait new @q: cpu=5
        ->
        preempt low for new: InClusterQueue
        left new
    """,
}


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_schedule_with_fair_sharing(name: str) -> None:
    Scenario(CASES[name], FAIR).check()


def test_without_fair_sharing_the_flavor_with_most_local_capacity_is_preferred_too() -> None:
    Scenario(CASES["prefer flavor with most local capacity"]).check()


OVERLAP = """
    cohort root: default cpu=6
    queue hero in root: default cpu=6 ; reclaim=Any
    queue tiny in root: default cpu=2 ; reclaim=Any
    queue hog in root: default cpu=0
    run h1 @hog: default cpu=10 p=0
    run h2 @hog: default cpu=4 p=1
    wait a @hero: cpu=6 t=1
    wait b @tiny: cpu=2 t=2
    ->
"""


@pytest.mark.parametrize("fair", [False, True])
def test_two_workloads_reclaim_nominal_quota_with_recomputation_on_overlap(fair: bool) -> None:
    settings = QueueingSettings(fair_sharing=fair, features=Features(recompute_on_overlap=True))
    first, second = ("b", "a") if fair else ("a", "b")
    text = (
        OVERLAP
        + f"""
        preempt h1 for {first}: InCohortReclamation
        left {first}
        left {second}: Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete
    """
    )
    outcome = Scenario(OVERLAP, settings).run()
    winner = next(iter(outcome.victims.values()))[0]
    assert outcome.victims == {"h1": (winner, "InCohortReclamation")}
    (other,) = {"a", "b"} - {winner}
    assert outcome.left[other].endswith("but will fit after these preemptions complete"), text


def test_legacy_overlap_skip_without_recomputation() -> None:
    outcome = Scenario(OVERLAP).run()
    (preemptor, _) = outcome.victims["h1"]
    (other,) = {"a", "b"} - {preemptor}
    assert outcome.left[other] == "Workload has overlapping preemption targets with another workload"


STICKY = """
    queue one in root: default cpu=5, on-demand cpu=5 ; within=LowerPriority reclaim=Any
    queue two in root: default cpu=5, on-demand cpu=5 ; within=LowerPriority reclaim=Any
    run first @one: default cpu=10
    run second @one: on-demand cpu=10
    wait high-1 @one: cpu=10 p=11 t=1
    wait high-2 @two: cpu=10 p=10 t=2
    ->
"""


@pytest.mark.parametrize(
    "features",
    [
        pytest.param({}, id="SFS-26 as it is"),
        pytest.param({"topology": False}, id="SFS-27 topology off"),
        pytest.param({"topology_recompute": False}, id="SFS-28 topology recomputation off"),
    ],
)
def test_recomputation_sticks_to_the_nominated_flavor(features: dict[str, bool]) -> None:
    settings = QueueingSettings(fair_sharing=True, features=Features(recompute_on_overlap=True, **features))
    outcome = Scenario(STICKY, settings).run()
    assert outcome.victims == {"first": ("high-2", "InCohortFairSharing")}
    assert set(outcome.left) == {"high-2"}
    assert outcome.parked == {
        "high-1": "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
        "10 more needed, skipping flavor on-demand as it is not found in the nomination mapping for resource cpu"
    }


LEAVES = """
    cohort root: default cpu=3005
    cohort left in root: default cpu=0
    cohort middle in root
    cohort right in root
    queue hero in left: default cpu=3000 ; within=LowerPriority reclaim=Any
    queue noisy in left: default cpu=0 ; within=LowerPriority reclaim=Any
    queue tiny in middle: default cpu=50 ; within=LowerPriority reclaim=Any
    queue rest in right: default cpu=0 ; within=LowerPriority reclaim=Any
    run noisy-0 @noisy: default cpu=3000
    run tiny-0 @tiny: default cpu=60
    run rest-0 @rest: default cpu=2995
    wait wl-hero @hero: cpu=2990 t=2
    wait wl-tiny @tiny: cpu=10 t=1
    ->
"""


def test_sfs_23_a_leaf_within_nominal_finds_other_victims_when_its_own_are_taken() -> None:
    settings = QueueingSettings(fair_sharing=True, features=Features(recompute_on_overlap=True))
    wanted = """
        preempt rest-0 for wl-tiny: InCohortFairSharing
        preempt noisy-0 for wl-hero: InCohortReclamation
        left wl-hero: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 5 more needed. Pending the preemption of 1 workload(s)
        left wl-tiny: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 10 more needed. Pending the preemption of 1 workload(s)
    """
    Scenario(LEAVES + wanted, settings).check()
