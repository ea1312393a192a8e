"""Who holds quota, as Workloads state it: reservations follow their queue, whichever of the two comes first."""

from __future__ import annotations

import pytest

from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import FlavorResource
from corral.testing.queueing import (
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

CPU = FlavorResource("default", "cpu")
QUEUE = make_cluster_queue("cq", {"default": {"cpu": 4}})


def with_local_queue() -> QueueingWorld:
    world = QueueingWorld(QueueingSettings())
    world.state.upsert_flavor(make_flavor("default"))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return world


def held(world: QueueingWorld) -> dict[str, int]:
    """What is booked with the queue, by workload."""
    queue = world.state.world.queues["cq"]
    assert queue.node.usage.get(CPU, 0) == sum(one.usage.get(CPU, 0) for one in queue.reservations.values())
    return {key.name: one.usage[CPU] for key, one in queue.reservations.items()}


def running(name: str, cpu: int) -> Obj:
    assigned = make_assignment(flavors={"cpu": "default"}, usage={"cpu": cpu})
    return reserve(make_workload(name, requests={"cpu": cpu}), "cq", assigned)


def test_a_reservation_that_came_before_its_queue_is_booked_with_it() -> None:
    world = with_local_queue()
    world.put(running("early", 3))
    world.state.upsert_cluster_queue(QUEUE)
    assert held(world) == {"early": 3000}


def test_a_reservation_outlives_its_queue() -> None:
    world = with_local_queue()
    world.state.upsert_cluster_queue(QUEUE)
    world.put(running("patient", 2))
    world.state.delete_cluster_queue("cq")
    assert "cq" not in world.state.world.queues
    world.state.upsert_cluster_queue(QUEUE)
    assert held(world) == {"patient": 2000}


def test_one_that_ended_while_its_queue_was_away_is_not_booked() -> None:
    world = with_local_queue()
    world.put(running("ends", 2), running("goes", 1))
    world.finish("ends")
    world.delete("goes")
    world.state.upsert_cluster_queue(QUEUE)
    assert held(world) == {}


def test_a_reservation_stated_again_counts_once_and_as_it_is_stated_last() -> None:
    world = with_local_queue()
    world.state.upsert_cluster_queue(QUEUE)
    world.put(running("a", 2))
    world.put(running("a", 2))
    world.put(running("a", 3))
    assert held(world) == {"a": 3000}
    world.finish("a")
    assert held(world) == {}
    assert Key("default", "a") not in world.state.world.reservations


@pytest.mark.parametrize("tells", [True, False], ids=["told", "not told, as upstream"])
def test_who_waits_in_another_cohort_for_places_on_the_same_nodes_is(tells: bool) -> None:
    world = QueueingWorld(QueueingSettings(tells_other_cohorts=tells))
    state = world.state
    state.upsert_topology(make_topology("hosts", "kubernetes.io/hostname"))
    state.upsert_flavor(make_flavor("default", nodeLabels={"pool": "a"}, topologyName="hosts"))
    state.upsert_node(make_node("n0", {"pool": "a"}, cpu="2"))
    for queue in ("cq", "other"):
        state.upsert_cluster_queue(make_cluster_queue(queue, {"default": {"cpu": 4}}))
        state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))
    whole_node = make_pod_set(count=1, requests={"cpu": 2}, topology={"required": "kubernetes.io/hostname"})
    world.put(make_workload("holder", "lq-cq", whole_node))
    world.settle()
    world.put(make_workload("parked", "lq-other", whole_node))
    world.settle()
    assert world.admitted() == {"cq": ["holder"]}
    world.finish("holder")
    world.settle()
    assert world.admitted() == ({"other": ["parked"]} if tells else {})
    state.flush_cluster_queue("other")
    world.settle()
    assert world.admitted() == {"other": ["parked"]}


@pytest.mark.parametrize("checked", [False, True], ids=["runs from now on", "waits for its checks"])
def test_who_is_being_admitted(checked: bool) -> None:
    world = with_local_queue()
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}} if checked else {}
    world.state.upsert_admission_check(
        {
            "metadata": {"name": "check"},
            "spec": {"controllerName": "somebody"},
            "status": {"conditions": [{"type": "Active", "status": "True"}]},
        }
    )
    world.state.upsert_cluster_queue(make_cluster_queue("cq", {"default": {"cpu": 4}}, **strategy))
    world.put(make_workload("w", requests={"cpu": 3}))
    assert any(True for _ in world.state.plan_cycle(world.now).admissions)
    assert world.state.world.running("default/lq") == ({} if checked else {"cpu": 3000})
    world.state.admission_failed(Key("default", "w"))
    assert not any(world.state.world.running("default/lq").values())
