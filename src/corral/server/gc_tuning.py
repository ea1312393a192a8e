"""Python's cycle collector in a process that serves an API.

Objects pass through by the thousand and none of them forms a cycle, yet every few thousand of them the collector walks
all that is alive, which costs a tenth of the throughput and pauses of a third of a second. It still looks at what is new,
in portions small enough for nobody to notice, and rarely at the rest.
"""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any

YOUNG, MIDDLE, OLD = 10_000, 200, 10


def calm_collector() -> None:
    """Set the collector aside for what is already loaded and let it look at the rest seldom; for whole processes only."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    gc.enable()


def give_back_memory() -> None:
    """Let the operating system have what many closed connections leave behind, where the C library can be asked to."""
    gc.collect(1)
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """glibc's malloc_trim; other libraries give memory back by themselves or not at all."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
