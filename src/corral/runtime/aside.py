"""Long computations beside the event loop, in one thread, the owners of the work taking turns.

Python's interpreter lock changes hands every SWITCH_S, so that whoever waits for the loop waits that long at most wherever the
work is Python; what a single call into C takes still counts in full, and callers keep those short. One thread is enough: more
would share the same lock. It starts with the first piece of work, and a cluster that never has any has no thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any, ParamSpec, TypeVar

SWITCH_S = 0.0005
P = ParamSpec("P")
T = TypeVar("T")


class _Work:
    """One piece of work, and who waits for it."""

    def __init__(self, call: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self.call = call
        self.done = done
        self.context: Context = copy_context()

    def settle(self, ran: asyncio.Future[Any]) -> None:
        """Hand the outcome to whoever waits, unless they have left."""
        if ran.cancelled():
            self.done.cancel()
        elif (error := ran.exception()) is not None:
            if not self.done.done():
                self.done.set_exception(error)
        elif not self.done.done():
            self.done.set_result(ran.result())


class Aside:
    """Runs functions beside the loop, one at a time: of each owner the oldest, and after it the next owner's."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[_Work]] = {}
        self._running: _Work | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, owner: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `function` returns or raises. It must not touch what the loop may be changing."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(_Work(lambda: function(*args, **kwargs), done))
        self._next()
        return await done

    def close(self) -> None:
        """Start nothing more. What runs comes to its end, and nobody waits for it."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def _next(self) -> None:
        if self._running is not None:
            return
        work = self._pick()
        if work is None:
            return
        if self._thread is None:
            sys.setswitchinterval(SWITCH_S)
            self._thread = ThreadPoolExecutor(1, "aside")
        self._running = work
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, work.context.run, work.call).add_done_callback(self._ended)

    def _pick(self) -> _Work | None:
        """The next piece of work that somebody still waits for; its owner goes to the end of the line."""
        while self._waiting:
            owner = next(iter(self._waiting))
            line = self._waiting.pop(owner)
            work = line.popleft()
            if line:
                self._waiting[owner] = line
            if not work.done.done():
                return work
        return None

    def _ended(self, ran: asyncio.Future[Any]) -> None:
        work, self._running = self._running, None
        assert work is not None
        work.settle(ran)
        self._next()
