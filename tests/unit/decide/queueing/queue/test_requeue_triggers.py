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


def full(settings: QueueingSettings | None = None) -> QueueingWorld:
    """Queue `cq` of a cohort is full and has a parked workload; queue `apart` has nothing to do with it."""
    world = QueueingWorld(settings or QueueingSettings())
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
    world.now += 60
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


COLLECTING = QueueingSettings(requeue_batch_s=1.0)


@pytest.mark.parametrize("change", HELPS.values(), ids=HELPS)
def test_news_is_collected_before_parked_workloads_are_tried_again_if_wanted(
    change: Callable[[QueueingWorld], object],
) -> None:
    world = full(COLLECTING)
    begin = world.now
    change(world)
    assert not is_tried(world)
    assert world.state.questions.next_alarm == begin + 1
    world.now = begin + 0.75
    world.state.flush_cluster_queue("sibling")
    assert not is_tried(world)
    world.now = begin + 1
    assert world.state.questions.needs_cycle(world.now)
    world.settle()
    assert "parked" in world.admitted()["cq"]
    assert world.state.questions.next_alarm is None or world.state.questions.next_alarm > world.now


TREES = {
    "below a cohort that is not the root": (("root", "left"), 1.0, True),
    "below a cohort that is not the root, without upstream's pace": (("root", "left"), 0.0, False),
    "below the root": (("root",), 1.0, False),
    "below a cohort that is only mentioned": ((), 1.0, False),
}


@pytest.mark.parametrize("case", TREES.values(), ids=TREES)
def test_what_is_parked_is_tried_again_when_a_queue_changes(case: tuple[tuple[str, ...], float, bool]) -> None:
    cohorts, batch, expected = case
    world = QueueingWorld(QueueingSettings(requeue_batch_s=batch))
    state = world.state
    state.upsert_flavor(make_flavor("default"))
    for parent, child in zip(("", *cohorts), cohorts, strict=False):
        state.upsert_cohort(make_cohort(child, parent))
    cohort = cohorts[-1] if cohorts else "mentioned"
    for queue in ("cq", "sibling"):
        state.upsert_cluster_queue(make_cluster_queue(queue, ONE_CPU, cohort=cohort))
        state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))
    world.put(
        make_workload("holder", "lq-cq", requests={"cpu": 2}),
        make_workload("parked", "lq-cq", requests={"cpu": 1}, created=9),
    )
    for _ in range(4):
        world.settle()
        world.now += 2
    assert not world.state.questions.needs_cycle(world.now)
    world.put(make_workload("newcomer", "lq-sibling", requests={"cpu": 3}, created=10))
    begin = world.now
    world.settle()
    assert (world.state.questions.next_alarm == begin + 1) is expected
    world.now = begin + 1
    assert world.state.questions.needs_cycle(world.now) is expected
    world.settle()
    world.now += 2
    assert not world.state.questions.needs_cycle(world.now)


def test_who_is_not_parked_does_not_wait_for_the_news_of_others() -> None:
    world = full(COLLECTING)
    world.finish("neighbour")
    world.put(make_workload("newcomer", "lq-sibling", requests={"cpu": 1}, created=10))
    world.settle()
    assert world.admitted()["sibling"] == ["newcomer"]


def test_news_of_a_queue_that_is_gone_is_forgotten() -> None:
    world = full(COLLECTING)
    world.finish("stranger")
    world.cycle()
    world.state.delete_cluster_queue("apart")
    world.now += 1
    world.cycle()
    assert world.state.questions.next_alarm is None
