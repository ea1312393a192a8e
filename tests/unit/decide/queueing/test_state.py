"""The façade: views, slices, waiting for pods, explanations."""

from __future__ import annotations

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key
from corral.decide.queueing.model.settings import QueueingSettings
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    make_workload,
    reserve,
)


def world(settings: QueueingSettings | None = None, quota: object = 4, **spec: object) -> QueueingWorld:
    built = QueueingWorld(settings)
    built.state.upsert_flavor(make_flavor("f"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": quota}}, **spec))  # type: ignore[arg-type, dict-item]
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return built


def key(name: str) -> Key:
    return Key("default", name)


def test_cluster_queue_view_tells_reserved_from_used() -> None:
    built = world(admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
    built.state.upsert_admission_check(
        {"metadata": {"name": "c"}, "status": {"conditions": [condition("Active", "True", "", "")]}}
    )
    built.put(make_workload("w", requests={"cpu": 3}), make_workload("x", requests={"cpu": 3}, created=1))
    built.cycle()
    view = built.state.questions.cluster_queue("cq")
    assert view is not None
    assert (view.pending, view.reserving, view.admitted) == (1, 1, 0)
    assert view.flavors_reservation == [{"name": "f", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}]
    assert view.flavors_usage == [{"name": "f", "resources": [{"name": "cpu", "total": "0", "borrowed": "0"}]}]


def test_local_queue_view_has_no_borrowed() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": "500m"}))
    built.cycle()
    view = built.state.questions.local_queue(key("lq"))
    assert view is not None
    assert (view.pending, view.reserving, view.admitted) == (0, 1, 1)
    assert view.flavors_usage == [{"name": "f", "resources": [{"name": "cpu", "total": "500m"}]}]


def test_borrowed_is_what_exceeds_nominal() -> None:
    built = world(cohort="co")
    built.state.upsert_cluster_queue(make_cluster_queue("lender", {"f": {"cpu": 4}}, cohort="co"))
    built.put(make_workload("w", requests={"cpu": 6}))
    built.cycle()
    view = built.state.questions.cluster_queue("cq")
    assert view is not None
    assert view.flavors_usage[0]["resources"] == [{"name": "cpu", "total": "6", "borrowed": "2"}]


def test_weighted_shares_are_shown_under_fair_sharing() -> None:
    built = world(QueueingSettings(fair_sharing=True), cohort="co")
    built.state.upsert_cohort(make_cohort("co", "", {"f": {"cpu": 4}}))
    built.put(make_workload("w", requests={"cpu": 6}))
    built.cycle()
    assert built.state.questions.cluster_queue("cq").weighted_share == 250  # type: ignore[union-attr]
    cohort = built.state.questions.cohort("co")
    assert cohort is not None
    assert (cohort.weighted_share, cohort.subtree_usage) == (
        0,
        [{"name": "f", "resources": [{"name": "cpu", "total": "6"}]}],
    )


# -- slices -----------------------------------------------------------------------------------------------------------

REPLACES = {"kueue.x-k8s.io/workload-slice-replacement-for": "default/old"}


def test_a_slice_takes_over_and_only_needs_the_difference() -> None:
    built = world()
    built.put(make_workload("old", requests={"cpu": 1}, count=3))
    built.cycle()
    built.put(make_workload("new", requests={"cpu": 1}, count=4, annotations=REPLACES, created=1))
    (admission,) = built.cycle().admissions
    assert admission.replaces == key("old")
    node = built.state.world.queues["cq"].node
    assert sum(node.usage.values()) == 4000
    built.finish("old")
    assert sum(node.usage.values()) == 4000
    built.finish("new")
    assert sum(node.usage.values()) == 0


def test_a_slice_that_does_not_fit_waits_and_the_old_one_keeps_running() -> None:
    built = world()
    built.put(make_workload("old", requests={"cpu": 1}, count=3))
    built.cycle()
    built.put(make_workload("new", requests={"cpu": 1}, count=9, annotations=REPLACES, created=1))
    (wait,) = built.cycle().waiting
    assert "current podset request (6) > maximum capacity (4)" in wait.message
    assert built.admitted() == {"cq": ["old"]}


# -- waiting for pods -------------------------------------------------------------------------------------------------


def test_admission_waits_for_pods_when_asked_to() -> None:
    built = world(QueueingSettings(block_on_pods_ready=True))
    built.put(make_workload("a", requests={"cpu": 1}), make_workload("b", requests={"cpu": 1}, created=1))
    plan = built.cycle()
    assert [admission.key.name for admission in plan.admissions] == ["a"]
    (wait,) = plan.waiting
    assert (wait.reason, wait.message) == ("Waiting", "waiting for all admitted workloads to be in PodsReady condition")
    assert not list(built.cycle().admissions)
    ready = built.get("a")
    conditions = [*ready["status"]["conditions"], condition("PodsReady", "True", "Started", "")]
    built.put({**ready, "status": {**ready["status"], "conditions": conditions}})
    assert [admission.key.name for admission in built.cycle().admissions] == ["b"]


# -- preemption bookkeeping -------------------------------------------------------------------------------------------


def test_victims_are_evicted_once_however_many_cycles_run() -> None:
    built = world(within="LowerPriority")
    built.put(make_workload("low", requests={"cpu": 4}))
    built.cycle()
    built.put(make_workload("high", requests={"cpu": 4}, priority=9, created=1))
    (first,) = built.state.plan_cycle(EPOCH).preemptions
    assert [victim.ongoing for victim in first.victims] == [False]
    built.state.flush_cluster_queue("cq")
    assert not list(built.state.plan_cycle(EPOCH).preemptions)
    built.state.eviction_failed(key("low"))
    (again,) = built.state.plan_cycle(EPOCH).preemptions
    assert [victim.ongoing for victim in again.victims] == [False]


@pytest.mark.parametrize("waits", [True, False])
def test_room_that_victims_leave_is_given_away_when_they_have_left_or_before(*, waits: bool) -> None:
    built = QueueingWorld(QueueingSettings(waits_for_victims=waits))
    built.state.upsert_flavor(make_flavor("f"))
    for queue, quota in (("a", 4), ("b", 0), ("c", 0)):
        built.state.upsert_cluster_queue(
            make_cluster_queue(queue, {"f": {"cpu": quota}}, cohort="team", within="LowerPriority")
        )
        built.state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))
    built.put(make_workload("victim", "lq-a", requests={"cpu": 3}))
    built.settle()
    built.put(
        make_workload("preemptor", "lq-a", requests={"cpu": 2}, priority=9, created=1),
        make_workload("first", "lq-b", requests={"cpu": 1}, created=2),
        make_workload("second", "lq-c", requests={"cpu": 1}, created=3),
    )
    before = [admission.key.name for admission in built.cycle().admissions]
    assert before == (["first"] if waits else ["first", "second"])
    built.vacate()
    built.settle()
    assert built.admitted() == {"a": ["preemptor"], "b": ["first"], "c": ["second"]}


@pytest.mark.parametrize("fair", [False, True], ids=["classical", "fair"])
def test_nobody_else_has_to_leave_while_the_eviction_of_a_victim_is_being_written(*, fair: bool) -> None:
    built = QueueingWorld(QueueingSettings(fair_sharing=fair))
    built.state.upsert_flavor(make_flavor("f"))
    for queue, quota in (("lending", 6), ("borrowing", 0)):
        built.state.upsert_cluster_queue(
            make_cluster_queue(queue, {"f": {"cpu": quota}}, cohort="team", reclaim="LowerPriority")
        )
        built.state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))

    def running(name: str, cpu: int, priority: int) -> None:
        workload = make_workload(name, "lq-borrowing", requests={"cpu": cpu}, priority=priority)
        built.put(reserve(workload, "borrowing", make_assignment("main", {"cpu": "f"}, {"cpu": cpu})))

    running("important", 4, 9)
    running("victim", 2, 1)
    built.put(make_workload("preemptor", "lq-lending", requests={"cpu": 2}, priority=3, created=1))
    (planned,) = built.state.plan_cycle(EPOCH).preemptions
    assert [victim.key.name for victim in planned.victims] == ["victim"]
    built.finish("important")
    running("cheaper", 4, 0)
    assert not list(built.state.plan_cycle(EPOCH).preemptions)
    assert set(built.state.world.expected_evictions) == {key("victim")}
    built.state.eviction_failed(key("victim"))
    (planned,) = built.state.plan_cycle(EPOCH).preemptions
    assert [victim.key.name for victim in planned.victims] == ["cheaper"]


@pytest.mark.parametrize("waits", [True, False])
def test_the_quota_of_who_is_deactivated_is_free_when_it_has_stopped_or_before(*, waits: bool) -> None:
    built = QueueingWorld(QueueingSettings(waits_for_victims=waits))
    built.state.upsert_flavor(make_flavor("f"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 2}}))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    built.put(make_workload("running", requests={"cpu": 2}))
    built.settle()
    built.put(make_workload("next", requests={"cpu": 2}, created=1))
    assert not list(built.cycle().admissions)
    switched_off = built.get("running")
    built.put({**switched_off, "spec": {**switched_off["spec"], "active": False}})
    before = [admission.key.name for admission in built.cycle().admissions]
    assert before == ([] if waits else ["next"])
    built.evict(key("running"), "Deactivated")
    built.vacate()
    built.settle()
    assert built.admitted() == {"cq": ["next"]}


INACTIVE: dict[str, dict[str, object]] = {
    "it is on hold": {"stopPolicy": "Hold"},
    "a check is missing": {"admissionChecksStrategy": {"admissionChecks": [{"name": "nowhere"}]}},
}


@pytest.mark.parametrize("fair", [False, True], ids=["classical", "fair"])
@pytest.mark.parametrize("inactive", INACTIVE.values(), ids=INACTIVE)
def test_a_queue_loses_nobody_to_preemption_while(inactive: dict[str, object], *, fair: bool) -> None:
    built = QueueingWorld(QueueingSettings(fair_sharing=fair))
    lending, borrowing = {"f": {"cpu": 4}}, {"f": {"cpu": 0}}
    built.state.upsert_flavor(make_flavor("f"))
    built.state.upsert_cluster_queue(make_cluster_queue("lending", lending, cohort="team", reclaim="Any"))
    built.state.upsert_cluster_queue(make_cluster_queue("borrowing", borrowing, cohort="team"))
    for queue in ("lending", "borrowing"):
        built.state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))
    built.put(make_workload("borrower", "lq-borrowing", requests={"cpu": 3}))
    built.settle()
    built.state.upsert_cluster_queue(make_cluster_queue("borrowing", borrowing, cohort="team", **inactive))
    built.put(make_workload("owner", "lq-lending", requests={"cpu": 4}, created=1))
    built.settle()
    assert built.admitted() == {"borrowing": ["borrower"]}
    built.state.upsert_cluster_queue(make_cluster_queue("borrowing", borrowing, cohort="team"))
    built.settle()
    assert built.admitted() == {"lending": ["owner"]}


def test_preemption_messages_name_both_sides() -> None:
    built = world(within="LowerPriority", cohort="co")
    built.put(make_workload("low", requests={"cpu": 4}))
    built.cycle()
    labels = {"kueue.x-k8s.io/job-uid": "job"}
    built.put(make_workload("high", requests={"cpu": 4}, priority=9, created=1, labels=labels))
    (preemption,) = built.state.plan_cycle(EPOCH).preemptions
    (victim,) = preemption.victims
    assert victim.message == (
        "Preempted to accommodate a workload (UID: uid-default-high, JobUID: job) due to prioritization in the "
        "ClusterQueue; preemptor path: /co/cq; preemptee path: /co/cq"
    )
    assert victim.event.endswith(
        "; preemptor effective priority: 9 (base: 9, boost: 0); preemptee effective priority: 0 (base: 0, boost: 0)"
    )
    assert preemption.message.endswith(". Pending the preemption of 1 workload(s)")
    assert preemption.outcome(0, 1).endswith(". Preempting 1 workload(s) failed, will retry.")


def test_flavors_passed_over_are_told_with_the_admission() -> None:
    built = QueueingWorld()
    for name in ("a", "b"):
        built.state.upsert_flavor(make_flavor(name))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"a": {"cpu": 1}, "b": {"cpu": 5}}))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    built.put(make_workload("w", requests={"cpu": 3}))
    (admission,) = built.cycle().admissions
    assert admission.considered == (
        "Flavors considered: main: a(NoFit;insufficient quota for cpu in flavor a, previously considered podsets requests "
        "(0) + current podset request (3) > maximum capacity (1))"
    )


# -- explanations -----------------------------------------------------------------------------------------------------


def test_explanations_follow_a_workload_through_its_life() -> None:
    built = world(strict=True)
    built.put(make_workload("first", requests={"cpu": 9}), make_workload("second", requests={"cpu": 1}, created=1))
    assert built.state.questions.explain(key("first")).message == "The workload has not been considered yet"  # type: ignore[union-attr]
    built.cycle()
    head, behind = built.state.questions.explain(key("first")), built.state.questions.explain(key("second"))
    assert head is not None
    assert behind is not None
    assert (head.state, head.position) == ("pending", 0)
    assert [(gap.requested, gap.available, gap.maximum) for gap in head.shortages] == [("9", "4", "4")]
    assert behind.blocked_by == (key("first"),)
    built.delete("first")
    built.cycle()
    assert built.state.questions.explain(key("second")).state == "admitted"  # type: ignore[union-attr]
    built.finish("second")
    assert built.state.questions.explain(key("second")).state == "finished"  # type: ignore[union-attr]
    assert built.state.questions.explain(key("nobody")) is None


def test_an_unknown_queue_is_an_explanation_too() -> None:
    built = world()
    built.put(make_workload("lost", "nowhere", requests={"cpu": 1}))
    explanation = built.state.questions.explain(key("lost"))
    assert explanation is not None
    assert (explanation.state, explanation.message) == ("inadmissible", "LocalQueue nowhere doesn't exist")


def test_one_plan_admits_as_many_as_fit_in_queue_order() -> None:
    built = world(quota=100)
    built.put(*(make_workload(f"w{n:02}", requests={"cpu": 1}, created=n) for n in range(60)))
    plan = built.cycle()
    assert [admission.key.name for admission in plan.admissions] == [f"w{n:02}" for n in range(60)]
    assert not plan.more


def test_a_plan_stops_at_its_bound_and_says_so() -> None:
    built = world(QueueingSettings(max_rounds=3), quota=100)
    built.put(*(make_workload(f"w{n}", requests={"cpu": 1}, created=n) for n in range(5)))
    plan = built.cycle()
    assert (len(list(plan.admissions)), plan.more) == (3, True)
    assert len(list(built.cycle().admissions)) == 2


def test_a_plan_stops_when_it_holds_enough_decisions() -> None:
    built = world(QueueingSettings(max_decisions=4), quota=100)
    built.put(*(make_workload(f"w{n}", requests={"cpu": 1}, created=n) for n in range(6)))
    plan = built.cycle()
    assert (len(list(plan.admissions)), plan.more) == (4, True)
    assert len(list(built.cycle().admissions)) == 2


def test_quota_of_a_deleted_queue_comes_back_with_it() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 3}))
    built.cycle()
    built.state.delete_cluster_queue("cq")
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 4}}))
    assert built.state.questions.cluster_queue("cq").reserving == 1  # type: ignore[union-attr]
    built.put(make_workload("x", requests={"cpu": 2}, created=1))
    assert not list(built.cycle().admissions)


def test_an_error_in_a_round_loses_nobody() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 1}))
    nominator = built.state._cycle._nominator
    original = nominator.assign

    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    nominator.assign = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        built.state.plan_cycle(EPOCH)
    nominator.assign = original  # type: ignore[method-assign]
    built.state.flush_cluster_queue("cq")
    assert [admission.key.name for admission in built.cycle().admissions] == ["w"]
