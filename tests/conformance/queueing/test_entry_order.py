"""In which order the entries of a cycle are processed, and how much a waiting one keeps from the others."""

from __future__ import annotations

import pytest
from scenario import Scenario, at

from corral.core.meta import Obj
from corral.decide.queueing.cycle import _to_reserve
from corral.decide.queueing.fairness import Share
from corral.decide.queueing.model import FlavorResource
from corral.decide.queueing.settings import Features, QueueingSettings
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


ON_DEMAND, SPOT = FlavorResource("on-demand", "cpu"), FlavorResource("spot", "cpu")


def test_borrowing_on_a_requested_flavor_counts() -> None:
    assert Share(1.0, 1.0, "cpu", [ON_DEMAND]).borrows_on({ON_DEMAND: 1})


def test_borrowing_on_an_unrequested_flavor_does_not_count() -> None:
    assert not Share(1.0, 1.0, "cpu", [SPOT]).borrows_on({ON_DEMAND: 1})


def test_borrowing_on_both_flavors_counts_when_one_is_requested() -> None:
    assert Share(1.0, 1.0, "cpu", [SPOT, ON_DEMAND]).borrows_on({ON_DEMAND: 1})


def test_no_borrowing_never_counts() -> None:
    assert not Share(0.0, 1.0).borrows_on({ON_DEMAND: 1})
    assert not Share(1.0, 1.0, "cpu", [SPOT]).borrows_on({})


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
    scenario.state._settle()
    cycle = scenario.state._cycle
    (entry,) = cycle._heads()
    cycle._nominate(entry)
    assert entry.assignment is not None
    entry.assignment.borrows = 0
    entry.usage = {FlavorResource("default", "cpu"): int(wanted[4:]) * 1000}
    assert _to_reserve(entry) == {FlavorResource("default", "cpu"): expected * 1000}


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
        scenario.state._settle()
        (entry,) = scenario.state._cycle._heads()
        scenario.state._cycle._nominate(entry)
        assert entry.assignment is not None
        entry.assignment.borrows = 1
        entry.usage = {FlavorResource("default", "cpu"): 8000}
        assert _to_reserve(entry) == {FlavorResource("default", "cpu"): expected}
