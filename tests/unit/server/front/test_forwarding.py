"""What is handed on to the owner of the store and comes back."""

from __future__ import annotations

import asyncio
import socket

from corral.client.wire import PASSED_ON
from corral.core.admission import UserInfo
from corral.server.front.forwarding import ToOwner
from corral.server.http.message import Request, Stream

PIECE = b"x" * 16_384


class SlowClient:
    """Takes one piece, and no more."""

    def __init__(self) -> None:
        self.taken = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.taken.set()
        await asyncio.Event().wait()


async def test_of_a_stream_that_a_client_does_not_take_little_waits_here() -> None:
    sent = 0
    owners: list[asyncio.Task[None]] = []

    async def serve(end: socket.socket) -> None:
        nonlocal sent
        reader, writer = await asyncio.open_connection(sock=end)
        writer.transport.set_write_buffer_limits(high=0)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 100_000_000:
            writer.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
            await writer.drain()
            sent += len(PIECE)

    def give(end: socket.socket) -> bool:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        owners.append(asyncio.get_running_loop().create_task(serve(end)))
        return True

    to_owner = ToOwner(give)
    answer = await to_owner.answer(Request("GET", "/api/v1/pods?watch=1", UserInfo("u")))
    assert isinstance(answer, Stream)
    client = SlowClient()
    producing = asyncio.ensure_future(answer.produce(client))
    await client.taken.wait()
    for _ in range(5000):
        await asyncio.sleep(0)
    assert PASSED_ON <= sent < 6 * PASSED_ON
    for task in (producing, *owners):
        task.cancel()
    await asyncio.gather(producing, *owners, return_exceptions=True)
    to_owner.close()
