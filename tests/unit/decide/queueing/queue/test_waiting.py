"""When a workload that gave its quota back waits in its queue again: at once, later, or when somebody says so."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj, status_of, with_status
from corral.core.timestamps import format_time
from corral.decide.queueing.model.settings import QueueingSettings
from corral.testing.queueing import (
    QueueingWorld,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_workload,
)
from corral.workload import lifecycle

ONE_CPU = {"default": {"cpu": 1}}
SHIPPED, COLLECTING = QueueingSettings(), QueueingSettings(requeue_batch_s=1.0)


def occupied(settings: QueueingSettings) -> QueueingWorld:
    """A StrictFIFO queue with room for one: `holder` has it, `behind` of lower priority waits."""
    world = QueueingWorld(settings)
    world.state.upsert_flavor(make_flavor("default"))
    world.state.upsert_cluster_queue(make_cluster_queue("cq", ONE_CPU, strict=True, within="LowerPriority"))
    world.state.upsert_local_queue(make_local_queue("lq", "cq"))
    world.put(make_workload("holder", "lq", requests={"cpu": 1}, priority=2))
    world.settle()
    world.put(make_workload("behind", "lq", requests={"cpu": 1}, priority=1, created=1))
    world.settle()
    world.now += 2
    world.settle()
    assert world.admitted() == {"cq": ["holder"]}
    return world


def stop(world: QueueingWorld, reason: str, *, back_off_s: float = 0.0) -> None:
    """The holder is evicted and its job stops; nothing says yet that it may be queued again."""
    now = format_time(world.now)
    evicted: Obj = lifecycle.evict(world.get("holder"), reason, "somebody's wish", now)
    if back_off_s:
        state = {"requeueAt": format_time(world.now + back_off_s)}
        evicted = with_status(evicted, {**status_of(evicted), "requeueState": state})
    world.put(evicted)
    world.put(lifecycle.release_evicted(evicted, [], now))


@pytest.mark.parametrize("settings", [SHIPPED, COLLECTING], ids=["as shipped", "at upstream's pace"])
@pytest.mark.parametrize("reason", ["Preempted", "NodeFailures", "AdmissionCheck", "PodsReadyTimeout"])
def test_nobody_comes_before_one_that_may_be_tried_again_at_once(settings: QueueingSettings, reason: str) -> None:
    world = occupied(settings)
    stop(world, reason)
    world.cycle()
    assert world.admitted() == {"cq": ["holder"]}


@pytest.mark.parametrize("reason", ["AdmissionCheck", "PodsReadyTimeout"])
def test_others_have_their_turn_while_it_backs_off(reason: str) -> None:
    world = occupied(SHIPPED)
    stop(world, reason, back_off_s=60)
    world.cycle()
    assert world.admitted() == {"cq": ["behind"]}
    world.now += 60
    world.settle()
    assert world.admitted() == {"cq": ["holder"]}, "it comes first, and preempts"


@pytest.mark.parametrize("reason", ["ClusterQueueStopped", "LocalQueueStopped", "Deactivated"])
def test_others_have_their_turn_until_somebody_lets_it_be_queued_again(reason: str) -> None:
    world = occupied(SHIPPED)
    stop(world, reason)
    world.now += 3600
    world.cycle()
    assert world.admitted() == {"cq": ["behind"]}
