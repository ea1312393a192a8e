"""Long runs: what `make soak` goes through, part by part, and how a run with a limit of time shares it among the parts.

A test marked `soak` runs under `make soak`, which sets CORRAL_SOAK. Each part is cut into chunks, which are tests of their own,
so that a machine with more cores has more of them under way. With CORRAL_SOAK_SECONDS no chunk begins after so many seconds;
the chunks of all parts take turns, so that a short run is a bit of everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

import pytest

SOAKING: Final = os.environ.get("CORRAL_SOAK") == "1"
BUDGET_S: Final = float(os.environ.get("CORRAL_SOAK_SECONDS") or "inf")

Tally = Callable[[str, int], None]
"""Notes how much of something a test has gone through; the sums stand at the end of the report."""

TALLIED = "tally"


@dataclass(frozen=True)
class Part:
    count: int
    chunk: int
    """What one test goes through: less than a minute of it."""


PARTS: Final = {
    "kills of a store": Part(1_000, 50),
    "kills of a server": Part(1_000, 10),
    "kills of a node supervisor under load": Part(200, 5),
    "kills of a whole fleet under load": Part(200, 5),
    "seeds of dispatch faults": Part(10_000, 5),
    "seeds of placement faults on a hub": Part(2_000, 20),
    "seeds of placement faults on a fleet": Part(2_000, 10),
    "lives of a fleet with placements": Part(400, 5),
    "lives of a cluster with queues": Part(400, 5),
    "scenarios decided a hundred times": Part(100, 2),
    "requests of noise": Part(1_000_000, 20_000),
}


def only_soaking(part: str, first: int = 0) -> pytest.MarkDecorator:
    """The numbers of a part from `first` on, in chunks; the test is marked, and skipped when this is no long run."""
    marks = [pytest.mark.soak, pytest.mark.skipif(not SOAKING, reason="a long run; set CORRAL_SOAK=1")]
    count, size = PARTS[part].count, PARTS[part].chunk
    chunks = [range(start, min(start + size, first + count)) for start in range(first, first + count, size)]
    params = [pytest.param(chunk, marks=marks) for chunk in chunks]
    return pytest.mark.parametrize("seeds", params, ids=lambda seeds: f"from {seeds.start}")


def in_turns(names: Iterable[str]) -> list[str]:
    """Names of tests, those of each function in their order, the functions taking turns in the order they first appear."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.partition("[")[0], []).append(name)
    return [name for name in chain(*zip_longest(*groups.values())) if name is not None]


def out_of(part: str, done: int) -> str:
    """A line of the report: how much of a part has been gone through, and of how much."""
    wanted = f" of {PARTS[part].count:,}" if SOAKING and part in PARTS else ""
    return f"{done:>9,}{wanted} {part}"
