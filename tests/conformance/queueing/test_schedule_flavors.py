"""Which flavor a cycle uses when there are several, and what a second cycle makes of what the first one left."""

from __future__ import annotations

import pytest
from scenario import Scenario

from corral.core.meta import Key
from corral.testing.queueing import EPOCH

FIRST = {
    "SCH-45 prefer first preemption flavor when second flavor requires both reclaim and cq priority preemption": """
        queue alpha in other: on-demand gpu=10, spot gpu=10 ; within=LowerPriority reclaim=LowerPriority
        queue beta in other: on-demand gpu=0, spot gpu=0
        run a1 @alpha: on-demand gpu=5 p=50
        run a2 @alpha: spot gpu=5 p=50
        run b1 @beta: spot gpu=5 p=50
        wait preemptor @alpha: gpu=6 p=100
        ->
        preempt a1 for preemptor: InClusterQueue
        left preemptor: couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor on-demand, 1 more needed, insufficient unused quota for gpu in flavor spot, 6 more needed. Pending the preemption of 1 workload(s)
    """,
    "SCH-54 pending admission check with nofit and fit flavors": """
        queue alpha in eng: on-demand cpu=50/50, spot cpu=100/0
        queue beta in eng: on-demand cpu=50/10, spot cpu=0/100 ; checks=check
        wait pending-check @beta: cpu=80 check=Pending
        ->
        admit pending-check: main 1x cpu@spot
    """,
}


@pytest.mark.parametrize("name", FIRST, ids=list(FIRST))
def test_first_cycle(name: str) -> None:
    scenario = Scenario(FIRST[name])
    _activate(scenario)
    scenario.check()


def _activate(scenario: Scenario) -> None:
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    scenario.state.upsert_admission_check({"metadata": {"name": "check"}, "spec": {}, "status": active})


def test_flavors_that_were_passed_over_are_told_with_the_reservation() -> None:
    scenario = Scenario(FIRST["SCH-54 pending admission check with nofit and fit flavors"])
    _activate(scenario)
    (admission,) = scenario.state.plan_cycle(EPOCH).admissions
    assert (admission.checks, admission.considered) == (
        ("check",),
        "Flavors considered: main: on-demand(NoFit;insufficient quota for cpu in flavor on-demand, previously "
        "considered podsets requests (0) + current podset request (80) > maximum capacity (60)), spot(Fit;borrow=1)",
    )


COHORT = """
    queue alpha in cohort: on-demand cpu=50/50, spot cpu=100/0 ; strict reclaim=LowerPriority whenCanPreempt=MayStopSearch whenCanBorrow=MayStopSearch
    queue beta in cohort: on-demand cpu=50/50, spot cpu=100/0 ; strict reclaim=LowerPriority whenCanPreempt=MayStopSearch whenCanBorrow=MayStopSearch
    queue theta in cohort: on-demand cpu=50/50, spot cpu=100/0 ; strict reclaim=LowerPriority whenCanPreempt=TryNextFlavor whenCanBorrow=TryNextFlavor
"""

# The first cycle; workloads that are gone after it; the second one.
TWICE: dict[str, tuple[str, list[str], str]] = {
    "SCH-74 scheduling on the first flavor is unblocked after some workloads were deleted": (
        """
        queue alpha: on-demand cpu=50, spot cpu=10/0 ; within=LowerPriority whenCanPreempt=MayStopSearch
        run low-1 @alpha: on-demand cpu=50
        wait preemptor @alpha: cpu=20
        ->
        parked preemptor: couldn't assign flavors to pod set main: insufficient quota for cpu in flavor spot, previously considered podsets requests (0) + current podset request (20) > maximum capacity (10), insufficient unused quota for cpu in flavor on-demand, 20 more needed
        """,
        ["low-1"],
        "admit preemptor: main 1x cpu@on-demand",
    ),
    "SCH-75 borrow before next flavor": (
        COHORT
        + """
        run placeholder @alpha: on-demand cpu=50
        wait borrower @alpha: cpu=20
        wait workload1 @beta: cpu=20
        ->
        admit borrower: main 1x cpu@on-demand
        admit workload1: main 1x cpu@on-demand
        """,
        [],
        "",
    ),
    "SCH-76 borrow after all flavors": (
        COHORT
        + """
        run placeholder @alpha: on-demand cpu=50
        run placeholder1 @theta: on-demand cpu=50
        wait workload @theta: cpu=20
        ->
        admit workload: main 1x cpu@spot
        """,
        [],
        "",
    ),
    "SCH-77 when the next flavor is full, but can borrow on first": (
        COHORT
        + """
        run placeholder @alpha: on-demand cpu=40
        run placeholder1 @theta: on-demand cpu=40
        run placeholder2 @theta: spot cpu=100
        wait workload @theta: cpu=20
        ->
        admit workload: main 1x cpu@on-demand
        """,
        [],
        "",
    ),
    "SCH-78 when the next flavor is full, but can preempt on first": (
        COHORT
        + """
        run placeholder-alpha @alpha: on-demand cpu=150 p=-1
        run placeholder-theta-spot @theta: spot cpu=100
        wait new @theta: cpu=20
        ->
        preempt placeholder-alpha for new: InCohortReclamation
        left new: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor on-demand, 20 more needed, insufficient unused quota for cpu in flavor spot, 20 more needed. Pending the preemption of 1 workload(s)
        """,
        ["placeholder-alpha"],
        "admit new: main 1x cpu@on-demand",
    ),
}


@pytest.mark.parametrize("name", TWICE, ids=list(TWICE))
def test_second_cycle(name: str) -> None:
    text, gone, wanted = TWICE[name]
    scenario = Scenario(text)
    scenario.check()
    for workload in gone:
        scenario.state.delete_workload(Key("default", workload))
    scenario.wanted = wanted
    scenario.check()
