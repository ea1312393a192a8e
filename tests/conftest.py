"""What a run has gone through besides tests: seeds, kills, mutants, summed up at the end of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.soaking import TALLIED, Tally

# No test measures time: how long an example takes says how busy the machine is.
settings.register_profile("corral", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("corral")

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Travels with the report of the test, so that processes of a parallel run are summed up."""
    return lambda what, count: record_property(TALLIED, (what, count))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    sums: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == TALLIED:
                sums[value[0]] += value[1]
    if sums:
        terminalreporter.section("gone through")
    for what, count in sorted(sums.items()):
        terminalreporter.write_line(f"{count:>8,} {what}")
