"""Whom a workload may evict and in which order: each step of the order decides where all steps before it are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from tests.unit.decide.queueing.booked import CPU, MEMORY, NOW, Queues, workload

from corral.decide.queueing.cycle.preemption.candidates import (
    Preemptor,
    SearchScope,
    Variant,
    candidate_order,
    find_candidates,
    may_borrow_for,
    satisfies_policy,
)
from corral.decide.queueing.cycle.preemption.classical import classical_targets
from corral.decide.queueing.cycle.preemption.fair_sharing import fair_targets
from corral.decide.queueing.model.settings import FINAL_SHARE, INITIAL_SHARE
from corral.decide.queueing.model.values import PreemptionPolicy, WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import Reservation

ANY = PreemptionPolicy("Any", "Any")


def asking(queues: Queues, *, priority: int = 10, amount: int = 1, **more: Any) -> Preemptor:
    info = workload("incoming", priority=priority, reserved=None, created=more.pop("created", 0.0))
    return Preemptor(info, queues.by_name["mine"], frozenset([CPU]), {CPU: amount}, NOW, **more)


# Pairs in which the first goes first, and nothing decides but what the sentence says.
FIRST_OF_TWO: dict[str, tuple[WorkloadInfo, WorkloadInfo]] = {
    "one that leaves anyway, however important": (
        workload("z", evicted=True, priority=9, reserved=1),
        workload("a", priority=1, reserved=5),
    ),
    "the lower priority, however old": (workload("z", priority=1, reserved=1), workload("a", priority=2, reserved=5)),
    "the one that got its quota last": (workload("z", reserved=5), workload("a", reserved=1)),
    "one whose reservation is not yet seen before one of the past": (
        workload("z", reserved=None),
        workload("a", reserved=NOW - 1),
    ),
    "the smaller uid": (workload("z", uid="1"), workload("a", uid="2")),
}


@pytest.mark.parametrize(("first", "second"), FIRST_OF_TWO.values(), ids=FIRST_OF_TWO)
@pytest.mark.parametrize("turned", [False, True], ids=["booked in order", "booked in reverse"])
def test_one_goes_before_the_other_wherever_they_are_sorted(
    first: WorkloadInfo, second: WorkloadInfo, turned: bool
) -> None:
    queues = Queues(ANY, mine=2)
    booked = [queues.book("mine", info) for info in ((second, first) if turned else (first, second))]
    preemptor = asking(queues)
    by_key = [one.info.key.name for one in sorted(booked, key=candidate_order(preemptor))]
    by_rank = [
        one.reservation.info.key.name for one in find_candidates(preemptor, queues.by_node, SearchScope(True, False))
    ]
    assert by_key == by_rank == [first.key.name, second.key.name]


def classical(preemptor: Preemptor, queues: Queues) -> list[str]:
    return [target.reservation.info.key.name for target in classical_targets(preemptor, queues.by_node)]


def fair(preemptor: Preemptor, queues: Queues) -> list[str]:
    found = fair_targets(preemptor, queues.by_node, [FINAL_SHARE, INITIAL_SHARE])
    return [target.reservation.info.key.name for target in found]


@pytest.mark.parametrize("victims", [classical, fair])
@pytest.mark.parametrize("holder", ["mine", "theirs"])
def test_of_equals_the_newest_reservation_is_the_victim(
    victims: Callable[[Preemptor, Queues], list[str]], holder: str
) -> None:
    queues = Queues(ANY, mine=3, theirs=0)
    for name, reserved in (("middle", 2.0), ("oldest", 1.0), ("newest", 3.0)):
        queues.book(holder, workload(name, reserved=reserved))
    assert victims(asking(queues), queues) == ["newest"]


def test_by_shares_nobody_takes_the_place_of_whom_it_had_to_leave_for() -> None:
    """Who was below its quota took it back from a borrower; by shares the borrower would evict it again, and so on for ever."""
    queues = Queues(ANY, mine=0, theirs=0, third=3)
    for name, reserved in (("older", 1.0), ("newer", 2.0)):
        queues.book("theirs", workload(name, reserved=reserved))
    assert fair(asking(queues), queues) == ["newer"]
    assert fair(asking(queues, left_for=workload("newer").key), queues) == ["older"]


@pytest.mark.parametrize("victims", [classical, fair])
def test_a_less_important_one_is_the_victim_before_a_newer_one(
    victims: Callable[[Preemptor, Queues], list[str]],
) -> None:
    queues = Queues(ANY, mine=2)
    queues.book("mine", workload("newer", priority=2, reserved=9))
    queues.book("mine", workload("lower", priority=1, reserved=1))
    assert victims(asking(queues), queues) == ["lower"]


def test_a_busier_local_queue_gives_first_where_its_usage_counts() -> None:
    queues = Queues(ANY, mine=2)
    idle = queues.book("mine", workload("idle", priority=1))
    busy = queues.book("mine", workload("busy", priority=2))
    mine = queues.by_name["mine"]
    usage = {"idle": 1.0, "busy": 7.0}
    preemptor = asking(queues, local_queue_usage=lambda info: usage[info.key.name])
    assert sorted([busy, idle], key=candidate_order(preemptor)) == [idle, busy]
    mine.update(structs.replace(mine.spec, admission_fair_sharing=True))
    assert sorted([idle, busy], key=candidate_order(preemptor)) == [busy, idle]
    assert sorted([busy, idle], key=candidate_order(preemptor, by_usage=False)) == [idle, busy]


def test_other_queues_come_before_the_own_one() -> None:
    queues = Queues(ANY, mine=3, theirs=0)
    queues.book("mine", workload("own", priority=0))
    queues.book("theirs", workload("other", priority=5))
    found = list(find_candidates(asking(queues), queues.by_node, SearchScope(True, True)))
    assert [(one.reservation.info.key.name, one.variant) for one in found] == [
        ("other", Variant.HIERARCHICAL),
        ("own", Variant.WITHIN_QUEUE),
    ]
    booked = [reservation for queue in queues.by_name.values() for reservation in queue.reservations.values()]
    in_order = sorted(booked, key=candidate_order(asking(queues)))
    assert [reservation.info.key.name for reservation in in_order] == ["other", "own"]


def test_candidates_use_what_is_needed_and_are_not_the_one_that_asks() -> None:
    queues = Queues(ANY, mine=3)
    queues.book("mine", workload("memory"), column=MEMORY)
    queues.book("mine", workload("incoming"))
    queues.book("mine", workload("cpu"))
    found = find_candidates(asking(queues), queues.by_node, SearchScope(True, False))
    assert [one.reservation.info.key.name for one in found] == ["cpu"]


@pytest.mark.parametrize(
    ("policy", "priority", "created", "buffer", "goes"),
    [
        ("Never", 0, 0.0, False, False),
        ("Any", 99, 0.0, False, True),
        ("LowerPriority", 9, 0.0, False, True),
        ("LowerPriority", 10, 500.0, False, False),
        ("LowerOrNewerEqualPriority", 9, 0.0, False, True),
        ("LowerOrNewerEqualPriority", 10, 101.0, False, True),
        ("LowerOrNewerEqualPriority", 10, 100.0, False, False),
        ("LowerOrNewerEqualPriority", 10, 400.0, True, False),
        ("LowerOrNewerEqualPriority", 10, 401.0, True, True),
        ("LowerOrNewerEqualPriority", 11, 500.0, False, False),
    ],
)
def test_a_policy_lets_go(policy: str, priority: int, created: float, buffer: bool, goes: bool) -> None:
    preemptor = asking(Queues(ANY, mine=1), created=100.0, timestamp_buffer=buffer)
    assert satisfies_policy(preemptor, workload("other", priority=priority, created=created), policy) is goes


@pytest.mark.parametrize(
    ("policy", "threshold", "priority", "borrows"),
    [
        ("Never", None, 0, False),
        ("LowerPriority", None, 9, True),
        ("LowerPriority", None, 10, False),
        ("LowerPriority", 5, 5, True),
        ("LowerPriority", 5, 6, False),
    ],
)
def test_a_victim_may_be_taken_while_borrowing(
    policy: str, threshold: int | None, priority: int, borrows: bool
) -> None:
    preemptor = asking(Queues(PreemptionPolicy("Any", "Any", policy, threshold), mine=1))
    assert may_borrow_for(preemptor, workload("other", priority=priority)) is borrows


def test_of_admissions_that_are_not_written_yet_the_last_goes_first_whatever_the_uids() -> None:
    queues = Queues(ANY, mine=3)
    queue = queues.by_name["mine"]
    for number, name in enumerate(("b", "a", "c"), start=1):
        info = workload(name, reserved=None)
        queue.add(Reservation(info, queue, (), {CPU: 1}, {}, assumed=number))
    by_order = sorted(queue.reservations.values(), key=candidate_order(asking(queues)))
    assert [one.info.key.name for one in by_order] == ["c", "a", "b"]
    assert [one.info.key.name for _, one in queue.ranked] == ["c", "a", "b"]
