"""Sharing the turns of the event loop among those who have much to write.

Encoding and encrypting what watchers are told takes time in proportion to its size. All streams of one server together do
about ALLOWANCE bytes of it between two turns of the loop; the rest waits in line, so that other requests have their turn.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterator

ALLOWANCE = 1024 * 1024
PIECE_COST = 4 * 1024
"""What a piece costs however small it is."""
BEGIN_COST = 32 * 1024
"""What it costs to begin a stream: who asks is known by then, what is there has to be looked through."""
LOOK_COST = 64
"""What looking at one object costs, to see whether it is wanted."""
CALLED = ALLOWANCE // PIECE_COST


class Turns:
    """What has been done since the last turn of the loop, and who waits for the next."""

    def __init__(self) -> None:
        self._spent = 0
        self._tickets = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # a heap by ticket
        self._called = 0  # of those who waited, on their way: nobody new goes before them
        self._armed = False

    async def share(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """These pieces, each made when there is room for it."""
        while True:
            await self._room()
            piece = next(pieces, None)
            if piece is None:
                return
            self._spent += PIECE_COST + len(piece)
            self._arm()
            yield piece

    async def begin(self, objects: int = 0) -> None:
        """Wait until something may be begun that looks through so many objects: many streams at once begin a few in each turn."""
        await self._room()
        self._spent += BEGIN_COST + objects * LOOK_COST
        self._arm()

    async def _room(self) -> None:
        """Wait until something may be done. Who is called and finds no room left keeps the place in line."""
        ticket = self._tickets = self._tickets + 1
        called = False
        while self._spent >= ALLOWANCE or (not called and (self._called or self._waiting)):
            waiter = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (ticket, waiter))
            self._arm()
            try:
                await waiter
            finally:
                self._called -= not waiter.cancelled()
            called = True

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Call no more than can have room: how much each will do is not known before it is done."""
        self._armed, self._spent = False, 0
        for _ in range(min(CALLED, len(self._waiting))):
            _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():  # else its client has left
                waiter.set_result(None)
                self._called += 1
        if self._waiting:
            self._arm()
