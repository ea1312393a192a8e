"""Counting what is done between two turns of the event loop."""

from __future__ import annotations

import asyncio


class TurnCounter:
    """Within, `count` notes something done; `most` is how much was done between two turns of the loop at most."""

    def __init__(self) -> None:
        self.total = self.most = self._now = 0
        self._handle: asyncio.Handle | None = None

    def __enter__(self) -> TurnCounter:
        self._turn()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._handle is not None
        self._handle.cancel()
        self.most = max(self.most, self._now)

    def count(self, amount: int = 1) -> None:
        self.total += amount
        self._now += amount

    def _turn(self) -> None:
        self.most, self._now = max(self.most, self._now), 0
        self._handle = asyncio.get_running_loop().call_soon(self._turn)
