"""Clients in several processes, so that the server is what is measured: one Python process drives some ten thousand requests a second.

They are forked from the benchmark, so what is measured may be any function of it; each has a loop of its own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import traceback
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import TypeVar

import uvloop

T = TypeVar("T")
_fork = multiprocessing.get_context("fork")


async def in_processes(count: int, work: Callable[[int], Awaitable[T]]) -> list[T]:
    """What `work(number)` returns in each of `count` processes."""
    if count == 1:
        return [await work(0)]
    ends = []
    for number in range(count):
        ours, theirs = _fork.Pipe(duplex=False)
        process = _fork.Process(target=_child, args=(theirs, work, number))
        process.start()
        theirs.close()
        ends.append((process, ours))
    loop = asyncio.get_running_loop()
    found = []
    for process, end in ends:
        outcome = await loop.run_in_executor(None, end.recv)
        process.join()
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        found.append(outcome[0])
    return found


def _child(end: Connection, work: Callable[[int], Awaitable[T]], number: int) -> None:
    asyncio._set_running_loop(None)  # type: ignore[attr-defined]  # the parent's runs there
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            end.send((runner.run(_awaited(work, number)),))
    except BaseException:
        end.send(traceback.format_exc())


async def _awaited(work: Callable[[int], Awaitable[T]], number: int) -> T:
    return await work(number)
