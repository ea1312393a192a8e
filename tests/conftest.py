"""What a run has gone through besides tests: seeds, kills, mutants, summed up at the end of the report. Long runs have their order and limit.
Tests of real processes and sockets have a second try, and the report names those that took it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.soaking import BUDGET_S, PARTS, SOAKING, TALLIED, Tally, in_turns, out_of

# No test measures time: how long an example takes says how busy the machine is.
settings.register_profile("corral", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("corral")

TESTS = Path(__file__).parent
BEGAN = time.monotonic()
TOO_LATE = f"the {BUDGET_S:g} s of CORRAL_SOAK_SECONDS are over"

REAL = {"clients", "e2e", "kubernetes", "security", "web"}
"""Where time, processes and sockets are the machine's. What fails in any other room would fail again."""
WAITING = {"e2e", "kubernetes"}
"""Whose files take longest, and mostly wait."""

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Travels with the report of the test, so that processes of a parallel run are summed up."""
    return lambda what, count: record_property(TALLIED, (what, count))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The parts of a long run take turns. In others so do files that wait and files that compute, and what is at the mercy of the machine has
    a second try."""
    if SOAKING:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in in_turns(by_name)]
        return
    items[:] = _in_turns(items)
    for item in items:
        if _room(item) in REAL:
            item.add_marker(pytest.mark.flaky(reruns=1))


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


def _in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """Files of the rooms that wait longest come early, one beside each that computes, so that no process is left alone with them at the end."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [file for file in files.values() if _room(file[0]) in WAITING]
    computing = sorted((file for file in files.values() if _room(file[0]) not in WAITING), key=len, reverse=True)
    return [item for pair in zip_longest(waiting, computing, fillvalue=[]) for file in pair for item in file]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("soak") and time.monotonic() - BEGAN > BUDGET_S:
        pytest.skip(TOO_LATE)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    sums: Counter[str] = Counter(dict.fromkeys(PARTS, 0) if SOAKING else {})
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == TALLIED:
                sums[value[0]] += value[1]
    if sums:
        terminalreporter.section("gone through")
    for what, count in sorted(sums.items()):
        terminalreporter.write_line(out_of(what, count))
    again = terminalreporter.stats.get("rerun", ())
    if again:
        terminalreporter.section("failed at first, and tried again: each hides a race in the test or in Corral")
    for report in again:
        terminalreporter.write_line(f"{report.nodeid}\n{str(report.longrepr)[-1500:]}")
    late = sum(TOO_LATE in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    if late:
        terminalreporter.write_line(f"{late:>9,} chunks were not begun: {TOO_LATE}")
