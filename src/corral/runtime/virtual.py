"""Virtual time: an asyncio loop whose clock jumps to the next timer when nothing is left to run.

A month of fleet life runs in seconds, and the same seed gives the same run: callbacks that become ready together run in
the order they were scheduled, or, with `shuffle`, in a seeded order that differs from run to run of different seeds.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: when the loop would block, virtual time moves on instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("every task waits for something that nothing will bring about")
        if timeout > 0:
            self.loop.jump(timeout)
        return super().select(0)


class DeadlockError(RuntimeError):
    """The loop has tasks but no timer and no callback left to wake one."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, starting at 0."""

    def __init__(self, seed: int = 0, *, shuffle: bool = False) -> None:
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self
        self._now = 0.0
        self._order = random.Random(seed) if shuffle else None

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]  # asyncio's own queue of callbacks
        if self._order is not None and len(ready) > 1:
            handles = list(ready)
            self._order.shuffle(handles)
            ready.clear()
            ready.extend(handles)
        super()._run_once()  # type: ignore[misc]  # not in the stubs


def run_virtual(main: Callable[[], Awaitable[T]], *, seed: int = 0, shuffle: bool = False) -> T:
    """Run `main` to its end on virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed, shuffle=shuffle)) as runner:

        async def body() -> T:
            return await main()

        return runner.run(body())


class Idle(Protocol):
    """Something that knows whether it has anything to do now."""

    @property
    def idle(self) -> bool: ...


async def settle(managers: Sequence[Idle], limit: int = 10_000) -> None:
    """Yield until no controller of any manager has a key that is due, and a few rounds more for events in flight."""
    quiet = 0
    for _ in range(limit):
        await asyncio.sleep(0)
        quiet = quiet + 1 if all(manager.idle for manager in managers) else 0
        if quiet > 20:
            return
    raise TimeoutError("the controllers did not come to rest; one of them keeps waking itself")
