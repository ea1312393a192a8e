"""How far the search for a flavor goes, which of several is taken, and why none was, by scenario number."""

from __future__ import annotations

import pytest
from flavor_notation import Case, check, over, pods, short
from scenario import Scenario

from corral.decide.queueing.cycle.assignment import Fit
from corral.testing.queueing import EPOCH

GROUPS = "one cpu=2 memory=1Gi, two cpu=4 memory=15Mi"
LENT = "one cpu=12, two cpu=0"
BORROWS = "one cpu=0/12, two cpu=12"
UNLIMITED = "one cpu=0, two cpu=12"
OVER_TWO = over("0", "3", "2", "one")

SEARCHES = {
    "FLV-10 multiple resource groups with multiple resources, fits": Case(
        f"{GROUPS} | b_one gpu=4, b_two gpu=2",
        [pods(cpu=3, memory="10Mi", gpu=3)],
        "main: cpu@two fit gpu@b_one fit memory@two fit",
        tried={"cpu": -1, "memory": -1, "gpu": 0},
    ),
    "FLV-11 multiple resource groups with multiple resources, fits with different modes": Case(
        f"{GROUPS} | b_one gpu=4",
        [pods(cpu=3, memory="10Mi", gpu=3)],
        "main: cpu@two fit gpu@b_one preempt memory@two preempt",
        [OVER_TWO, short("5Mi", "two", "memory"), short(1, "b_one", "gpu")],
        used="two memory=10Mi",
        neighbour="b_one gpu=0",
        neighbour_used="b_one gpu=2",
        oracle={"two/memory": (Fit.PREEMPT, 1)},
        borrows=1,
        tried=-1,
        attempts={"one": "ExceedsMaxQuota", "two": "", "b_one": ""},
    ),
    "FLV-36 preempt before try next flavor": Case(
        "one cpu=10, two cpu=10 ; whenCanBorrow=MayStopSearch whenCanPreempt=MayStopSearch",
        [pods(cpu=9)],
        "main: cpu@one preempt",
        [short(1, "one")],
        used="one cpu=2",
        tried=0,
        attempts={"one": ""},
    ),
    "FLV-43 when borrowing while preemption is needed for flavor one, no borrowingLimit": Case(
        f"{UNLIMITED} ; reclaim=LowerPriority borrow=LowerPriority whenCanBorrow=Borrow whenCanPreempt=Preempt",
        [pods(cpu=12)],
        "main: cpu@one preempt",
        [short(10, "one")],
        neighbour=LENT,
        neighbour_used="one cpu=10",
        oracle={"one": (Fit.PREEMPT, 1)},
        borrows=1,
        tried=0,
    ),
    "FLV-44 when borrowing while preemption is needed for flavor one, no borrowingLimit, new words": Case(
        f"{UNLIMITED} ; reclaim=LowerPriority borrow=LowerPriority "
        "whenCanBorrow=MayStopSearch whenCanPreempt=MayStopSearch",
        [pods(cpu=12)],
        "main: cpu@one preempt",
        [short(7, "one")],
        neighbour=LENT,
        neighbour_used="one cpu=7",
        oracle={"one": (Fit.PREEMPT, 1)},
        borrows=1,
        tried=0,
    ),
    "FLV-45 when borrowing while preemption is needed for flavor one; WhenCanBorrow=TryNextFlavor": Case(
        f"{BORROWS} ; reclaim=LowerPriority borrow=LowerPriority whenCanBorrow=TryNextFlavor whenCanPreempt=Preempt",
        [pods(cpu=12)],
        "main: cpu@two fit",
        neighbour=LENT,
        tried=-1,
        attempts={"one": "", "two": ""},
        considered="main: one(Fit;borrow=1)",
    ),
    "FLV-46 the same with WhenCanPreempt=MayStopSearch": Case(
        f"{BORROWS} ; reclaim=LowerPriority borrow=LowerPriority "
        "whenCanBorrow=TryNextFlavor whenCanPreempt=MayStopSearch",
        [pods(cpu=11)],
        "main: cpu@two fit",
        neighbour=LENT,
        tried=-1,
        considered="main: one(Fit;borrow=1)",
    ),
    "FLV-49 lend try next flavor, found the first flavor": Case(
        "one pods=10 cpu=10//1, two pods=10 cpu=1//0 ; whenCanBorrow=TryNextFlavor",
        [pods(cpu=9)],
        "main: cpu@one fit pods@one fit",
        used="one cpu=2",
        neighbour="one cpu=1",
        borrows=1,
        tried=-1,
        attempts={"one": "", "two": "ExceedsMaxQuota"},
    ),
    "FLV-50 cannot preempt in cohort (oracle returns None) for the first flavor, tries the second flavor": Case(
        "one cpu=0/2, two cpu=0/2 ; reclaim=LowerPriority borrow=LowerPriority whenCanPreempt=MayStopSearch",
        [pods(cpu=2)],
        "main: cpu@two fit",
        neighbour="one cpu=2, two cpu=2",
        neighbour_used="one cpu=2",
        oracle={"one": Fit.NO_CANDIDATES},
        borrows=1,
        tried=-1,
        considered=f"main: one(preemptionMode=NoCandidates;{short(2, 'one')}), two(Fit;borrow=1)",
    ),
}

THREE = (
    "uno compute=10 gpu=10, due compute=10 gpu=10, tre compute=10 gpu=10 ; within=LowerPriority reclaim=LowerPriority"
)
NOTHING = "uno compute=0 gpu=0, due compute=0 gpu=0, tre compute=0 gpu=0"

RECLAIMS = {
    "FLV-61 Select first flavor which fits": Case(
        THREE,
        [pods(gpu=10)],
        "main: gpu@tre fit",
        used="uno gpu=1",
        neighbour=NOTHING,
        neighbour_used="due gpu=1",
        oracle={"due": Fit.RECLAIM},
    ),
    "FLV-63 Select first flavor when flavor fungibility is disabled": Case(
        f"{THREE} whenCanPreempt=MayStopSearch",
        [pods(gpu=10)],
        "main: gpu@uno preempt",
        used="uno gpu=1",
        neighbour=NOTHING,
        neighbour_used="due gpu=1, tre gpu=1",
        oracle={"due": Fit.RECLAIM, "tre": Fit.RECLAIM},
        tried=0,
    ),
    "FLV-64 Select first flavor when flavor fungibility is disabled; using the deprecated word": Case(
        f"{THREE} whenCanPreempt=Preempt",
        [pods(gpu=10)],
        "main: gpu@uno preempt",
        used="uno gpu=1",
        neighbour=NOTHING,
        neighbour_used="due gpu=1, tre gpu=1",
        oracle={"due": Fit.RECLAIM, "tre": Fit.RECLAIM},
        tried=0,
    ),
    "FLV-66 Select second flavor where gpu reclamation is possible, as compute Fits": Case(
        THREE,
        [pods(gpu=10, compute=10)],
        "main: compute@tre fit gpu@tre preempt",
        used="uno gpu=1, uno compute=1, due compute=1",
        neighbour=NOTHING,
        neighbour_used="due gpu=1, tre gpu=1",
        oracle={"due/gpu": Fit.RECLAIM, "tre/gpu": Fit.RECLAIM},
    ),
}

TREE = "cohort three: three cpu=4; cohort two in three: two cpu=4; cohort co in two: one cpu=4"
EMPTY = "one cpu=0, two cpu=0, three cpu=0"
PREEMPTS = "within=LowerPriority reclaim=LowerPriority"

HIERARCHY = {
    "FLV-69 Select the top flavor": Case(
        f"{EMPTY} ; {PREEMPTS}",
        [pods(cpu=4)],
        "main: cpu@three fit",
        above=TREE,
        used="one cpu=4",
        neighbour=EMPTY,
        neighbour_cohort="two",
        neighbour_used="two cpu=4",
        borrows=3,
    ),
    "FLV-70 Select the first flavor which fits": Case(
        f"{EMPTY} ; {PREEMPTS}",
        [pods(cpu=4)],
        "main: cpu@two fit",
        above=TREE,
        used="one cpu=4",
        neighbour=EMPTY,
        neighbour_cohort="two",
        borrows=2,
    ),
    "FLV-71 Select deeper-borrowing flavor that fits when shallower-borrowing flavor has no candidates": Case(
        "one cpu=4/0, two cpu=0, three cpu=0 ; "
        f"{PREEMPTS} whenCanBorrow=TryNextFlavor whenCanPreempt=TryNextFlavor preference=PreemptionOverBorrowing",
        [pods(cpu=4)],
        "main: cpu@two fit",
        above=TREE,
        used="one cpu=4",
        neighbour=EMPTY,
        neighbour_cohort="two",
        oracle={"one": (Fit.NO_CANDIDATES, 1)},
        borrows=2,
    ),
}

AB = "flavor a label type=a; flavor b taint key=val:NoSchedule"
SHARED = "flavor shared label type=shared; flavor a label type=a"

REASONS = {
    "FLV-60 multi-podset, one fits and another fails, attempts of the fitting pod set do not count": Case(
        "one cpu=2, two cpu=2",
        [pods("fitting", cpu=1, nodeSelector={"type": "two"}), pods("blocking", cpu=5)],
        "fitting: cpu@two fit; blocking: none",
        [over("0", "5", "2", "one"), over("1", "5", "2", "two")],
        flavors="flavor one label type=one; flavor two label type=two",
        granular="ExceedsMaxQuota",
        attempts={"one": "ExceedsMaxQuota", "two": "ExceedsMaxQuota"},
    ),
    "FLV-109 allow only the occupied flavor": Case(
        "f1 cpu=10, f2 cpu=10, occupied cpu=1",
        [pods(cpu=2)],
        "main: none",
        [
            "skipping flavor f1 due to WorkloadAllowedResourceFlavorAnnotation annotation",
            "skipping flavor f2 due to WorkloadAllowedResourceFlavorAnnotation annotation",
            over("0", "2", "1", "occupied"),
        ],
        allowed="occupied",
        features={"concurrent_admission": True},
        granular="ExceedsMaxQuota",
        attempts={"occupied": "ExceedsMaxQuota"},
    ),
    "FLV-116 taints mismatch": Case(
        "a cpu=2/4, b cpu=2/4",
        [pods(cpu=1, nodeSelector={"type": "wrong"})],
        "main: none",
        ["flavor a doesn't match node affinity", "untolerated taint {key val NoSchedule <nil>} in flavor b"],
        flavors=AB,
        granular="NoMatchingFlavor",
        attempts={"a": "NoMatchingFlavor", "b": "NoMatchingFlavor"},
    ),
    "FLV-118 node affinity mismatch when both flavors declare same key": Case(
        "a cpu=2/4, b cpu=2/4",
        [pods(cpu=1, nodeSelector={"type": "non-existent"})],
        "main: none",
        ["flavor a doesn't match node affinity", "flavor b doesn't match node affinity"],
        flavors="flavor a label type=a; flavor b label type=b",
        granular="NoMatchingFlavor",
        attempts={"a": "NoMatchingFlavor", "b": "NoMatchingFlavor"},
    ),
    "FLV-120 prioritization of structural mismatch over capacity mismatch": Case(
        "a cpu=2/4, b cpu=2/4 | c memory=1Gi",
        [pods(cpu=3, memory="20Gi", nodeSelector={"type": "wrong"})],
        "main: none",
        flavors=AB,
        granular="NoMatchingFlavor",
        attempts={"a": "NoMatchingFlavor", "b": "NoMatchingFlavor"},
    ),
    "FLV-128 insufficient capacity, cohort has available capacity (waiting for quota)": Case(
        "a cpu=2/2, b cpu=2/2",
        [pods(cpu=3)],
        "main: none",
        flavors=AB,
        neighbour="a cpu=2/2, b cpu=2/2",
        neighbour_used="a cpu=2, b cpu=2",
        granular="WaitingForQuota",
        attempts={"a": "WaitingForQuota", "b": "NoMatchingFlavor"},
    ),
    "FLV-129 exceeds cohort max capacity limits": Case(
        "a cpu=2/2, b cpu=2/2",
        [pods(cpu=5)],
        "main: none",
        [over("0", "5", "4", "a"), "untolerated taint {key val NoSchedule <nil>} in flavor b"],
        flavors=AB,
        neighbour="a cpu=2/2, b cpu=2/2",
        granular="ExceedsMaxQuota",
        attempts={"a": "ExceedsMaxQuota", "b": "NoMatchingFlavor"},
    ),
    "FLV-130 exceeds borrowing limit but cohort has capacity": Case(
        "a cpu=2/1, b cpu=2/1",
        [pods(cpu=4)],
        "main: none",
        [over("0", "4", "3", "a"), "untolerated taint {key val NoSchedule <nil>} in flavor b"],
        flavors=AB,
        neighbour="a cpu=5/5, b cpu=5/5",
        granular="ExceedsMaxQuota",
        attempts={"a": "ExceedsMaxQuota", "b": "NoMatchingFlavor"},
    ),
    "FLV-131 flavor spanning multiple resource groups": Case(
        "shared cpu=2/4, a cpu=2/4 | shared memory=2Gi/4Gi",
        [pods(cpu=3, memory="3Gi", nodeSelector={"type": "a"})],
        "main: none",
        flavors=SHARED,
        neighbour="shared cpu=2/2, a cpu=2/2 | shared memory=2Gi/2Gi",
        neighbour_used="shared cpu=2, shared memory=2048Mi, a cpu=2",
        oracle={"shared": Fit.NO_CANDIDATES, "a": Fit.NO_CANDIDATES},
        granular="NoMatchingFlavor",
        attempts={"shared": "NoMatchingFlavor", "a": "WaitingForQuota"},
    ),
}

WITHOUT = {"flavor_fungibility": False}
GATE_OFF = {
    "without the gate a flavor that borrows is as good as any": Case(
        f"{BORROWS} ; whenCanBorrow=TryNextFlavor",
        [pods(cpu=12)],
        "main: cpu@one fit",
        neighbour=LENT,
        features=WITHOUT,
        borrows=1,
        tried=-1,
    ),
    "without the gate the search goes on after preemption, whatever the queue says": Case(
        "one cpu=10, two cpu=10 ; whenCanPreempt=MayStopSearch",
        [pods(cpu=9)],
        "main: cpu@two fit",
        used="one cpu=2",
        features=WITHOUT,
        tried=-1,
    ),
    "without the gate the best fit counts, not the least borrowing": Case(
        f"{THREE} whenCanBorrow=TryNextFlavor preference=PreemptionOverBorrowing",
        [pods(gpu=10)],
        "main: gpu@due preempt",
        used="uno gpu=1",
        neighbour=NOTHING,
        neighbour_used="due gpu=1, tre gpu=1",
        oracle={"due": (Fit.RECLAIM, 3), "tre": Fit.PREEMPT},
        features=WITHOUT,
        borrows=3,
        tried=-1,
    ),
}

CASES = {**GATE_OFF, **SEARCHES, **RECLAIMS, **HIERARCHY, **REASONS}


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_flavor_search(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize(
    ("where", "level"),
    [
        pytest.param("queue", 0, id="no borrowing"),
        pytest.param("near", 1, id="borrows at level 1"),
        pytest.param("far", 2, id="FLV-102 borrows at level 2"),
    ],
)
def test_the_level_of_borrowing_is_part_of_the_admission(where: str, level: int) -> None:
    text = f"""
        cohort far: default cpu={4 if where == "far" else 0}
        cohort near in far: default cpu={4 if where == "near" else 0}
        queue q in near: default cpu={4 if where == "queue" else 0}
        wait w @q: cpu=4
        ->
    """
    (admission,) = Scenario(text).state.plan_cycle(EPOCH).admissions
    assert admission.borrows == level
