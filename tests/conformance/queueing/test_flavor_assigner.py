"""Which flavors a workload gets, with what mode, and what it is told, one sentence per case."""

from __future__ import annotations

from typing import Any

import pytest
from flavor_notation import Case, check, over, pods, require, short
from scenario import Scenario

from corral.decide.queueing.cycle.assignment import Fit
from corral.decide.queueing.cycle.fungibility import Rank, is_preferred, tries_next
from corral.decide.queueing.cycle.partial import reduced_counts
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import Fungibility
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.testing.queueing import make_pod_set, make_workload

TAINTED = "flavor tainted taint instance=spot:NoSchedule; flavor one label type=one; flavor two label type=two"
TOLERATES = [{"key": "instance", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}]
LABELS = "flavor a label x=a; flavor b label x=b label y=k; flavor one label type=one; flavor two label type=two"


CASES = {
    "single flavor, fits": Case(
        "default cpu=1 memory=2Mi", [pods(cpu=1, memory="1Mi")], "main: cpu@default fit memory@default fit"
    ),
    "single flavor, fits tainted flavor": Case(
        "tainted cpu=4", [pods(cpu=1, tolerations=TOLERATES)], "main: cpu@tainted fit", flavors=TAINTED
    ),
    "single flavor, fits tainted flavor with toleration": Case(
        "own cpu=4",
        [pods(cpu=1)],
        "main: cpu@own fit",
        flavors="flavor own taint instance=spot:NoSchedule tolerates instance=",
    ),
    "single flavor, used resources, doesn't fit": Case(
        "default cpu=4", [pods(cpu=2)], "main: cpu@default preempt", [short(1)], used="default cpu=3"
    ),
    "multiple resource groups, fits": Case(
        "one cpu=2, two cpu=4 | b_one memory=1Gi, b_two memory=5Gi",
        [pods(cpu=3, memory="2Gi")],
        "main: cpu@two fit memory@b_two fit",
    ),
    "multiple flavors, leader worker set, leader and workers request the same resources fits": Case(
        "one cpu=8, two cpu=10",
        [pods("leader", 1, cpu=1, group="g"), pods("worker", 8, cpu=1, group="g")],
        "leader: cpu@two fit; worker: cpu@two fit",
    ),
    "multiple flavors, leader worker set, workers request GPU, leader does not request GPU, fits": Case(
        "one cpu=10 gpu=0, two cpu=10 gpu=4",
        [pods("leader", 1, cpu=1, group="g"), pods("worker", 4, cpu=1, gpu=1, group="g")],
        "leader: cpu@two fit; worker: cpu@two fit gpu@two fit",
    ),
    "workers request GPU, leader does not request GPU, does not fit, without group it would fit": Case(
        "one cpu=1 gpu=0, two cpu=4 gpu=4",
        [pods("leader", 1, cpu=1, group="g"), pods("worker", 4, cpu=1, gpu=1, group="g")],
        "leader: none; worker: none",
        [over("0", "5", "1", "one"), over("0", "4", "0", "one", "gpu"), over("0", "5", "4", "two")],
        granular="ExceedsMaxQuota",
    ),
    "multiple resource groups, one could fit with preemption, other doesn't fit": Case(
        "one cpu=3 | b_one memory=1Mi",
        [pods(cpu=3, memory="10Mi")],
        "main: none",
        [over("0", "10Mi", "1Mi", "b_one", "memory")],
        used="one cpu=1",
        granular="ExceedsMaxQuota",
    ),
    "multiple resources in a group, doesn't fit": Case(
        "one cpu=2 memory=1Gi, two cpu=4 memory=5Mi",
        [pods(cpu=3, memory="10Mi")],
        "main: none",
        [over("0", "3", "2", "one"), over("0", "10Mi", "5Mi", "two", "memory")],
        granular="ExceedsMaxQuota",
    ),
    "multiple flavors, fits while skipping tainted flavor": Case(
        "tainted cpu=4, two cpu=4", [pods(cpu=3)], "main: cpu@two fit", flavors=TAINTED
    ),
    "multiple flavors, fits a node selector": Case(
        "one cpu=4, two cpu=4",
        [pods(cpu=1, nodeSelector={"type": "two", "ignored": "x"})],
        "main: cpu@two fit",
        flavors=LABELS,
    ),
    "multiple flavors, fits with node affinity": Case(
        "one cpu=4 memory=1Gi, two cpu=4 memory=1Gi",
        [pods(cpu=1, memory="1Mi", affinity=require("type", "two"))],
        "main: cpu@two fit memory@two fit",
        flavors=LABELS,
    ),
    "multiple flavors, node affinity fits any flavor": Case(
        "one cpu=4, two cpu=4",
        [pods(cpu=1, affinity=require("ignored", "foo"))],
        "main: cpu@one fit",
        flavors=LABELS,
    ),
    "multiple flavors with different label keys, selector only uses flavor's own keys": Case(
        "a cpu=4, b cpu=4",
        [pods(cpu=1, nodeSelector={"x": "a", "y": "z"})],
        "main: cpu@a fit",
        flavors=LABELS,
    ),
    "labelless flavor in group with labeled flavor, workload uses labeled selector": Case(
        "default cpu=4, a cpu=4", [pods(cpu=1, nodeSelector={"x": "a"})], "main: cpu@default fit", flavors=LABELS
    ),
    "multiple flavors, doesn't fit node affinity": Case(
        "one cpu=4, two cpu=4",
        [pods(cpu=1, affinity=require("type", "three"))],
        "main: none",
        ["flavor one doesn't match node affinity", "flavor two doesn't match node affinity"],
        flavors=LABELS,
        granular="NoMatchingFlavor",
    ),
    "multiple specs, fit different flavors": Case(
        "one cpu=4, two cpu=10",
        [pods("driver", cpu=5), pods("worker", cpu=3)],
        "driver: cpu@two fit; worker: cpu@one fit",
    ),
    "multiple specs, fits borrowing": Case(
        "default cpu=2/98 memory=2Gi",
        [pods("driver", cpu=4, memory="1Gi"), pods("worker", cpu=6, memory="1Gi")],
        "driver: cpu@default fit memory@default fit; worker: cpu@default fit memory@default fit",
        neighbour="default cpu=198 memory=198Gi",
        borrows=1,
    ),
    "not enough space to borrow": Case(
        "one cpu=1",
        [pods(cpu=2)],
        "main: none",
        [short(1, "one")],
        neighbour="one cpu=10",
        neighbour_used="one cpu=10",
        granular="WaitingForQuota",
    ),
    "past max, but can preempt in ClusterQueue": Case(
        "one cpu=2/8",
        [pods(cpu=2)],
        "main: cpu@one preempt",
        [short(1, "one")],
        used="one cpu=9",
        neighbour="one cpu=98",
        neighbour_used="one cpu=9",
    ),
    "past min, but can preempt in ClusterQueue": Case(
        "one cpu=2", [pods(cpu=2)], "main: cpu@one preempt", [short(1, "one")], used="one cpu=1"
    ),
    "past min, but can preempt in cohort and ClusterQueue": Case(
        "one cpu=3",
        [pods(cpu=2)],
        "main: cpu@one preempt",
        [short(2, "one")],
        used="one cpu=2",
        neighbour="one cpu=7",
        neighbour_used="one cpu=8",
    ),
    "can only preempt flavors that match affinity": Case(
        "one cpu=4, two cpu=4",
        [pods(cpu=2, nodeSelector={"type": "two"})],
        "main: cpu@two preempt",
        ["flavor one doesn't match node affinity", short(1, "two")],
        used="one cpu=3, two cpu=3",
        flavors=LABELS,
    ),
    "each podset requires preemption on a different flavor": Case(
        "one cpu=4, tainted cpu=10",
        [pods("launcher", cpu=2), pods("workers", 10, cpu=1, tolerations=TOLERATES)],
        "launcher: cpu@one preempt; workers: cpu@tainted preempt",
        used="one cpu=3, tainted cpu=3",
        flavors=TAINTED,
    ),
    "resource not listed in clusterQueue": Case(
        "one cpu=4",
        [pods(example__gpu=2)],
        "main: none",
        ["resource example/gpu unavailable in ClusterQueue"],
        granular="NoMatchingFlavor",
    ),
    "zero resource request not in clusterQueue should succeed": Case(
        "one cpu=4", [pods(cpu=1, example__gpu=0)], "main: cpu@one fit"
    ),
    "zero resource request defined in clusterQueue should get flavor assigned": Case(
        "one cpu=4 gpu=4", [pods(cpu=1, gpu=0)], "main: cpu@one fit gpu@one fit"
    ),
    "num pods fit": Case("default pods=3 cpu=10", [pods(count=3, cpu=1)], "main: cpu@default fit pods@default fit"),
    "num pods don't fit": Case(
        "default pods=2 cpu=10",
        [pods(count=3, cpu=1)],
        "main: none",
        [over("0", "3", "2", "default", "pods")],
        granular="ExceedsMaxQuota",
    ),
    "with reclaimable pods; reclaimablePods on": Case(
        "default pods=3 cpu=10",
        [pods(count=5, cpu=1)],
        "main: cpu@default fit pods@default fit",
        reclaimable={"main": 2},
    ),
    "with reclaimable pods; reclaimablePods off": Case(
        "default pods=3 cpu=10",
        [pods(count=5, cpu=1)],
        "main: none",
        [over("0", "5", "3", "default", "pods")],
        reclaimable={"main": 2},
        features={"reclaimable_pods": False},
        granular="ExceedsMaxQuota",
    ),
    "preempt before try next flavor": Case(
        "one cpu=10, two cpu=10 ; whenCanPreempt=MayStopSearch",
        [pods(cpu=9)],
        "main: cpu@one preempt",
        [short(1, "one")],
        used="one cpu=2",
        tried=0,
    ),
    "preempt try next flavor": Case(
        "one cpu=10, two cpu=10", [pods(cpu=9)], "main: cpu@two fit", used="one cpu=2", tried=-1
    ),
    "borrow try next flavor, found the first flavor": Case(
        "one cpu=10/1, two cpu=1 ; whenCanBorrow=TryNextFlavor",
        [pods(cpu=9)],
        "main: cpu@one fit",
        used="one cpu=2",
        neighbour="one cpu=1, two cpu=0",
        borrows=1,
        tried=-1,
    ),
    "borrow try next flavor, found the second flavor": Case(
        "one cpu=10/1, two cpu=10 ; whenCanBorrow=TryNextFlavor",
        [pods(cpu=9)],
        "main: cpu@two fit",
        used="one cpu=2",
        neighbour="one cpu=1, two cpu=0",
        tried=-1,
    ),
    "borrow before try next flavor": Case(
        "one cpu=10/1, two cpu=10",
        [pods(cpu=9)],
        "main: cpu@one fit",
        used="one cpu=2",
        neighbour="one cpu=1, two cpu=0",
        borrows=1,
        tried=0,
    ),
    "when borrowing while preemption is needed for flavor one; WhenCanBorrow=MayStopSearch": Case(
        "one cpu=0/12, two cpu=12 ; borrow=LowerPriority whenCanBorrow=Borrow whenCanPreempt=Preempt",
        [pods(cpu=12)],
        "main: cpu@one preempt",
        [short(9, "one")],
        neighbour="one cpu=12, two cpu=0",
        neighbour_used="one cpu=9",
        oracle={"one": (Fit.PREEMPT, 1)},
        borrows=1,
        tried=0,
    ),
    "when borrowing while preemption is needed for flavor one, the next flavor is tried by default": Case(
        "one cpu=0/12, two cpu=12 ; borrow=LowerPriority",
        [pods(cpu=12)],
        "main: cpu@two fit",
        neighbour="one cpu=12, two cpu=0",
        neighbour_used="one cpu=10",
    ),
    "when borrowing while preemption is needed for flavor one; WhenCanBorrow=MayStopSearch,WhenCanPreempt=MayStopSearch": Case(
        "one cpu=0/12, two cpu=12 ; borrow=LowerPriority whenCanPreempt=MayStopSearch",
        [pods(cpu=12)],
        "main: cpu@one preempt",
        [short(10, "one")],
        neighbour="one cpu=12, two cpu=0",
        neighbour_used="one cpu=10",
        oracle={"one": Fit.RECLAIM},
        tried=0,
    ),
    "when borrowing while preemption is needed, but borrowingLimit exceeds the quota available in the cohort": Case(
        "one cpu=0/12 ; borrow=LowerPriority",
        [pods(cpu=12)],
        "main: none",
        [over("0", "12", "11", "one")],
        neighbour="one cpu=11",
        granular="ExceedsMaxQuota",
    ),
    "lend try next flavor, found the second flavor": Case(
        "one cpu=10, two cpu=10 ; whenCanBorrow=TryNextFlavor",
        [pods(cpu=9)],
        "main: cpu@two fit",
        used="one cpu=2",
        neighbour="one cpu=1//0, two cpu=0",
    ),
    "cannot preempt in cohort for the first flavor, tries the second flavor (which fits)": Case(
        "one cpu=10, two cpu=10 ; whenCanPreempt=MayStopSearch",
        [pods(cpu=2)],
        "main: cpu@two fit",
        used="one cpu=10",
        oracle={"one": Fit.NO_CANDIDATES},
    ),
    "quota exhausted, but can preempt in cohort and ClusterQueue": Case(
        "one cpu=9//0, two cpu=9",
        [pods(cpu=9)],
        "main: cpu@one preempt",
        [short(9, "one"), short(9, "two")],
        used="one cpu=9, two cpu=9",
        neighbour="one cpu=0, two cpu=0",
    ),
    "when borrowing while preemption is needed for flavor one, fair sharing enabled, reclaimWithinCohort=Any": Case(
        "one cpu=0, two cpu=12 ; reclaim=Any whenCanPreempt=MayStopSearch",
        [pods(cpu=12)],
        "main: cpu@one preempt",
        [short(10, "one")],
        neighbour="one cpu=12, two cpu=0",
        neighbour_used="one cpu=10",
        fair=True,
        oracle={"one": Fit.RECLAIM},
    ),
    "when borrowing while preemption is needed for flavor one, fair sharing enabled, reclaimWithinCohort=Never": Case(
        "one cpu=0, two cpu=12 ; whenCanPreempt=MayStopSearch",
        [pods(cpu=12)],
        "main: cpu@two fit",
        neighbour="one cpu=12, two cpu=0",
        neighbour_used="one cpu=10",
        fair=True,
    ),
    "workload slice preemption fits in the original workload resource flavor": Case(
        "one cpu=5, two cpu=5", [pods(count=4, cpu=1)], "main: cpu@two fit", replaced={"main": ("two", 2000)}
    ),
    "workload slice preemption does not fit in the original workload resource flavor": Case(
        "one cpu=10, two cpu=3",
        [pods(count=6, cpu=1)],
        "main: none",
        [
            "could not assign one flavor since the original workload is assigned: two",
            over("0", "4", "3", "two"),
        ],
        replaced={"main": ("two", 2000)},
        granular="ExceedsMaxQuota",
    ),
    "multiple flavors, skip missing ResourceFlavor": Case(
        "missing-one cpu=4, two cpu=4", [pods(cpu=3)], "main: cpu@two fit"
    ),
    "flavor not found": Case(
        "missing-one cpu=4",
        [pods(cpu=1)],
        "main: none",
        ["flavor missing-one not found"],
        granular="NoMatchingFlavor",
    ),
    "select first flavor where gpu reclamation is possible": Case(
        "one gpu=10, two gpu=10",
        [pods(gpu=5)],
        "main: gpu@two preempt",
        [short(5, "one", "gpu"), short(5, "two", "gpu")],
        used="one gpu=10, two gpu=10",
        oracle={"one": Fit.PREEMPT, "two": Fit.RECLAIM},
    ),
    "select first flavor where priority based preemption is possible": Case(
        "one gpu=10, two gpu=10",
        [pods(gpu=5)],
        "main: gpu@one preempt",
        [short(5, "one", "gpu"), short(5, "two", "gpu")],
        used="one gpu=10, two gpu=10",
    ),
    "succeeds on the second flavor with a tolerated taint": Case(
        "one cpu=1, tainted cpu=4",
        [pods(cpu=2, tolerations=TOLERATES)],
        "main: cpu@tainted fit",
        flavors=TAINTED,
    ),
}


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_assign_flavors(name: str) -> None:
    check(CASES[name])


FIT, PREEMPT, NONE, NO_FIT = Fit.FIT, Fit.PREEMPT, Fit.NO_CANDIDATES, Fit.NO_FIT
BORROW, LESS = "BorrowingOverPreemption", "PreemptionOverBorrowing"


@pytest.mark.parametrize(
    ("one", "other", "preference", "expected"),
    [
        pytest.param(Rank(FIT, 0), Rank(PREEMPT, 0), None, True, id="a fit is better than preemption"),
        pytest.param(Rank(PREEMPT, 1), Rank(FIT, 2), BORROW, False, id="borrowing far is better than preempting"),
        pytest.param(Rank(PREEMPT, 1), Rank(FIT, 2), LESS, True, id="preempting is better than borrowing far"),
        pytest.param(Rank(PREEMPT, 1), Rank(FIT, 1), LESS, False, id="borrowing ties are broken by preemption"),
        pytest.param(Rank(NONE, 1), Rank(FIT, 2), LESS, False, id="no candidates is rejected before borrowing counts"),
        pytest.param(Rank(FIT, 2), Rank(NONE, 1), LESS, True, id="fit is preferred over nearer without candidates"),
        pytest.param(Rank(NONE, 1), Rank(NO_FIT, 0), None, True, id="no candidates is better than no fit"),
        pytest.param(Rank(NO_FIT, 0), Rank(NONE, 1), None, False, id="no fit is worse than no candidates"),
        pytest.param(Rank(NONE, 1), Rank(NONE, 2), LESS, True, id="without candidates borrowing still counts"),
        pytest.param(Rank(NONE, 2), Rank(NONE, 1), LESS, False, id="without candidates borrowing counts in reverse"),
    ],
)
def test_is_preferred(one: Rank, other: Rank, preference: str | None, expected: bool) -> None:
    assert is_preferred(one, other, preference) is expected


@pytest.mark.parametrize(
    ("rank", "borrow", "preempt", "expected"),
    [
        (Rank(FIT, 0), "TryNextFlavor", "TryNextFlavor", False),
        (Rank(FIT, 1), "TryNextFlavor", "TryNextFlavor", True),
        (Rank(FIT, 1), "MayStopSearch", "TryNextFlavor", False),
        (Rank(PREEMPT, 0), "MayStopSearch", "TryNextFlavor", True),
        (Rank(PREEMPT, 0), "MayStopSearch", "MayStopSearch", False),
        (Rank(NONE, 0), "MayStopSearch", "MayStopSearch", True),
        (Rank(NO_FIT, 0), "MayStopSearch", "MayStopSearch", True),
    ],
)
def test_the_search_goes_on(rank: Rank, borrow: str, preempt: str, expected: bool) -> None:
    assert tries_next(rank, Fungibility(borrow, preempt)) is expected


def pod_set_infos(*sizes: tuple[int, int | None]) -> tuple[Any, ...]:
    sets = [make_pod_set(f"ps{index}", count, {"cpu": 1}, min_count=low) for index, (count, low) in enumerate(sizes)]
    return WorkloadDecoder(QueueingSettings()).decode(make_workload("w", "q", *sets)).pod_sets


@pytest.mark.parametrize(
    ("sizes", "fits", "expected"),
    [
        pytest.param((), 10, None, id="empty"),
        pytest.param(((1, None), (2, None)), 1, None, id="partial not available"),
        pytest.param(((5, 1), (4, 1)), 5, [3, 2], id="partial available"),
        pytest.param(((5, 1), (4, None)), 6, [2, 4], id="one partial available"),
        pytest.param(((5, 1), (4, None)), 5, [1, 4], id="to min"),
        pytest.param(((5, 1), (4, None)), 4, None, id="below min"),
        pytest.param(((5, 3), (5, 4), (5, 1), (5, 2)), 20, [5, 5, 5, 5], id="to max"),
        pytest.param(((5, 3), (5, 4), (5, 1), (5, 2)), 21, [5, 5, 5, 5], id="more than max"),
        pytest.param(((150_000, 1), *[(1, None)] * 7), 150_000, [149_993, *[1] * 7], id="max pods on 1.27"),
        pytest.param(((100_000, 1), (100_000, 1)), 100_000, [50_000, 50_000], id="no overflow"),
        pytest.param(((0, None), (4, 1)), 2, [0, 2], id="podset with replica count 0"),
    ],
)
def test_partial_search(sizes: tuple[tuple[int, int | None], ...], fits: int, expected: list[int] | None) -> None:
    infos = pod_set_infos(*sizes) if sizes else ()
    found = reduced_counts(infos, lambda counts: counts if sum(counts) <= fits else None)
    assert found == expected


def test_pod_sets_only_use_allowed_flavors() -> None:
    annotation = "kueue.x-k8s.io/workload-allowed-resource-flavors"
    for allowed, expected in (("f2", "f2"), ("f1", "f1"), ("f1,f2", "f1"), (None, "f1"), ("f3", None)):
        scenario = Scenario("queue q: f1 cpu=4, f2 cpu=4\n->", concurrent_admission=True)
        annotations = {} if allowed is None else {annotation: allowed}
        scenario.state.upsert_workload(make_workload("w", "lq-q", requests={"cpu": 1}, annotations=annotations))
        outcome = scenario.run()
        assert outcome.admitted.get("w") == (None if expected is None else f"main 1x cpu@{expected}")
        if expected is None:
            assert "skipping flavor f1 due to WorkloadAllowedResourceFlavorAnnotation annotation" in outcome.parked["w"]
