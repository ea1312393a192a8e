"""WebSocket connections after their handshake, and the channel protocols of Kubernetes on top of them.

Framing is the `websockets` package's sans-I/O protocol; this adds the reading and writing.
"""

from __future__ import annotations

from collections import deque

from websockets.frames import Opcode
from websockets.protocol import Protocol, Side, State
from websockets.utils import accept_key

from corral.server.http.message import Headers, RawStream

MAX_MESSAGE = 4 * 1024 * 1024


def handshake_headers(key: str, subprotocol: str) -> Headers:
    """The headers of the 101 answer."""
    headers: Headers = (("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept_key(key)))
    return (*headers, ("Sec-WebSocket-Protocol", subprotocol)) if subprotocol else headers


class WebSocket:
    """Whole messages in both directions."""

    def __init__(self, raw: RawStream) -> None:
        self._raw = raw
        self._protocol = Protocol(Side.SERVER, state=State.OPEN, max_size=MAX_MESSAGE)
        self._messages: deque[bytes] = deque()
        self._partial: list[bytes] = []

    async def read(self) -> bytes | None:
        """The next message, or None when the connection is over."""
        while not self._messages:
            data = await self._raw.read()
            if not data:
                return None
            self._protocol.receive_data(data)
            for frame in self._protocol.events_received():
                self._take(frame)
            await self._flush()
            if self._protocol.state is not State.OPEN and not self._messages:
                return None
        return self._messages.popleft()

    def _take(self, frame: object) -> None:
        opcode = getattr(frame, "opcode", None)
        if opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        self._partial.append(bytes(getattr(frame, "data", b"")))
        if getattr(frame, "fin", True):
            self._messages.append(b"".join(self._partial))
            self._partial.clear()

    async def write(self, data: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)
            await self._flush()

    async def close(self) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            await self._flush()

    async def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            await self._raw.write(data)
