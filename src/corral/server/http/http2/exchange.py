"""One stream of a connection: a request that comes in, and the answer that goes out as the client takes it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from corral.server.http.http2.flow import DEFAULT_WINDOW
from corral.server.http.message import Request


class Sender(Protocol):
    """The connection, as far as an exchange needs it."""

    def push(self, exchange: Exchange) -> None:
        """Send what is pending, as far as the windows allow."""
        ...

    def keep(self, exchange: Exchange) -> None:
        """Count what the client has not taken, or end the stream when that is too much."""
        ...

    def release(self, exchange: Exchange) -> None:
        """All that was kept has been taken."""
        ...


class Exchange:
    """The state of one stream; also the writer of a streamed answer."""

    __slots__ = (
        "abandoned",
        "answered",
        "begun",
        "body",
        "body_size",
        "closed",
        "ended",
        "expected",
        "left_to_come",
        "long_running",
        "may_send_more",
        "moved",
        "offset",
        "pending",
        "queued",
        "request",
        "requested",
        "sender",
        "stream",
        "taken",
        "task",
        "unsent",
        "until",
        "window",
    )

    def __init__(self, sender: Sender, stream: int, request: Request, window: int, now: float) -> None:
        self.sender = sender
        self.stream = stream
        self.request = request
        self.task: asyncio.Task[None] | None = None
        # what comes
        self.body: list[bytes] = []
        self.body_size = 0
        self.expected: int | None = None
        self.left_to_come = DEFAULT_WINDOW
        self.may_send_more = False
        self.requested = False
        self.begun = now
        # what goes
        self.window = window
        self.pending: deque[bytes] = deque()
        self.offset = 0
        self.unsent = 0
        self.queued = False
        self.answered = False
        self.ended = False
        self.abandoned = False
        self.long_running = False
        self.moved = now
        self.until = 0.0
        """When its answer must have been taken; 0 when there is no such time."""
        self.taken: asyncio.Future[None] | None = None
        self.closed = False

    def held(self) -> int:
        """About how many bytes are kept for it."""
        head = sum(len(value) for _, value in self.request.fields)
        return len(self.request.target) + head + self.body_size + sum(map(len, self.pending))

    def next_piece(self, size: int) -> memoryview:
        """The next bytes to send, at most `size` and never across two writes."""
        first = self.pending[0]
        piece = memoryview(first)[self.offset : self.offset + size]
        self.offset += len(piece)
        if self.offset == len(first):
            self.pending.popleft()
            self.offset = 0
        self.window -= len(piece)
        return piece

    async def write(self, data: bytes) -> None:
        """One part of a streamed answer; returns when the client's window has taken it."""
        if self.closed:
            raise ConnectionResetError("client left")
        if not data:
            return
        self.pending.append(data)
        self.sender.push(self)
        if self.pending:
            self.sender.keep(self)
            while self.pending and not self.closed:
                self.taken = asyncio.get_running_loop().create_future()
                await self.taken
            self.sender.release(self)
        if self.closed:
            raise ConnectionResetError("client left")

    def wake(self) -> None:
        if self.taken is not None and not self.taken.done():
            self.taken.set_result(None)
        self.taken = None
