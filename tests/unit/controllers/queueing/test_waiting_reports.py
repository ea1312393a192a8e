"""Which reasons for waiting are written at once and which are joined."""

from __future__ import annotations

from corral.controllers.queueing.waiting_reports import AT_ONCE, SHARE, WaitingReports
from corral.core.meta import Key, Obj
from corral.decide.queueing.cycle.plan import Wait
from corral.kinds.kueue import names
from corral.testing.queueing import make_workload
from corral.workload import lifecycle


def key(name: str) -> Key:
    return Key("default", name)


def says(name: str, message: str, reason: str = "Pending") -> Wait:
    return Wait(key(name), "cq", reason, message)


def waiting(name: str) -> Obj:
    return lifecycle.pending(make_workload(name), "Pending", "3 more needed", "2026-01-01T00:00:00Z")


def exhausted(reports: WaitingReports, now: float) -> WaitingReports:
    """So many repetitions have been written in this second that the next is put off."""
    for _ in range(AT_ONCE):
        assert not reports.puts_off(says("other", "2 more needed"), waiting("other"), now)
    return reports


def test_a_first_reason_and_another_one_are_never_put_off() -> None:
    reports = exhausted(WaitingReports(), 0.0)
    assert not reports.puts_off(says("a", "3 more needed"), make_workload("a"), 0.5)
    assert not reports.puts_off(says("a", "stopped", "Inadmissible"), waiting("a"), 0.5)
    leaving = Wait(key("a"), "cq", "Pending", "victims leave", preempting=True)
    assert not reports.puts_off(leaving, waiting("a"), 0.5)
    gated = Wait(key("a"), "cq", "Pending", "gated", blocked_on_gate=True)
    assert not reports.puts_off(gated, waiting("a"), 0.5)
    assert reports.puts_off(says("a", "2 more needed"), waiting("a"), 0.5)


def test_a_reason_for_another_generation_is_not_put_off() -> None:
    reports, changed = exhausted(WaitingReports(), 0.0), waiting("a")
    changed["metadata"]["generation"] = 7
    assert not reports.puts_off(says("a", "2 more needed"), changed, 0.5)


def test_the_last_words_are_written_when_the_second_is_over() -> None:
    reports = exhausted(WaitingReports(), 10.0)
    for message in ("2 more needed", "1 more needed"):
        assert reports.puts_off(says("a", message), waiting("a"), 10.2)
    assert reports.due(10.9) == []
    assert reports.due_at == 11.0
    assert reports.due(11.0) == [says("a", "1 more needed")]
    assert reports.due_at is None


def test_what_has_become_of_a_workload_since_ends_its_report() -> None:
    reports = exhausted(WaitingReports(), 10.0)
    for name in ("admitted", "stopped"):
        assert reports.puts_off(says(name, "2 more needed"), waiting(name), 10.2)
    reports.forget(key("admitted"))
    assert not reports.puts_off(says("stopped", "stopped", names.BY_DEACTIVATION), waiting("stopped"), 10.4)
    assert reports.due(12.0) == []


def test_however_many_are_put_off_all_are_told_within_seconds() -> None:
    reports, many = exhausted(WaitingReports(), 0.0), 1000
    for number in range(many):
        assert reports.puts_off(says(f"w{number}", "2 more needed"), waiting(f"w{number}"), 0.5)
    told, now = list[Wait](), 0.0
    while reports.due_at is not None:
        now = reports.due_at
        found = reports.due(now)
        assert 0 < len(found) <= max(AT_ONCE, many // SHARE)
        told += found
    assert [decision.key.name for decision in told] == [f"w{number}" for number in range(many)]
    assert now <= 30
