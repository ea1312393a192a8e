"""What becomes of waiting workloads when they, their queues, or their equals change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_queue_manager import NO_FIT, drain, info, key, requeue_at, requeued, small_world, with_conditions

from corral.core.meta import Key, Obj
from corral.decide.queueing.cycle.assignment import Cursor
from corral.decide.queueing.cycle.plan import Admit
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.queue.pending import PendingQueue, WaitVerdict
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_pod_set,
    make_topology,
    make_workload,
    reserve,
)


def park(queue: PendingQueue, cause: str = "Generic", verdict: WaitVerdict | None = NO_FIT) -> str:
    """Try the head and put it aside; its name."""
    item = queue.pop()
    assert item is not None
    assert not queue.requeue(item, cause, verdict)
    return item.info.key.name


def queue_of(world: QueueingWorld) -> PendingQueue:
    return world.state.world.pending["cq"]


# -- one queue --------------------------------------------------------------------------------------------------------


def test_add_update_delete() -> None:
    queue = PendingQueue()
    queue.add(info("a", created=1))
    queue.add(info("b", cpu=2, created=2))
    queue.add(info("late", cpu=3), backoff=True)
    queue.add(info("a", created=1, queue="another"))
    assert queue.by_local_queue == {"default/lq": 2, "default/another": 1}
    queue.delete(key("a"))
    assert len(queue) == 2
    assert drain(queue) == ["b"]


def test_a_workload_that_did_not_fit_is_tried_again_once_it_may() -> None:
    queue = PendingQueue()
    queue.add(info("first", cpu=2, created=1))
    queue.add(info("second", created=2))
    queue.add(info("late", cpu=3), backoff=True)
    assert park(queue) == "first"
    queue.add(info("first", cpu=2, created=1))
    queue.add(info("late", cpu=3), backoff=True)
    assert len(queue) == 3
    assert drain(queue) == ["first", "second"]


def test_a_parked_workload_that_is_deleted_does_not_come_back_with_a_flush() -> None:
    queue = PendingQueue()
    queue.add(info("a", created=1))
    queue.add(info("b", cpu=2, created=2))
    assert park(queue) == "a"
    queue.delete(key("a"))
    assert not queue.flush()
    assert len(queue) == 1
    assert drain(queue) == ["b"]
    assert queue.by_local_queue == {"default/lq": 1}


def test_a_verdict_without_equals_moves_nobody() -> None:
    queue = PendingQueue()
    for number, name in enumerate(("odd", "a", "b")):
        queue.add(info(name, cpu=number + 1, created=number))
    park(queue, "NoFit")
    queue.delete(key("odd"))
    assert queue.active == 2
    assert not any(queue.is_parked(key(name)) for name in ("a", "b"))
    assert drain(queue) == ["a", "b"]


# Cause and reason of the verdict, whether the equal one is gone; what is known then.
REASONS: dict[str, tuple[str, str | None, bool, str | None]] = {
    "QUE-60 did not fit": ("NoFit", "ExceedsMaxQuota", False, "ExceedsMaxQuota"),
    "QUE-61 nobody to preempt": ("PreemptionNoCandidates", "WaitingForQuota", False, "WaitingForQuota"),
    "QUE-62 nothing was said": ("NoFit", None, False, "PendingEvaluation"),
    "QUE-63 not waiting": ("NoFit", "ExceedsMaxQuota", True, None),
    "QUE-64 another reason than capacity": ("NamespaceMismatch", "ExceedsMaxQuota", False, None),
}


@pytest.mark.parametrize("name", REASONS)
def test_equals_know_why_they_are_not_tried(name: str) -> None:
    cause, reason, gone, wanted = REASONS[name]
    queue = PendingQueue()
    queue.add(info("w", created=1))
    queue.add(info("twin", created=2))
    park(queue, cause, None if reason is None else WaitVerdict(cause, reason, "failed"))
    if gone:
        queue.delete(key("twin"))
    assert queue.no_fit_reason(key("twin")) == wanted


# -- through the state ------------------------------------------------------------------------------------------------


def test_a_changed_spec_does_not_end_a_back_off() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 5}))
    world.cycle()
    changed = make_workload("w", requests={"cpu": 1}, priority=300)
    world.put(with_conditions(changed, requeued("False"), requeueState=requeue_at(3600)))
    assert not world.state.plan_cycle(EPOCH).decisions
    assert queue_of(world).is_parked(key("w"))
    assert len(queue_of(world)) == 1


def test_a_count_of_tries_without_a_time_is_no_back_off() -> None:
    world = small_world()
    world.put(with_conditions(make_workload("w", requests={"cpu": 1}), requeueState={"count": 10}))
    assert [admission.key.name for admission in world.state.plan_cycle(EPOCH).admissions] == ["w"]


def test_a_workload_that_was_told_to_wait_is_queued() -> None:
    world = small_world()
    told = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": ""}
    world.put(with_conditions(make_workload("w", requests={"cpu": 1}), told))
    assert [view.key.name for view in world.state.questions.pending("cq")] == ["w"]


@pytest.mark.parametrize("gate", [True, False])
def test_gates_keep_a_workload_out_while_they_count(gate: bool) -> None:
    world = small_world(QueueingSettings(features=Features(admission_gates=gate)))
    gated = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    world.put(make_workload("w", requests={"cpu": 1}, annotations=gated))
    assert [admission.key.name for admission in world.cycle().admissions] == ([] if gate else ["w"])


def test_empty_queues_have_no_heads() -> None:
    world = small_world()
    plan = world.state.plan_cycle(EPOCH)
    assert (plan.decisions, plan.rounds, plan.more, plan.next_at) == ((), 0, False, None)
    assert not world.state.questions.needs_cycle(EPOCH)


def resync(world: QueueingWorld) -> None:
    """The LocalQueue comes again, unchanged but for what does not matter to its workloads."""
    queue = make_local_queue("lq", "cq", fairSharing={"weight": "2"})
    queue["metadata"]["labels"] = {"seen": "again"}
    world.state.upsert_local_queue(queue)


def after_a_resync(then: Callable[[QueueingWorld], None] | None = None) -> tuple[int, bool, int, int]:
    """How many wait, whether it is parked, how many will be tried, and cpus asked for."""
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 5}))
    world.cycle()
    resync(world)
    if then is not None:
        then(world)
    queue = queue_of(world)
    return len(queue), queue.is_parked(key("w")), queue.active, queue.requests.get("cpu", 0)


def flush(world: QueueingWorld) -> None:
    queue_of(world).flush()


def test_a_parked_workload_stays_parked_when_its_local_queue_comes_again() -> None:
    assert after_a_resync() == (1, True, 0, 5000)


def test_a_flush_after_that_brings_it_back_once() -> None:
    assert after_a_resync(flush) == (1, False, 1, 5000)


def test_deleting_it_after_that_leaves_nothing() -> None:
    assert after_a_resync(lambda world: world.delete("w")) == (0, False, 0, 0)


def test_a_workload_in_flight_stays_so_when_its_local_queue_comes_again() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 1}))
    queue = queue_of(world)
    assert queue.pop() is not None
    resync(world)
    assert list(queue.in_flight) == [key("w")]
    assert (len(queue), queue.active, queue.requests["cpu"]) == (1, 1, 1000)
    assert queue.pop() is None


def test_queues_of_one_tree_are_flushed_once_together() -> None:
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f"))
    for name in ("a", "b"):
        world.state.upsert_cluster_queue(make_cluster_queue(name, {"f": {"cpu": 1}}, cohort="co"))
        world.state.upsert_local_queue(make_local_queue(f"l{name}", name))
        world.put(make_workload(name, f"l{name}", requests={"cpu": 9}))
    world.settle()
    queues = world.state.world.queues
    before = {name: queue.generation for name, queue in queues.items()}
    world.state.flush_cluster_queue("a")
    world.state.flush_cluster_queue("b")
    world.state.settle()
    assert {name: queue.generation - before[name] for name, queue in queues.items()} == {"a": 1, "b": 1}
    assert not any(world.state.world.pending[name].is_parked(key(name)) for name in ("a", "b"))


def three_namespaces(cohort: str = "", *queues: str) -> QueueingWorld:
    """Queues open to two of three namespaces, with a workload from each that does not fit yet."""
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f"))
    for namespace, team in (("ns1", "eng"), ("ns2", "sales"), ("ns3", "press")):
        world.state.upsert_namespace({"metadata": {"name": namespace, "labels": {"team": team}}})
    teams = [{"key": "team", "operator": "In", "values": ["eng", "sales"]}]
    for name in queues or ("cq",):
        world.state.upsert_cluster_queue(
            make_cluster_queue(name, {"f": {"cpu": 1}}, cohort=cohort, namespaceSelector={"matchExpressions": teams})
        )
        for namespace in ("ns1", "ns2", "ns3"):
            world.state.upsert_local_queue(make_local_queue(f"l{name}", name, namespace))
    return world


def moved_by_a_flush(world: QueueingWorld, *flushed: str) -> dict[str, int]:
    """How many of each queue are tried again."""
    queues = world.state.world.pending
    assert not any(queue.active for queue in queues.values())
    for name in flushed:
        world.state.flush_cluster_queue(name)
    world.state.settle()
    return {name: queue.active for name, queue in queues.items()}


def test_a_flush_moves_all_that_are_parked() -> None:
    world = three_namespaces()
    for number, namespace in enumerate(("ns1", "ns2")):
        world.put(make_workload("w", "lcq", namespace=namespace, requests={"cpu": 5 + number}))
    world.cycle()
    assert moved_by_a_flush(world, "cq") == {"cq": 2}


def test_a_flush_moves_only_those_that_may_be_there() -> None:
    world = three_namespaces()
    for number, namespace in enumerate(("ns1", "ns3")):
        world.put(make_workload("w", "lcq", namespace=namespace, requests={"cpu": 5 + number}))
    world.cycle()
    assert moved_by_a_flush(world, "cq") == {"cq": 1}
    assert len(world.state.world.pending["cq"]) == 2


def test_a_flush_of_one_queue_moves_the_parked_ones_of_its_whole_tree() -> None:
    world = three_namespaces("co", "a", "b")
    for number, (queue, namespace) in enumerate((("la", "ns1"), ("la", "ns2"), ("lb", "ns1"))):
        world.put(make_workload(f"w{number}", queue, namespace=namespace, requests={"cpu": 5 + number}))
    world.cycle()
    assert moved_by_a_flush(world, "a") == {"a": 2, "b": 1}


def test_nothing_is_left_of_a_deleted_workload() -> None:
    world = small_world()
    world.put(make_workload("w", requests={"cpu": 5}))
    world.cycle()
    world.delete("w")
    assert world.state.questions.pending("cq") == []
    assert world.state.questions.explain(key("w")) is None
    assert world.state.questions.cluster_queue("cq").pending == 0  # type: ignore[union-attr]
    assert world.state.questions.local_queue(Key("default", "lq")).pending == 0  # type: ignore[union-attr]
    world.put(make_workload("w", requests={"cpu": 1}))
    assert [admission.key.name for admission in world.cycle().admissions] == ["w"]


# -- when a cycle is worthwhile ---------------------------------------------------------------------------------------


def add_cluster_queue(world: QueueingWorld) -> None:
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 1}}))


def add_local_queue(world: QueueingWorld) -> None:
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))


def add_workload(world: QueueingWorld) -> None:
    world.put(make_workload("w", requests={"cpu": 1}))


def move_workload(world: QueueingWorld) -> None:
    """It waited for a queue that does not exist."""
    world.put(make_workload("w", "lq", requests={"cpu": 1}))


def give_back_admission(world: QueueingWorld) -> None:
    """It was admitted, but that could not be written."""
    world.state.admission_failed(key("w"))


ALL = (add_cluster_queue, add_local_queue, add_workload)
# What is there before, and what wakes the scheduler.
WAKES: dict[str, tuple[tuple[Callable[[QueueingWorld], None], ...], Callable[[QueueingWorld], None]]] = {
    "QUE-92 a ClusterQueue": ((add_local_queue, add_workload), add_cluster_queue),
    "QUE-93 a LocalQueue": ((add_cluster_queue, add_workload), add_local_queue),
    "QUE-94 a workload": ((add_cluster_queue, add_local_queue), add_workload),
    "QUE-95 a workload that changes its queue": (
        (
            add_cluster_queue,
            add_local_queue,
            lambda world: world.put(make_workload("w", "nowhere", requests={"cpu": 1})),
        ),
        move_workload,
    ),
    "QUE-96 a workload that comes back": (ALL, give_back_admission),
}


@pytest.mark.parametrize("name", WAKES)
def test_what_makes_a_cycle_worthwhile(name: str) -> None:
    before, event = WAKES[name]
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f"))
    for step in before:
        step(world)
    world.state.plan_cycle(EPOCH)
    assert not world.state.questions.needs_cycle(EPOCH)
    event(world)
    assert world.state.questions.needs_cycle(EPOCH)
    assert [admission.key.name for admission in world.state.plan_cycle(EPOCH).admissions] == ["w"]


# -- second passes ----------------------------------------------------------------------------------------------------


def waits_for_places(name: str) -> Obj:
    """Its checks are ready, its pods have no nodes yet."""
    pod_set = make_pod_set("main", 1, {"cpu": 1}, topology={"required": "kubernetes.io/hostname"})
    assignment = {**make_assignment("main", {"cpu": "tas"}, {"cpu": 1}), "delayedTopologyRequest": "Pending"}
    workload = reserve(make_workload(name, "lq", pod_set), "cq", assignment, admitted=False)
    workload["status"]["admissionChecks"] = [{"name": "prov", "state": "Ready"}]
    return workload


def provisioned() -> QueueingWorld:
    world = QueueingWorld()
    world.state.upsert_topology(make_topology("t", "kubernetes.io/hostname"))
    world.state.upsert_flavor(make_flavor("tas", topologyName="t"))
    world.state.upsert_node(make_node("x1", cpu="5"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 5}}))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return world


def test_a_workload_that_is_evicted_before_its_second_pass_gets_none() -> None:
    world = provisioned()
    world.put(waits_for_places("a"), waits_for_places("b"))
    world.evict(key("a"), "Preempted")
    (second,) = world.state.plan_cycle(EPOCH).decisions
    assert isinstance(second, Admit)
    assert (second.key.name, second.second_pass) == ("b", True)


def test_a_workload_that_is_told_twice_gets_one_second_pass() -> None:
    world = provisioned()
    world.put(waits_for_places("a"), waits_for_places("a"))
    (second,) = world.state.plan_cycle(EPOCH).decisions
    assert isinstance(second, Admit)
    assert second.second_pass
    assert not world.state.plan_cycle(EPOCH).decisions


# -- progress of the flavor search ------------------------------------------------------------------------------------


def recorded(place: str, preserve: bool, change: Obj) -> Cursor | None:
    """The search is left after the first flavor; then the workload changes."""
    world = small_world(QueueingSettings(features=Features(preserve_scan_progress=preserve)))
    workload = make_workload("w", requests={"cpu": 5})
    world.put(workload)
    queue = queue_of(world)
    item = queue.items[key("w")]
    item.cursor = Cursor(3, 7, item.info.shape)
    item.cursor.tried = [{"cpu": -1 if place == "parked" else 1}]
    if place != "waiting":
        assert queue.pop() is item
    if place == "parked":
        assert not queue.requeue(item, "NoFit", NO_FIT)
    world.put({**workload, "metadata": {**workload["metadata"], "labels": {"updated": "true"}}, **change})
    return queue.items[key("w")].cursor


LARGER = {"spec": make_workload("w", requests={"cpu": 5}, count=4)["spec"]}
# Where it is, whether the gate is open, what else changes; the flavors it need not try again.
PROGRESS: dict[str, tuple[str, bool, Obj, list[dict[str, int]] | None]] = {
    "QUE-110 waiting": ("waiting", True, {}, [{"cpu": 1}]),
    "QUE-111 parked": ("parked", True, {}, [{"cpu": -1}]),
    "QUE-112 waiting, without the gate": ("waiting", False, {}, None),
    "QUE-113 parked, without the gate": ("parked", False, {}, None),
    "QUE-114 in flight": ("in flight", True, {}, [{"cpu": 1}]),
    "QUE-115 in flight, without the gate": ("in flight", False, {}, None),
    "QUE-116 another shape": ("waiting", True, LARGER, None),
}


@pytest.mark.parametrize("name", PROGRESS)
def test_the_search_goes_on_after_an_update(name: str) -> None:
    place, preserve, change, tried = PROGRESS[name]
    cursor = recorded(place, preserve, change)
    assert (cursor and cursor.tried) == tried
