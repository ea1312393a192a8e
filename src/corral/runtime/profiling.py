"""Profiling on demand: where the event loop's thread is, looked at many times a second from beside it.

Nothing is measured while nobody asks. The answer has one line for each stack, in the form flame graphs are drawn from."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from types import FrameType

SAMPLES_PER_S = 100


async def profile(seconds: float) -> str:
    """Stacks of the loop's thread for so long: `outermost;…;innermost COUNT`, the most frequent first."""
    sampled: Counter[str] = Counter()
    loop_thread = threading.get_ident()
    await asyncio.get_running_loop().run_in_executor(None, _sample, loop_thread, seconds, sampled)
    return "".join(f"{stack} {count}\n" for stack, count in sorted(sampled.items(), key=lambda one: (-one[1], one[0])))


def _sample(thread: int, seconds: float, sampled: Counter[str]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(1 / SAMPLES_PER_S)
        frame = sys._current_frames().get(thread)
        if frame is not None:
            sampled[_stack(frame)] += 1


def _stack(frame: FrameType | None) -> str:
    names = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "?"))
        names.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))


def tasks() -> str:
    """What the loop's tasks are called and where each of them waits."""
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        stack = task.get_stack(limit=1)
        where = f"{stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else "nowhere"
        lines.append(f"{task.get_name()} {where}\n")
    return "".join(lines)
