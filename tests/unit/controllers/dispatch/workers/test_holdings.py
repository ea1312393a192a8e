"""Which workers hold something of a Workload."""

from __future__ import annotations

from corral.controllers.dispatch.workers.holdings import Holdings
from corral.core.meta import Key

A, B = Key("default", "a"), Key("default", "b")


def test_a_worker_is_named_as_long_as_it_holds_something() -> None:
    holdings = Holdings()
    holdings.note(A, "worker1", holds=True)
    holdings.note(A, "worker2", holds=True)
    holdings.note(A, "worker1", holds=False)
    assert list(holdings.of(A)) == ["worker2"]
    assert list(holdings.of(B)) == []


def test_nothing_is_remembered_of_a_worker_that_is_dropped() -> None:
    holdings = Holdings()
    for workload in (A, B):
        holdings.note(workload, "worker1", holds=True)
    holdings.note(B, "worker2", holds=True)
    holdings.drop("worker1")
    assert list(holdings.of(A)) == []
    assert list(holdings.of(B)) == ["worker2"]
