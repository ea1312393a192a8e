"""Who waits where: heaps, parking, back-off, flushes, positions."""

from __future__ import annotations

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key, Obj
from corral.core.timestamps import format_time
from corral.decide.queueing.cycle.assignment import Cursor
from corral.decide.queueing.model.settings import AdmissionFairSharing, Features, QueueingSettings
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.decide.queueing.queue.pending import PendingQueue, WaitVerdict
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


def refusal(world: QueueingWorld, name: str) -> tuple[str, str]:
    found = world.state.questions.explain(key(name))
    assert found is not None
    assert found.state == "inadmissible"
    return found.reason, found.message


DECODER = WorkloadDecoder(QueueingSettings())
NO_FIT = WaitVerdict("NoFit", "Pending", "no fit")


def info(name: str, cpu: int = 1, priority: int = 0, created: float = 0.0, queue: str = "lq"):  # type: ignore[no-untyped-def]
    return DECODER.decode(make_workload(name, queue, requests={"cpu": cpu}, priority=priority, created=created))


def drain(queue: PendingQueue) -> list[str]:
    names = []
    while (item := queue.pop()) is not None:
        names.append(item.info.key.name)
    return names


def key(name: str) -> Key:
    return Key("default", name)


# -- order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
def test_higher_priority_comes_first(strict: bool) -> None:
    queue = PendingQueue(strict=strict)
    queue.add(info("low", priority=1, created=1))
    queue.add(info("high", priority=9, created=2))
    assert drain(queue) == ["high", "low"]


@pytest.mark.parametrize("strict", [True, False])
def test_older_comes_first_among_equals(strict: bool) -> None:
    queue = PendingQueue(strict=strict)
    queue.add(info("new", cpu=2, created=2))
    queue.add(info("old", cpu=1, created=1))
    assert drain(queue) == ["old", "new"]


def test_order_is_deterministic_over_heap_and_parked() -> None:
    queue = PendingQueue()
    for name, cpu, created in (("c", 3, 3), ("a", 1, 1), ("b", 2, 2)):
        queue.add(info(name, cpu, created=created))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "NoFit", NO_FIT)
    assert [entry.info.key.name for entry in queue.ordered()] == ["a", "b", "c"]


# -- requeueing -------------------------------------------------------------------------------------------------------

IMMEDIATELY = {
    "FailedAfterNomination": (True, True),
    "PendingPreemption": (True, True),
    "PendingMigration": (True, True),
    "PreemptionFailed": (True, True),
    "NamespaceMismatch": (False, False),
    "Generic": (False, True),
    "NoFit": (False, True),
    "PreemptionNoCandidates": (False, True),
    "PreemptionGated": (False, True),
}


@pytest.mark.parametrize("cause", IMMEDIATELY)
@pytest.mark.parametrize("strict", [False, True])
def test_requeue(cause: str, strict: bool) -> None:
    queue = PendingQueue(strict=strict)
    queue.add(info("w"))
    item = queue.pop()
    assert item is not None
    expected = IMMEDIATELY[cause][strict]
    assert queue.requeue(item, cause, NO_FIT) is expected
    assert queue.is_parked(key("w")) is not expected
    assert (queue.pop() is not None) is expected


def test_a_workload_with_untried_flavors_goes_back_at_once() -> None:
    queue = PendingQueue()
    queue.add(info("w"))
    item = queue.pop()
    assert item is not None
    item.cursor = Cursor(0, 0, None)
    item.cursor.tried = [{"cpu": 0}]
    assert queue.requeue(item, "NoFit", NO_FIT)


def test_requeueing_twice_keeps_one() -> None:
    queue = PendingQueue()
    queue.add(info("w"))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "Generic", NO_FIT)
    assert len(queue) == 1
    queue.add(info("w"))
    assert len(queue) == 1


def test_a_preemptor_stays_at_the_head() -> None:
    queue = PendingQueue()
    queue.add(info("preemptor", cpu=5, created=5))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "PendingPreemption", NO_FIT)
    queue.add(info("older", created=1))
    assert drain(queue) == ["preemptor", "older"]


def test_a_preemptor_in_a_strict_queue_keeps_to_the_order() -> None:
    queue = PendingQueue(strict=True)
    queue.add(info("preemptor", cpu=5, created=5))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "PendingPreemption", NO_FIT)
    queue.add(info("older", created=1))
    assert drain(queue) == ["older", "preemptor"]


# -- equivalence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "remembered"),
    [
        pytest.param("NoFit", True, id="nofit triggers hash"),
        pytest.param("PreemptionNoCandidates", True, id="preempt no candidates triggers hash"),
        pytest.param("NamespaceMismatch", False, id="namespace mismatch does not trigger hash"),
        pytest.param("PreemptionGated", False, id="preemption gated does not trigger hash"),
        pytest.param("Generic", False, id="generic does not trigger hash"),
    ],
)
def test_a_verdict_is_remembered_for_equal_workloads(cause: str, remembered: bool) -> None:
    queue = PendingQueue()
    queue.add(info("first", created=1))
    queue.add(info("twin", created=2))
    queue.add(info("other", cpu=2, created=3))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, cause, WaitVerdict(cause, "Pending", "why"))
    queue.add(info("late twin", created=4))
    assert drain(queue) == (["other"] if remembered else ["twin", "other", "late twin"])
    if remembered:
        verdict = queue.verdict_of(key("late twin"))
        assert verdict is not None
        assert verdict.message == "why"


def test_a_flush_forgets_verdicts() -> None:
    queue = PendingQueue()
    queue.add(info("first", created=1))
    queue.add(info("twin", created=2))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "NoFit", NO_FIT)
    assert drain(queue) == []
    assert queue.flush()
    assert drain(queue) == ["first", "twin"]


def test_equal_shapes_differ_by_requests_counts_and_priority_not_by_name() -> None:
    base = info("a")
    assert base.shape == info("b", created=9).shape
    assert base.shape != info("a", cpu=2).shape
    assert base.shape != info("a", priority=1).shape
    two = DECODER.decode(make_workload("a", requests={"cpu": 1}, count=2))
    assert base.shape != two.shape


def test_without_hashing_every_workload_is_tried() -> None:
    queue = PendingQueue(hashing=False)
    queue.add(info("first", created=1))
    queue.add(info("twin", created=2))
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "NoFit", NO_FIT)
    assert drain(queue) == ["twin"]


# -- through the state ------------------------------------------------------------------------------------------------


def small_world(settings: QueueingSettings | None = None, **spec: object) -> QueueingWorld:
    world = QueueingWorld(settings)
    world.state.upsert_flavor(make_flavor("f"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 2}}, **spec))  # type: ignore[arg-type]
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return world


def with_conditions(workload: Obj, *conditions: Obj, **status: object) -> Obj:
    return {**workload, "status": {**status, "conditions": list(conditions)}}


def requeued(status: str) -> Obj:
    return condition("Requeued", status, "PodsReadyTimeout", "")


def requeue_at(seconds: float) -> Obj:
    return {"count": 1, "requeueAt": format_time(EPOCH + seconds)}


def test_a_workload_under_back_off_waits_for_its_time() -> None:
    world = small_world()
    world.put(with_conditions(make_workload("w", requests={"cpu": 1}), requeueState=requeue_at(60)))
    plan = world.state.plan_cycle(EPOCH)
    assert not plan.decisions
    assert plan.next_at == EPOCH + 60
    assert world.state.questions.needs_cycle(EPOCH + 60)
    assert [admission.key.name for admission in world.state.plan_cycle(EPOCH + 60).admissions] == ["w"]


def test_a_workload_with_requeued_false_waits_for_true_even_after_its_time() -> None:
    world = small_world()
    workload = make_workload("w", requests={"cpu": 1})
    world.put(with_conditions(workload, requeued("False"), requeueState=requeue_at(60)))
    assert not world.state.plan_cycle(EPOCH + 120).decisions
    world.put(with_conditions(workload, requeued("True"), requeueState=requeue_at(60)))
    assert list(world.state.plan_cycle(EPOCH + 120).admissions)


def test_a_flush_does_not_wake_workloads_under_back_off() -> None:
    world = small_world()
    world.put(with_conditions(make_workload("w", requests={"cpu": 1}), requeued("False")))
    world.state.flush_cluster_queue("cq")
    assert not world.state.plan_cycle(EPOCH).decisions


def test_a_changed_spec_brings_a_parked_workload_back() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 5}))
    world.cycle()
    world.put(make_workload("w", requests={"cpu": 1}))
    assert list(world.cycle().admissions)


def test_reclaimable_pods_bring_a_parked_workload_back() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 1}, count=3))
    world.cycle()
    world.put(
        {**world.get("w"), "status": {**world.get("w")["status"], "reclaimablePods": [{"name": "main", "count": 1}]}}
    )
    assert list(world.cycle().admissions)


def test_an_unchanged_update_keeps_a_workload_parked() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 5}))
    world.cycle()
    world.put(world.get("w"))
    assert not world.state.questions.needs_cycle(EPOCH)


@pytest.mark.parametrize("event", ["finish", "delete", "evict"])
def test_quota_that_comes_free_wakes_parked_workloads_of_the_whole_tree(event: str) -> None:
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f"))
    for name in ("a", "b"):
        world.state.upsert_cluster_queue(make_cluster_queue(name, {"f": {"cpu": 1}}, cohort="co"))
        world.state.upsert_local_queue(make_local_queue(f"l{name}", name))
    world.put(
        make_workload("old", "la", requests={"cpu": 2}), make_workload("new", "lb", requests={"cpu": 2}, created=1)
    )
    world.settle()
    assert world.admitted() == {"a": ["old"]}
    if event == "finish":
        world.finish("old")
    elif event == "delete":
        world.delete("old")
    else:
        world.evict(key("old"), "Deactivated")
        world.put({**world.get("old"), "spec": {**world.get("old")["spec"], "active": False}})
        world.vacate()
    world.settle()
    assert world.admitted() == {"b": ["new"]}


def test_other_trees_are_left_alone() -> None:
    world = small_world()
    world.state.upsert_cluster_queue(make_cluster_queue("far", {"f": {"cpu": 2}}))
    world.state.upsert_local_queue(make_local_queue("lfar", "far"))
    world.put(make_workload("stuck", "lfar", requests={"cpu": 9}), make_workload("old", requests={"cpu": 1}))
    world.settle()
    world.finish("old")
    world.state.plan_cycle(EPOCH)
    assert world.state.world.pending["far"].is_parked(key("stuck"))


@pytest.mark.parametrize("change", ["quota", "cohort", "flavor", "check", "namespace"])
def test_changes_that_could_help_wake_parked_workloads(change: str) -> None:
    world = QueueingWorld()
    state = world.state
    state.upsert_namespace({"metadata": {"name": "default", "labels": {"team": "x"}}})
    if change != "flavor":
        state.upsert_flavor(make_flavor("f"))
    spec: dict[str, object] = {}
    if change == "check":
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "check"}]}
    if change == "namespace":
        spec["namespaceSelector"] = {"matchLabels": {"team": "y"}}
    small = 0 if change in ("quota", "cohort") else 1
    state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": small}}, cohort="co", **spec))  # type: ignore[arg-type]
    state.upsert_local_queue(make_local_queue("lq", "cq"))
    world.put(make_workload("w", requests={"cpu": 1}))
    world.settle()
    assert not world.admitted()
    if change == "quota":
        state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 1}}, cohort="co"))
    elif change == "cohort":
        state.upsert_cohort(make_cohort("co", "", {"f": {"cpu": 1}}))
    elif change == "flavor":
        state.upsert_flavor(make_flavor("f"))
    elif change == "check":
        state.upsert_admission_check(
            {
                "metadata": {"name": "check"},
                "spec": {"controllerName": "x"},
                "status": {"conditions": [condition("Active", "True", "", "")]},
            }
        )
    else:
        state.upsert_namespace({"metadata": {"name": "default", "labels": {"team": "y"}}})
    world.settle()
    assert world.admitted() == {"cq": ["w"]}


def test_a_cohort_cycle_stops_only_its_own_queues() -> None:
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f"))
    for name, cohort in (("stuck", "a"), ("fine", "c")):
        world.state.upsert_cluster_queue(make_cluster_queue(name, {"f": {"cpu": 1}}, cohort=cohort))
        world.state.upsert_local_queue(make_local_queue(f"l{name}", name))
    world.state.upsert_cohort(make_cohort("a", "b"))
    world.state.upsert_cohort(make_cohort("b", "a"))
    world.put(make_workload("x", "lstuck", requests={"cpu": 1}), make_workload("y", "lfine", requests={"cpu": 1}))
    world.settle()
    assert world.admitted() == {"fine": ["y"]}
    world.state.upsert_cohort(make_cohort("b"))
    world.settle()
    assert world.admitted() == {"fine": ["y"], "stuck": ["x"]}


@pytest.mark.parametrize("target", ["another local queue", "another cluster queue", "nowhere"])
def test_a_workload_moves_with_its_queue_name(target: str) -> None:
    world = small_world()
    world.state.upsert_cluster_queue(make_cluster_queue("cq2", {"f": {"cpu": 2}}))
    world.state.upsert_local_queue(make_local_queue("same", "cq"))
    world.state.upsert_local_queue(make_local_queue("other", "cq2"))
    world.put(make_workload("w", "lq", requests={"cpu": 1}))
    name, home = {"another local queue": ("same", "cq"), "another cluster queue": ("other", "cq2")}.get(
        target, ("x", "")
    )
    world.put(make_workload("w", name, requests={"cpu": 1}))
    assert [view.key.name for view in world.state.questions.pending("cq")] == (["w"] if home == "cq" else [])
    assert [view.key.name for view in world.state.questions.pending("cq2")] == (["w"] if home == "cq2" else [])
    if not home:
        assert refusal(world, "w") == ("Inadmissible", "LocalQueue x doesn't exist")


def test_workloads_wait_for_queues_that_come_later() -> None:
    world = QueueingWorld()
    world.put(make_workload("w", requests={"cpu": 1}))
    assert not world.state.plan_cycle(EPOCH).decisions
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    assert refusal(world, "w") == ("Inadmissible", "ClusterQueue cq doesn't exist")
    world.state.upsert_flavor(make_flavor("f"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 2}}))
    assert list(world.cycle().admissions)


@pytest.mark.parametrize("blocked", ["finished", "deactivated", "reserved", "gated"])
def test_who_does_not_enter_a_queue(blocked: str) -> None:
    world = small_world()
    workload = make_workload("w", requests={"cpu": 1})
    if blocked == "finished":
        workload = with_conditions(workload, condition("Finished", "True", "Succeeded", ""))
    elif blocked == "deactivated":
        workload["spec"]["active"] = False
    elif blocked == "gated":
        workload["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    else:
        workload = reserve(workload, "cq", make_assignment("main", {"cpu": "f"}, {"cpu": 1}))
    world.put(workload)
    assert not world.state.questions.pending("cq")


def test_an_inactive_cluster_queue_gives_no_head_but_keeps_its_workloads() -> None:
    world = small_world(stopPolicy="Hold")
    world.put(make_workload("w", requests={"cpu": 1}))
    assert not world.state.plan_cycle(EPOCH).decisions
    assert [view.key.name for view in world.state.questions.pending("cq")] == ["w"]
    assert refusal(world, "w") == ("Inadmissible", "ClusterQueue cq is inactive")


def test_a_stopped_local_queue_takes_its_workloads_out() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 1}))
    world.state.upsert_local_queue(make_local_queue("lq", "cq", stopPolicy="Hold"))
    assert not world.state.questions.pending("cq")
    assert refusal(world, "w") == ("Inadmissible", "LocalQueue lq is inactive")
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    assert list(world.cycle().admissions)


def test_positions_count_per_cluster_queue_and_per_local_queue() -> None:
    world = small_world()
    world.state.upsert_local_queue(make_local_queue("l2", "cq"))
    for index, queue in enumerate(("lq", "l2", "lq", "l2")):
        world.put(make_workload(f"w{index}", queue, requests={"cpu": 5 + index}, created=index))
    views = world.state.questions.pending("cq")
    assert [(view.key.name, view.position_in_cluster_queue, view.position_in_local_queue) for view in views] == [
        ("w0", 0, 0),
        ("w1", 1, 0),
        ("w2", 2, 1),
        ("w3", 3, 1),
    ]
    assert world.state.questions.pending("no such queue") == []


def test_an_older_version_of_a_workload_is_ignored() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 1}))
    before = world.get("w")
    world.cycle()
    world.state.upsert_workload(before)
    assert key("w") in world.state.world.reservations


def test_a_pending_update_does_not_undo_an_admission_that_is_being_written() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 1}))
    world.state.plan_cycle(EPOCH)
    world.put({**world.get("w"), "status": {"requeueState": None}})
    assert world.state.questions.cluster_queue("cq").reserving == 1  # type: ignore[union-attr]
    assert not world.state.plan_cycle(EPOCH).decisions


# -- admission fair sharing -------------------------------------------------------------------------------------------

SHARING = QueueingSettings(
    admission_fair_sharing=AdmissionFairSharing(half_life_s=300, resource_weights={"memory": 0.0})
)
SCOPE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def shared_world(usage: dict[str, str], settings: QueueingSettings = SHARING, **spec: object) -> QueueingWorld:
    world = small_world(settings, **{**SCOPE, **spec})
    for name, consumed in usage.items():
        queue = make_local_queue(name, "cq")
        history = {"consumedResources": {"cpu": consumed}, "lastUpdate": format_time(EPOCH)}
        queue["status"] = {"fairSharing": {"admissionFairSharingStatus": history}}
        world.state.upsert_local_queue(queue)
    return world


def test_workloads_are_ordered_by_local_queue_usage_instead_of_priorities() -> None:
    world = shared_world({"busy": "9", "calm": "1"})
    world.put(
        make_workload("b", "busy", requests={"cpu": 2}, priority=9),
        make_workload("c", "calm", requests={"cpu": 2}, created=5),
    )
    assert [view.key.name for view in world.state.questions.pending("cq")] == ["c", "b"]
    assert [admission.key.name for admission in world.cycle().admissions] == ["c"]


def test_workloads_with_the_same_usage_are_ordered_by_priority() -> None:
    world = shared_world({"one": "5", "two": "5"})
    world.put(
        make_workload("a", "one", requests={"cpu": 1}), make_workload("b", "two", requests={"cpu": 1}, priority=5)
    )
    assert [view.key.name for view in world.state.questions.pending("cq")] == ["b", "a"]


def test_local_queue_weights_divide_their_usage_and_zero_comes_last() -> None:
    world = shared_world({"heavy": "8", "light": "6", "none": "0"})
    for name, weight in (("heavy", "4"), ("none", "0")):
        queue = make_local_queue(name, "cq", fairSharing={"weight": weight})
        world.state.upsert_local_queue(queue)
    for name in ("heavy", "light", "none"):
        world.put(make_workload(name, name, requests={"cpu": 1}))
    assert [view.key.name for view in world.state.questions.pending("cq")] == ["heavy", "light", "none"]


@pytest.mark.parametrize("how", ["no mode on the queue", "no configuration"])
def test_without_admission_fair_sharing_priority_decides(how: str) -> None:
    spec = {"admissionScope": None} if how == "no mode on the queue" else {}
    settings = SHARING if how == "no mode on the queue" else QueueingSettings()
    world = shared_world({"busy": "9", "calm": "1"}, settings, **spec)
    world.put(
        make_workload("b", "busy", requests={"cpu": 1}, priority=9), make_workload("c", "calm", requests={"cpu": 1})
    )
    assert [view.key.name for view in world.state.questions.pending("cq")] == ["b", "c"]


def test_one_workload_from_each_local_queue_when_quota_is_limited() -> None:
    world = shared_world({"one": "0", "two": "0"})
    for index, name in enumerate(("one", "one", "two", "two")):
        world.put(make_workload(f"{name}-{index}", name, requests={"cpu": 1}, created=index))
    assert [admission.key.name for admission in world.cycle().admissions] == ["one-0", "two-2"]


def test_granular_reasons_on_request() -> None:
    world = small_world(QueueingSettings(features=Features(granular_reasons=True)))
    world.put(
        make_workload("big", requests={"cpu": 9}),
        make_workload("fits", requests={"cpu": 2}, created=1),
        make_workload("late", requests={"cpu": 1}, created=2),
    )
    reasons = {wait.key.name: wait.reason for wait in world.cycle().waiting}
    assert reasons == {"big": "ExceedsMaxQuota", "late": "WaitingForQuota"}
