"""The order of waiting workloads, compared with a plain list under random use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.meta import Key
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import WorkloadInfo
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.decide.queueing.queue.pending import Pending, PendingQueue, WaitVerdict
from corral.testing.queueing import make_workload

DECODER = WorkloadDecoder(QueueingSettings())
NO_FIT = WaitVerdict("NoFit", "Pending", "no fit")


def info(name: str, cpu: int = 1, priority: int = 0, created: float = 0.0, queue: str = "lq") -> WorkloadInfo:
    return DECODER.decode(make_workload(name, queue, requests={"cpu": cpu}, priority=priority, created=created))


def test_a_preemptor_taken_from_below_the_head_comes_back_under_its_old_rank() -> None:
    queue = PendingQueue()
    for name, priority in (("a", 9), ("b", 5), ("c", 1), ("d", 1)):
        queue.add(info(name, priority=priority))
    queue.sticky = Key("default", "c")
    for _ in range(10):
        item = queue.pop()
        assert item is not None
        assert item.info.key.name == "c"
        queue.requeue(item, "PendingPreemption", None)
    queue.sticky = None
    assert [item.info.key.name for item in iter(queue.pop, None)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("cause", ["NoFit", "PreemptionNoCandidates", "NamespaceMismatch"])
def test_a_preemptor_that_was_parked_is_the_first_again_until_another_preempts(cause: str) -> None:
    queue = PendingQueue()
    queue.add(info("preemptor", cpu=2, priority=1))
    for why in ("PendingPreemption", cause):
        item = queue.pop()
        assert item is not None
        queue.requeue(item, why, WaitVerdict(why, "Pending", ""))
    higher = queue.add(info("higher", priority=2))
    queue.flush()
    assert queue.pop() is item
    queue.requeue(item, cause, WaitVerdict(cause, "Pending", ""))
    assert queue.pop() is higher
    queue.requeue(higher, "PendingPreemption", None)
    queue.flush()
    assert queue.pop() is higher


def test_a_preemptor_that_left_is_nobody_special_when_it_comes_back() -> None:
    queue = PendingQueue()
    preemptor = info("preemptor", cpu=2, priority=1)
    queue.add(preemptor)
    item = queue.pop()
    assert item is not None
    queue.requeue(item, "PendingPreemption", None)
    higher = queue.add(info("higher", priority=2))
    queue.delete(preemptor.key)
    queue.add(preemptor)
    assert queue.pop() is higher


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(("add", "pop", "requeue", "park", "stick", "delete", "flush")),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=60,
)


@given(ACTIONS, st.booleans(), st.booleans())
def test_the_head_is_always_the_first_that_is_not_parked(
    actions: list[tuple[str, int, int]], strict: bool, by_usage: bool
) -> None:
    queue = PendingQueue(strict=strict)
    usage = {"default/lq0": 1.0, "default/lq1": 0.0, "default/lq2": 2.0}
    if by_usage:
        queue.usage_of = lambda name: usage[name]
    flying: list[Pending] = []
    for action, number, extra in actions:
        name, key = f"w{number}", Key("default", f"w{number}")
        if action == "add" and key not in queue.items:
            queue.add(info(name, cpu=1 + extra, priority=number % 3, created=number, queue=f"lq{extra}"))
        elif action == "pop" and (item := queue.pop()) is not None:
            flying.append(item)
        elif action in ("requeue", "park", "stick") and flying:
            item = flying.pop()
            cause = {"requeue": "FailedAfterNomination", "park": "NoFit", "stick": "PendingPreemption"}[action]
            queue.requeue(item, cause, NO_FIT if action == "park" else None)
        elif action == "delete":
            queue.delete(key)
            flying = [item for item in flying if item.info.key != key]
        elif action == "flush":
            queue.flush()
        _check(queue, by_usage)


def _check(queue: PendingQueue, by_usage: bool) -> None:
    """Whoever is neither parked nor in flight competes: by usage, then the sticky one, then by rank."""
    open_items = [item for key, item in queue.items.items() if key not in queue.in_flight and not queue.is_parked(key)]

    def order(item: Pending) -> tuple[object, ...]:
        used = queue.usage_of(item.info.queue_key) if by_usage and queue.usage_of is not None else 0.0
        return used, item.info.key != queue.sticky, item.rank

    expected = min(open_items, key=order, default=None)
    head = queue._head()
    assert head is expected
    assert len(queue) == len(queue.items) == sum(queue.by_local_queue.values())


TRIED_LAST: dict[str, tuple[str, str, bool, bool]] = {
    "its victims are leaving": ("PendingPreemption", "", False, True),
    "others of the round took its room": ("FailedAfterNomination", "", False, True),
    "nobody can make room any more": ("PreemptionNoCandidates", "", False, False),
    "its namespace does not match any more": ("NamespaceMismatch", "", False, False),
    "one before it waits for something else, which blocks": ("PendingPreemption", "NoFit", True, False),
    "one before it waits for victims too": ("PendingPreemption", "PendingPreemption", True, True),
    "one before it waits for something else, which does not block": ("PendingPreemption", "NoFit", False, True),
}


@pytest.mark.parametrize("case", TRIED_LAST.values(), ids=TRIED_LAST)
def test_a_preemptor_still_waits_for_its_room_or_does_not(case: tuple[str, str, bool, bool]) -> None:
    cause, before, strict, expected = case
    queue = PendingQueue(strict=strict)
    queue.add(info("preemptor", priority=1))
    head = queue.pop()
    assert head is not None
    queue.requeue(head, cause, WaitVerdict(cause, "Pending", ""))
    if before:
        first = queue.add(info("first", priority=2))
        first.verdict = WaitVerdict(before, "Pending", "")
    assert queue.still_preempts(head.info.key) is expected
    queue.delete(head.info.key)
    assert not queue.still_preempts(head.info.key)
