"""Who holds quota, as Workloads state it: reservations follow their queue, whichever of the two comes first."""

from __future__ import annotations

from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import FlavorResource
from corral.testing.queueing import (
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
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
