"""In which order the entries of a cycle are processed, and how much a waiting one keeps from the others."""

from __future__ import annotations

import pytest
from scenario import Scenario, at

from corral.core.meta import Key, Obj
from corral.decide.queueing.cycle.entry_processing import quota_due
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.model.values import FlavorResource
from corral.decide.queueing.quota.fair_shares import DominantShare
from corral.testing.queueing import EPOCH, make_workload

TREE = """
    cohort pool: default cpu=1
    queue one in pool: default cpu=0
    queue two in pool: default cpu=0
    queue three in pool: default cpu=0
"""


def winner(text: str, settings: QueueingSettings | None = None, *workloads: Obj, **features: bool) -> str:
    """Who gets the only cpu."""
    scenario = Scenario(TREE + text + "\n->", settings, **features)
    for workload in workloads:
        scenario.state.upsert_workload(workload)
    (name,) = scenario.run().admitted
    return name


def test_higher_priority_goes_first_among_equal_borrowers() -> None:
    text = """
        wait old @one: cpu=1 p=0 t=1
        wait important @two: cpu=1 p=1 t=5
    """
    assert winner(text) == "important"


def test_older_goes_first_when_priority_sorting_is_disabled() -> None:
    text = """
        wait old @one: cpu=1 p=0 t=1
        wait important @two: cpu=1 p=1 t=5
    """
    assert winner(text, None, priority_sorting_within_cohort=False) == "old"


def test_less_borrowing_goes_before_priority() -> None:
    text = """
        queue rich in pool: default cpu=1
        wait modest @rich: cpu=1 p=0 t=9
        wait greedy @one: cpu=2 p=100 t=1
    """
    assert winner(text) == "modest"


def evicted(name: str, reason: str, created: float, when: float, queue: str = "one", preempted: str = "") -> Obj:
    workload = make_workload(name, f"lq-{queue}", requests={"cpu": 1}, created=created)
    conditions = [{"type": "Evicted", "status": "True", "reason": reason, "lastTransitionTime": at(when)}]
    if preempted:
        conditions.append({"type": "Preempted", "status": "True", "reason": preempted, "lastTransitionTime": at(when)})
    workload["status"] = {"conditions": conditions}
    return workload


def test_a_pods_ready_timeout_sends_a_workload_to_the_back() -> None:
    late = evicted("timed-out", "PodsReadyTimeout", created=1, when=50)
    assert winner("wait other @two: cpu=1 t=10", None, late) == "other"


def test_a_pods_ready_timeout_does_not_matter_with_creation_timestamps() -> None:
    late = evicted("timed-out", "PodsReadyTimeout", created=1, when=50)
    settings = QueueingSettings(eviction_timestamp=False)
    assert winner("wait other @two: cpu=1 t=10", settings, late) == "timed-out"


def test_a_failed_check_sends_a_workload_to_the_back() -> None:
    assert winner("wait other @two: cpu=1 t=10", None, evicted("checked", "AdmissionCheck", 1, 50)) == "other"


def test_a_preempted_workload_keeps_its_place() -> None:
    assert winner("wait other @two: cpu=1 t=10", None, evicted("victim", "Preempted", 1, 50)) == "victim"


def test_a_workload_reclaimed_while_borrowing_goes_behind_its_preemptor_without_priority_sorting() -> None:
    victim = evicted("victim", "Preempted", 1, 50, preempted="InCohortReclaimWhileBorrowing")
    settings = QueueingSettings(features=Features(priority_sorting_within_cohort=False))
    assert winner("wait other @two: cpu=1 t=10", settings, victim) == "other"
    assert winner("wait other @two: cpu=1 t=10", None, victim) == "victim"


@pytest.mark.parametrize(("enabled", "first"), [(False, "fresh"), (True, "waiting")])
def test_preemptors_go_first_only_if_asked(enabled: bool, first: str) -> None:
    text = """
        cohort pool: default cpu=2
        queue one in pool: default cpu=0 ; within=LowerPriority reclaim=LowerPriority borrow=LowerPriority
        run low @one: default cpu=2 p=-5
        wait waiting @one: cpu=2 p=0 t=5
        ->
    """
    scenario = Scenario(text, prioritize_preemptors=enabled)
    scenario.run()
    scenario._read_queue("two in pool: default cpu=0")
    scenario._read_wait("fresh @two: cpu=2 p=9 t=9")
    scenario.state.delete_workload(next(iter(scenario.state.world.reservations)))
    (admission,) = scenario.state.plan_cycle(EPOCH).admissions
    assert admission.key.name == first


def test_sch_92_equal_borrowers_with_fair_sharing_are_first_come_first_served() -> None:
    text = "wait newer @one: cpu=1 t=2\n wait older @two: cpu=1 t=1"
    assert winner(text, QueueingSettings(fair_sharing=True)) == "older"


def test_sch_97_among_preemptors_the_one_within_nominal_goes_first() -> None:
    text = """
        cohort pool: default cpu=2
        queue borrowing in pool: default cpu=0 ; within=LowerPriority reclaim=LowerPriority
        queue nominal in pool: default cpu=2 ; within=LowerPriority reclaim=LowerPriority
        run low-1 @borrowing: default cpu=2 p=-5
        run low-2 @nominal: default cpu=2 p=-5
        wait greedy @borrowing: cpu=2 p=100 t=1
        wait modest @nominal: cpu=2 p=0 t=2
        ->
    """
    settings = QueueingSettings(fair_sharing=True, features=Features(prioritize_preemptors=True))
    scenario = Scenario(text, settings)
    assert set(scenario.run().victims) == {"low-1", "low-2"}
    for name in ("low-1", "low-2"):
        scenario.state.delete_workload(Key("default", name))
    scenario.state.settle()
    cycle = scenario.state._cycle
    entries = cycle._heads()
    assert all(cycle._order.is_preemptor(entry) for entry in entries)
    for entry in entries:
        cycle._nominate(entry)
    assert [entry.info.key.name for entry in cycle._order.ordered(entries)] == ["modest", "greedy"]


def test_sch_100_an_assignment_that_fits_takes_all_it_asks_for() -> None:
    scenario = Scenario(
        """
        queue q in eng: on-demand memory=100 | model-a gpu=10/0
        queue lender in eng: on-demand memory=20 | model-a gpu=0
        queue poor in eng: on-demand memory=0 | model-a gpu=0
        run used @q: on-demand memory=60, two model-a gpu=2
        wait w @q: memory=50 gpu=2 t=1
        wait late @poor: memory=11 t=2
        ->
        admit w: main 1x gpu@model-a memory@on-demand
        left late: Workload no longer fits after processing another workload
        """
    )
    scenario.check()
    used = scenario.state.world.queues["q"].node.usage
    assert used == {FlavorResource("on-demand", "memory"): 110, FlavorResource("model-a", "gpu"): 4}


# Name, cohorts between the queue and its quota, priority, created, evicted for pods that were not ready.
NINE: list[tuple[str, int, int, int, int | None]] = [
    ("old_borrowing", 1, 0, 0, None),
    ("old", 0, 0, 1, None),
    ("new", 0, 0, 3, None),
    ("high_pri_borrowing", 1, 1, 3, None),
    ("new_high_pri", 0, 1, 4, None),
    ("new_borrowing", 1, 0, 5, None),
    ("evicted_borrowing", 1, 0, 1, 2),
    ("recently_evicted", 0, 0, 0, 2),
    ("high_pri_borrowing_more", 2, 1, 3, None),
]
BORROWERS = ["old_borrowing", "evicted_borrowing", "high_pri_borrowing", "new_borrowing", "high_pri_borrowing_more"]
RANKED = ["high_pri_borrowing", "old_borrowing", "evicted_borrowing", "new_borrowing", "high_pri_borrowing_more"]
ORDERS = {
    "SCH-66 Priority sorting is enabled (default) using pods-ready Eviction timestamp (default)": (
        True,
        True,
        ["new_high_pri", "old", "recently_evicted", "new", *RANKED],
    ),
    "SCH-67 Priority sorting is enabled (default) using pods-ready Creation timestamp": (
        True,
        False,
        ["new_high_pri", "recently_evicted", "old", "new", *RANKED],
    ),
    "SCH-68 Priority sorting is disabled using pods-ready Eviction timestamp": (
        False,
        True,
        ["old", "recently_evicted", "new", "new_high_pri", *BORROWERS],
    ),
    "SCH-69 Priority sorting is disabled using pods-ready Creation timestamp": (
        False,
        False,
        ["recently_evicted", "old", "new", "new_high_pri", *BORROWERS],
    ),
}


@pytest.mark.parametrize("name", ORDERS, ids=list(ORDERS))
def test_order_of_entries(name: str) -> None:
    by_priority, by_eviction, expected = ORDERS[name]
    lines = ["cohort far: default cpu=9", "cohort near in far: default cpu=9"]
    for queue, distance, *_ in NINE:
        flavor = {0: "default cpu=9", 1: "default cpu=0", 2: "default cpu=0"}[distance]
        lines.append(f"queue {queue} in {'far' if distance == 2 else 'near'}: {flavor}")
    features = Features(priority_sorting_within_cohort=by_priority)
    settings = QueueingSettings(eviction_timestamp=by_eviction, features=features)
    scenario = Scenario("\n".join(lines) + "\n->", settings)
    for queue, _, priority, created, when in NINE:
        workload = make_workload(queue, f"lq-{queue}", requests={"cpu": 1}, created=created, priority=priority)
        if when is not None:
            out = {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout", "lastTransitionTime": at(when)}
            workload["status"] = {"conditions": [out]}
        scenario.state.upsert_workload(workload)
    scenario.state.settle()
    cycle = scenario.state._cycle
    entries = cycle._heads()
    for entry in entries:
        cycle._nominate(entry)
        assert entry.assignment is not None
        (distance,) = [far for queue, far, *_ in NINE if queue == entry.queue.name]
        entry.assignment.borrows = distance
    assert [entry.info.key.name for entry in cycle._order.ordered(entries)] == expected


ON_DEMAND, SPOT = FlavorResource("on-demand", "cpu"), FlavorResource("spot", "cpu")


def test_borrowing_on_a_requested_flavor_counts() -> None:
    assert DominantShare(1.0, 1.0, "cpu", [ON_DEMAND]).borrows_on({ON_DEMAND: 1})


def test_borrowing_on_an_unrequested_flavor_does_not_count() -> None:
    assert not DominantShare(1.0, 1.0, "cpu", [SPOT]).borrows_on({ON_DEMAND: 1})


def test_borrowing_on_both_flavors_counts_when_one_is_requested() -> None:
    assert DominantShare(1.0, 1.0, "cpu", [SPOT, ON_DEMAND]).borrows_on({ON_DEMAND: 1})


def test_no_borrowing_never_counts() -> None:
    assert not DominantShare(0.0, 1.0).borrows_on({ON_DEMAND: 1})
    assert not DominantShare(1.0, 1.0, "cpu", [SPOT]).borrows_on({})


RESERVING = {
    "what is due within nominal is kept, less than asked for": ("cpu=10", "cpu=6", "cpu=8", 4),
    "all of it is kept when it fits nominal": ("cpu=10", "cpu=2", "cpu=8", 8),
    "nothing is kept by a queue above nominal": ("cpu=10", "cpu=12", "cpu=8", 0),
}


@pytest.mark.parametrize("name", RESERVING, ids=list(RESERVING))
def test_a_preemptor_without_candidates_reserves(name: str) -> None:
    nominal, used, wanted, expected = RESERVING[name]
    scenario = Scenario(
        f"""
        queue lender in co: default {nominal}
        queue other in co: default cpu=10
        run mine @lender: default {used}
        wait big @lender: {wanted}
        ->
        """
    )
    scenario.state.settle()
    cycle = scenario.state._cycle
    (entry,) = cycle._heads()
    cycle._nominate(entry)
    assert entry.assignment is not None
    entry.assignment.borrows = 0
    entry.usage = {FlavorResource("default", "cpu"): int(wanted[4:]) * 1000}
    assert quota_due(entry) == {FlavorResource("default", "cpu"): expected * 1000}


def test_a_borrowing_preemptor_reserves_up_to_its_borrowing_limit() -> None:
    for limit, expected in (("2", 6000), ("", 8000)):
        scenario = Scenario(
            f"""
            queue lender in co: default cpu=10/{limit}
            queue other in co: default cpu=10
            run mine @lender: default cpu=6
            wait big @lender: cpu=8
            ->
            """
        )
        scenario.state.settle()
        (entry,) = scenario.state._cycle._heads()
        scenario.state._cycle._nominate(entry)
        assert entry.assignment is not None
        entry.assignment.borrows = 1
        entry.usage = {FlavorResource("default", "cpu"): 8000}
        assert quota_due(entry) == {FlavorResource("default", "cpu"): expected}
