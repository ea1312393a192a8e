"""A ClusterQueue at run time: the order its reservations are considered for eviction in, and its sums by priority."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.unit.decide.queueing.booked import CPU, Queues, workload

from corral.decide.queueing.model.values import PreemptionPolicy, WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import as_reserving

# In the order they go: leaving, lower priority, newer, uid; and every name sorts against its place.
IN_ORDER = (
    workload("z-leaving", evicted=True, priority=9, reserved=1),
    workload("y-low-unseen", priority=1, reserved=None),
    workload("x-low-new", priority=1, reserved=5),
    workload("w-low-old", priority=1, reserved=2),
    workload("v-high-new", priority=3, reserved=9, uid="1"),
    workload("u-high-new", priority=3, reserved=9, uid="2"),
    workload("t-high-old", priority=3, reserved=1),
)
NAMES = [info.key.name for info in IN_ORDER]


def booked(*infos: WorkloadInfo) -> Queues:
    queues = Queues(PreemptionPolicy(), q=10)
    for info in infos:
        queues.book("q", info)
    return queues


def names(queues: Queues) -> list[str]:
    return [reservation.info.key.name for _, reservation in queues.by_name["q"].ranked]


def test_reservations_are_ranked_whichever_way_they_came() -> None:
    assert names(booked(*IN_ORDER)) == NAMES
    assert names(booked(*reversed(IN_ORDER))) == NAMES


@pytest.mark.parametrize("order", permutations(range(4)), ids=str)
def test_the_rank_holds_while_reservations_come_and_go(order: tuple[int, ...]) -> None:
    """Looking in between makes the queue keep its list in order instead of sorting it anew."""
    some = IN_ORDER[2:6]
    queues = booked()
    for place in order:
        queues.book("q", some[place])
        assert names(queues) == [info.key.name for info in some if info.key in queues.by_name["q"].reservations]
    for place in order:
        queue = queues.by_name["q"]
        queue.remove(queue.reservations[some[place].key])
        assert names(queues) == [info.key.name for info in some if info.key in queue.reservations]


def test_usage_below_a_priority_is_what_evicting_the_less_important_would_free() -> None:
    queue = booked(*IN_ORDER).by_name["q"]
    assert [queue.usage_below(CPU, priority) for priority in (0, 1, 2, 3, 4, 10)] == [0, 0, 3, 3, 6, 7]


def test_an_eviction_that_is_over_is_history_for_the_next_reservation() -> None:
    assert as_reserving(workload("a", evicted=True)).evicted is False
