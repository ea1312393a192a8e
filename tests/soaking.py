"""Long runs. A test marked `soak` runs under `make soak`, which sets CORRAL_SOAK; some of them run briefly in `make test` too."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

SOAKING = os.environ.get("CORRAL_SOAK") == "1"

Tally = Callable[[str, int], None]
"""Notes how much of something a test has gone through; the sums stand at the end of the report."""

TALLIED = "tally"


def only_soaking(first: int, last: int, chunk: int) -> pytest.MarkDecorator:
    """The seeds of a long run, in chunks that spread over processes; the test is marked and skipped otherwise."""
    marks = [pytest.mark.soak, pytest.mark.skipif(not SOAKING, reason="a long run; set CORRAL_SOAK=1")]
    chunks = [pytest.param(range(start, start + chunk), marks=marks) for start in range(first, last, chunk)]
    return pytest.mark.parametrize("seeds", chunks, ids=lambda seeds: f"from {seeds.start}")
