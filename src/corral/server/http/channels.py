"""The channels of exec, attach and port-forward on an upgraded connection, alike for WebSocket and SPDY.

A WebSocket message starts with a channel byte: 0 stdin, 1 stdout, 2 stderr, 3 error, 4 resize; version 5 adds 255 to
close a channel. SPDY has one stream per channel, named by its `streamtype` header. Port-forward over WebSocket pairs a
data and an error channel per port; over SPDY it opens a pair of streams per connection; and kubectl tunnels that SPDY
inside a WebSocket.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from corral.core.errors import ApiError, BadRequest, Forbidden
from corral.core.streams import ExecSession, PortStream
from corral.runtime.tasks import until_one_ends
from corral.server.http.message import Headers, Query, RawStream, Request
from corral.server.http.spdy import Session, SpdyStream

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
EXEC = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
PORT_FORWARD = ("v4.channel.k8s.io", "v5.channel.k8s.io")
TUNNEL = "SPDY/3.1+portforward.k8s.io"
SPDY_EXEC = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
SPDY_PORT_FORWARD = ("portforward.k8s.io",)
STREAMS_TIMEOUT_S = 30.0
MAX_UNREAD = 256 * 1024
_COST = 64  # of keeping a message at all, however small it is

Connect = Callable[[int], Awaitable[PortStream]]


@dataclass(frozen=True, slots=True)
class Link:
    """How the connection will be used: its transport, the protocol agreed on, and the headers of the 101 answer."""

    transport: str  # websocket, spdy or tunnel
    protocol: str
    headers: Headers


def negotiate(request: Request, offered: tuple[str, ...]) -> Link:
    """Agree on a transport and protocol; BadRequest when the client wants no upgrade."""
    upgrade = request.upgrade
    if upgrade == "websocket":
        return _negotiate_websocket(request, offered)
    if upgrade == "spdy/3.1":
        known = SPDY_PORT_FORWARD if offered is PORT_FORWARD else SPDY_EXEC
        wanted = [
            name.strip() for value in request.all_headers("x-stream-protocol-version") for name in value.split(",")
        ]
        protocol = next((name for name in wanted if name in known), "")
        if wanted and not protocol:
            raise Forbidden(f"unable to upgrade: unable to negotiate protocol: client supports {wanted}")
        headers: Headers = (("Upgrade", "SPDY/3.1"),)
        return Link("spdy", protocol, (*headers, ("X-Stream-Protocol-Version", protocol)) if protocol else headers)
    raise BadRequest("Upgrade request required")


def _negotiate_websocket(request: Request, offered: tuple[str, ...]) -> Link:
    from corral.server.http.websocket import handshake_headers

    wanted = [name.strip() for name in request.header("sec-websocket-protocol").split(",") if name.strip()]
    key = request.header("sec-websocket-key")
    if not key:
        raise BadRequest("missing Sec-WebSocket-Key")
    if offered is PORT_FORWARD and TUNNEL in wanted:
        return Link("tunnel", TUNNEL, handshake_headers(key, TUNNEL))
    protocol = next((name for name in wanted if name in offered), "")
    if wanted and not protocol and not any(name.startswith("base64url.bearer") for name in wanted):
        raise Forbidden(f"unable to upgrade: unable to negotiate protocol: client supports {wanted}")
    return Link("websocket", protocol, handshake_headers(key, protocol))


def wanted_streams(query: Query) -> frozenset[int]:
    """The channels a client asks for; a terminal has no separate stderr."""
    wanted = {
        channel for channel, name in ((STDIN, "stdin"), (STDOUT, "stdout"), (STDERR, "stderr")) if query.flag(name)
    }
    if query.flag("tty"):
        wanted.discard(STDERR)
        wanted.add(RESIZE)
    if not wanted - {RESIZE}:
        wanted.add(STDOUT)
    return frozenset(wanted)


def exit_status(code: int) -> bytes:
    """The Status that ends a session."""
    if code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    cause = {"reason": "ExitCode", "message": str(code)}
    status = {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [cause]},
    }
    return json.dumps(status).encode()


async def run_session(raw: RawStream, link: Link, session: ExecSession, wanted: frozenset[int]) -> None:
    """Carry an exec or attach session until the process ends or the client leaves."""
    ends: _Ends = _SpdyEnds(raw, wanted) if link.transport == "spdy" else _WebSocketEnds(raw, link.protocol)
    try:
        await until_one_ends(ends.serve(), _converse(ends, session, wanted))
    finally:
        await session.kill()


async def _converse(ends: _Ends, session: ExecSession, wanted: frozenset[int]) -> None:
    await ends.ready()
    pumps = []
    if STDIN in wanted:
        pumps.append(asyncio.ensure_future(_pump_input(ends, session)))
    if RESIZE in wanted:
        pumps.append(asyncio.ensure_future(_pump_sizes(ends, session)))
    try:
        async for channel, data in session.read():
            if channel in wanted or (STDOUT in wanted and channel == STDERR and RESIZE in wanted):
                await ends.write(channel if channel in wanted else STDOUT, data)
        await ends.finish(exit_status(await session.wait()))
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump_input(ends: _Ends, session: ExecSession) -> None:
    while data := await ends.read(STDIN):
        await session.write(data)
    await session.close_stdin()


async def _pump_sizes(ends: _Ends, session: ExecSession) -> None:
    while data := await ends.read(RESIZE):
        for line in data.splitlines():
            try:
                size = json.loads(line)
                await session.resize(int(size["Width"]), int(size["Height"]))
            except (ValueError, KeyError, TypeError):
                continue


class _Queue:
    """Bytes of one channel on their way in, with an end."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = False
        self._size = 0
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, data: bytes) -> None:
        """Waits while much is unread: then the connection is not read, and its client has to wait, too."""
        await self._room.wait()
        self._queue.put_nowait(data)
        self._count(_COST + len(data))

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_UNREAD:
            self._room.clear()
        else:
            self._room.set()

    async def get(self) -> bytes:
        if self._ended and self._queue.empty():
            return b""
        data = await self._queue.get()
        self._count(-_COST - len(data))
        self._ended = self._ended or not data
        return data


class _Ends(Protocol):
    """The client's ends of a session's channels."""

    async def serve(self) -> None:
        """Read from the connection until it ends."""
        ...

    async def ready(self) -> None:
        """Wait until the client has opened its channels."""
        ...

    async def read(self, channel: int) -> bytes:
        """The next bytes of a channel, b"" at its end."""
        ...

    async def write(self, channel: int, data: bytes) -> None: ...

    async def finish(self, status: bytes) -> None:
        """Send the final status and close."""
        ...


class _WebSocketEnds:
    def __init__(self, raw: RawStream, protocol: str) -> None:
        from corral.server.http.websocket import WebSocket

        self._socket = WebSocket(raw)
        self._queues = {STDIN: _Queue(), RESIZE: _Queue()}
        self._protocol = protocol

    async def serve(self) -> None:
        while (message := await self._socket.read()) is not None:
            if not message:
                continue
            if message[0] == CLOSE and len(message) > 1:
                await self._end(message[1])
            elif message[0] in self._queues and len(message) > 1:
                await self._queues[message[0]].put(message[1:])

    async def ready(self) -> None:
        """A WebSocket has all its channels from the start."""

    async def _end(self, channel: int) -> None:
        if channel in self._queues:
            await self._queues[channel].put(b"")

    async def read(self, channel: int) -> bytes:
        return await self._queues[channel].get()

    async def write(self, channel: int, data: bytes) -> None:
        await self._socket.write(bytes((channel,)) + data)

    async def finish(self, status: bytes) -> None:
        await self._socket.write(bytes((ERROR,)) + status)
        await self._socket.close()


_STREAM_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


class _SpdyEnds:
    def __init__(self, raw: RawStream, wanted: frozenset[int]) -> None:
        self._session = Session(raw, self._opened)
        self._expected = {*wanted, ERROR}
        self._streams: dict[int, SpdyStream] = {}
        self._complete = asyncio.Event()

    async def serve(self) -> None:
        await self._session.run()

    async def _opened(self, stream: SpdyStream) -> None:
        channel = _STREAM_TYPES.get(stream.headers.get("streamtype", ""))
        if channel is not None:
            self._streams[channel] = stream
        if self._expected <= set(self._streams):
            self._complete.set()

    async def ready(self) -> None:
        await asyncio.wait_for(self._complete.wait(), STREAMS_TIMEOUT_S)

    async def read(self, channel: int) -> bytes:
        return await self._streams[channel].read()

    async def write(self, channel: int, data: bytes) -> None:
        await self._streams[channel].write(data)

    async def finish(self, status: bytes) -> None:
        for channel in (STDOUT, STDERR):
            if channel in self._streams:
                await self._streams[channel].close()
        await self._streams[ERROR].write(status)
        await self._streams[ERROR].close()
        # The client closes the connection when it has read everything.
        await asyncio.sleep(STREAMS_TIMEOUT_S)


# port-forward


async def run_port_forward(raw: RawStream, link: Link, ports: list[int], connect: Connect) -> None:
    """Carry forwarded connections until the client leaves."""
    if link.transport == "websocket":
        await _WebSocketForward(raw, ports, connect).run()
    elif link.transport == "tunnel":
        await _SpdyForward(_Tunnel(raw), connect).run()
    else:
        await _SpdyForward(raw, connect).run()


class _Tunnel:
    """A byte stream inside the binary messages of a WebSocket."""

    def __init__(self, raw: RawStream) -> None:
        from corral.server.http.websocket import WebSocket

        self._socket = WebSocket(raw)

    async def read(self) -> bytes:
        while (message := await self._socket.read()) == b"":
            pass
        return message or b""

    async def write(self, data: bytes) -> None:
        await self._socket.write(data)


async def _copy_in(read: Callable[[], Awaitable[bytes]], port: PortStream) -> None:
    while data := await read():
        await port.write(data)


async def _copy_out(port: PortStream, write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await port.read():
        await write(data)


class _SpdyForward:
    """Each forwarded connection is a pair of streams with the same request id: one for data, one for errors."""

    def __init__(self, raw: RawStream, connect: Connect) -> None:
        self._session = Session(raw, self._opened)
        self._connect = connect
        self._errors: dict[str, SpdyStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            await self._session.run()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _opened(self, stream: SpdyStream) -> None:
        request = stream.headers.get("requestid") or str(stream.number)
        if stream.headers.get("streamtype") == "error":
            self._errors[request] = stream
            return
        task = asyncio.ensure_future(self._carry(stream, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, stream: SpdyStream, request: str) -> None:
        error = self._errors.pop(request, None)
        try:
            port = await self._connect(int(stream.headers.get("port", "0")))
        except (ApiError, OSError, ValueError) as problem:
            if error is not None:
                await error.write(str(problem).encode())
                await error.close()
            await stream.close()
            return
        incoming = asyncio.ensure_future(_copy_in(stream.read, port))
        try:
            await _copy_out(port, stream.write)
        except OSError as problem:
            if error is not None:
                await error.write(str(problem).encode())
        finally:
            incoming.cancel()
            await port.close()
            await stream.close()
            if error is not None:
                await error.close()
                self._session.forget(error)
            self._session.forget(stream)


class _WebSocketForward:
    """Channels 2n and 2n+1 are data and errors of the n-th port; both begin by naming the port."""

    def __init__(self, raw: RawStream, ports: list[int], connect: Connect) -> None:
        from corral.server.http.websocket import WebSocket

        self._socket = WebSocket(raw)
        self._ports = ports
        self._connect = connect
        self._queues = [_Queue() for _ in ports]

    async def run(self) -> None:
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                await self._socket.write(bytes((channel,)) + struct.pack("<H", port))
        await until_one_ends(self._serve(), self._carry_all())

    async def _serve(self) -> None:
        while (message := await self._socket.read()) is not None:
            if len(message) > 1 and message[0] != CLOSE and message[0] // 2 < len(self._queues) and message[0] % 2 == 0:
                await self._queues[message[0] // 2].put(message[1:])
            elif len(message) > 1 and message[0] == CLOSE and message[1] // 2 < len(self._queues):
                await self._queues[message[1] // 2].put(b"")

    async def _carry_all(self) -> None:
        await asyncio.gather(*(self._carry(index, port) for index, port in enumerate(self._ports)))
        await self._socket.close()

    async def _carry(self, index: int, number: int) -> None:
        try:
            port = await self._connect(number)
        except (ApiError, OSError) as problem:
            await self._socket.write(bytes((2 * index + 1,)) + str(problem).encode())
            return
        incoming = asyncio.ensure_future(_copy_in(self._queues[index].get, port))
        try:
            await _copy_out(port, lambda data: self._socket.write(bytes((2 * index,)) + data))
        finally:
            incoming.cancel()
            await port.close()
