"""Python's cycle collector in a process that serves an API.

Objects pass through by the thousand and none of them forms a cycle, yet every few thousand of them the collector walks
all that is alive, which costs a tenth of the throughput and pauses of a third of a second. It still looks at what is new,
in portions small enough for nobody to notice, and rarely at the rest.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

YOUNG, MIDDLE, OLD = 10_000, 5, 400
"""What is new is looked at after so many objects, what survived that after MIDDLE times as many, everything after OLD times as many
again. Everything is looked at once in the middle whatever MIDDLE is: it is how much at a time, and so how long others wait."""

MMAP_THRESHOLD, LARGE = -3, 128 * 1024
"""glibc's name for the size from which memory is mapped by itself, and goes back as soon as it is free. Left to itself glibc raises it
to the size of whatever was freed, after which large buffers lie between small ones that outlive them."""


def calm_collector() -> None:
    """Set the collector aside for what is already loaded and let it look at the rest seldom; for whole processes only."""
    mallopt = _of_libc("mallopt")
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, LARGE)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    gc.enable()


@contextmanager
def loading() -> Iterator[None]:
    """Keep the collector off while a cluster takes in what it stores, and then for good off what was taken in: none of it is garbage,
    and looking through it again and again is a tenth of a start. For whole processes only."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def give_back_memory() -> None:
    """Let the operating system have what many closed connections leave behind, where the C library can be asked to. They form no
    cycles, so there is nothing to collect first: that would walk all that is new in the cluster while everybody waits."""
    trim = _of_libc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_libc(name: str) -> Any:
    """A function of glibc; other libraries give memory back by themselves or not at all."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
