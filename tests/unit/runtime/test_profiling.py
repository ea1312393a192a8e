"""A profile shows where the loop spends its time, and tasks where they wait."""

from __future__ import annotations

import asyncio
import time

from corral.runtime import profiling

ATTEMPTS = 50


async def busy_in_a_function_of_this_name() -> None:
    """Holds the loop up for as long as a profile is taken."""
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        sum(range(1000))


async def test_a_profile_names_what_the_loop_was_busy_with() -> None:
    lines = list[str]()
    for _ in range(ATTEMPTS):
        work = asyncio.ensure_future(busy_in_a_function_of_this_name())
        lines = (await profiling.profile(0.2)).splitlines()
        await work
        if any("busy_in_a_function_of_this_name" in line for line in lines):
            break
    assert any("busy_in_a_function_of_this_name" in line for line in lines)
    assert all(line.rpartition(" ")[2].isdecimal() for line in lines)


async def test_tasks_are_told_with_their_names() -> None:
    task = asyncio.create_task(asyncio.sleep(60), name="a long wait")
    await asyncio.sleep(0)
    assert "a long wait " in profiling.tasks()
    task.cancel()
