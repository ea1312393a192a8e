"""What gives a parked workload another chance: each change that could let it in, and none that could not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from corral.core.meta import Key
from corral.decide.queueing.model.settings import QueueingSettings
from corral.testing.queueing import (
    QueueingWorld,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    make_workload,
)

ONE_CPU = {"default": {"cpu": 1}}
TWO_CPU = {"default": {"cpu": 2}}


def full() -> QueueingWorld:
    """Queue `cq` of a cohort is full and has a parked workload; queue `apart` has nothing to do with it."""
    world = QueueingWorld(QueueingSettings())
    state = world.state
    state.upsert_flavor(make_flavor("default"))
    state.upsert_flavor(make_flavor("elsewhere"))
    state.upsert_cluster_queue(make_cluster_queue("cq", ONE_CPU, cohort="team"))
    state.upsert_cluster_queue(make_cluster_queue("sibling", ONE_CPU, cohort="team"))
    state.upsert_cluster_queue(make_cluster_queue("apart", {"elsewhere": {"cpu": 1}}))
    for queue in ("cq", "sibling", "apart"):
        state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))
    world.put(
        make_workload("holder", "lq-cq", requests={"cpu": 1}),
        make_workload("neighbour", "lq-sibling", requests={"cpu": 1}),
        make_workload("stranger", "lq-apart", requests={"cpu": 1}),
    )
    world.settle()
    world.put(make_workload("parked", "lq-cq", requests={"cpu": 1}, created=9))
    world.settle()
    assert "parked" not in world.admitted()["cq"]
    assert not is_tried(world)
    return world


def is_tried(world: QueueingWorld) -> bool:
    """Whether the next cycle has anything to do with the parked workload."""
    return any(getattr(decision, "key", None) == Key("default", "parked") for decision in world.cycle().decisions)


HELPS: dict[str, Callable[[QueueingWorld], object]] = {
    "the holder ends": lambda world: world.finish("holder"),
    "the holder is deleted": lambda world: world.delete("holder"),
    "somebody of the cohort ends": lambda world: world.finish("neighbour"),
    "the queue gets more quota": lambda world: world.state.upsert_cluster_queue(
        make_cluster_queue("cq", TWO_CPU, cohort="team")
    ),
    "a sibling gets more quota": lambda world: world.state.upsert_cluster_queue(
        make_cluster_queue("sibling", TWO_CPU, cohort="team")
    ),
    "the cohort gets quota": lambda world: world.state.upsert_cohort(make_cohort("team", "", ONE_CPU)),
}
DOES_NOT: dict[str, Callable[[QueueingWorld], object]] = {
    "nothing happens": lambda world: None,
    "somebody in another tree ends": lambda world: world.finish("stranger"),
    "a queue of another tree gets more quota": lambda world: world.state.upsert_cluster_queue(
        make_cluster_queue("apart", {"elsewhere": {"cpu": 5}})
    ),
}


@pytest.mark.parametrize("change", HELPS.values(), ids=HELPS)
def test_a_parked_workload_gets_in_when(change: Callable[[QueueingWorld], object]) -> None:
    world = full()
    change(world)
    world.settle()
    assert "parked" in world.admitted()["cq"]


@pytest.mark.parametrize("change", DOES_NOT.values(), ids=DOES_NOT)
def test_a_parked_workload_is_left_in_peace_when(change: Callable[[QueueingWorld], object]) -> None:
    world = full()
    change(world)
    assert not is_tried(world)
