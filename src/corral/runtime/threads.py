"""Two threads for a process that is not ours: a loop for callers that block, and one for calls that block.

Whoever writes a notebook or a script has no loop, or one that is busy running the notebook itself. `LoopThread` runs coroutines on a
loop of its own, in a daemon thread that starts with the first of them. `CallThread` is the other way round: functions that
block are called one at a time beside the loop of whoever waits for them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_END: Final = object()


class LoopThread:
    """A loop that runs beside everything else in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns or raises. Whoever is interrupted while waiting cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items of an asynchronous generator; who stops early closes it."""

        async def following() -> Any:
            return await anext(items, _END)

        try:
            while (item := self.run(following())) is not _END:
                yield item
        finally:
            self.run(items.aclose())

    def _running(self) -> asyncio.AbstractEventLoop:
        """The loop; a process that was forked has none of its parent's threads."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="corral", daemon=True).start()
            return self._loop


class CallThread:
    """Calls functions that block, one after the other, in a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "corral-calls")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises. Who stops waiting does not stop it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Start nothing more. What runs comes to its end, and nobody waits for it."""
        self._thread.shutdown(wait=False, cancel_futures=True)
