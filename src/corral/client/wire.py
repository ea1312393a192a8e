"""HTTP/1.1 to one server over asyncio streams: keep-alive connections, each with one request at a time.

A manager makes thousands of small calls to its workers and holds dozens of watches open. This does what such a client needs
and nothing else, at a fraction of the cost of a general one; there are no redirects, proxies, cookies or compression.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self
from urllib.parse import urlsplit

CONNECT_TIMEOUT_S = 10.0
IDLE_S = 60.0  # shorter than servers keep silent connections open
CALLS = (
    16  # at once; a handshake costs both sides more than a dozen calls do, and one server is no faster asked by more
)
BUFFER = 1 << 20
SWITCHING = 101


_MALFORMED = (EOFError, asyncio.LimitOverrunError, ValueError)


class BrokenAnswer(ConnectionError):
    """The server went away in the middle of an answer, or said something that is not HTTP."""


class _Connection:
    __slots__ = ("idle_since", "reader", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.idle_since = 0.0

    def is_usable(self, now: float) -> bool:
        stale = self.writer.is_closing() or self.reader.at_eof()
        return not stale and now - self.idle_since < IDLE_S


class Wire:
    """The connections to one server, `https://host[:port][/prefix]`."""

    def __init__(self, server: str, context: ssl.SSLContext | None, *, server_name: str = "") -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if context else 80)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._context = context
        self._server_name = (server_name or self._host) if context else None
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self.calls = asyncio.Semaphore(CALLS)

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        until: float | None = None,
        call: bool = False,
    ) -> Exchange:
        """One exchange, to be entered with `async with`; it fails when it is not over at the loop's time `until`. A `call`
        is over as soon as it is answered, so it waits for its turn when there are many."""
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", f"Host: {self._netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\r\n") != len(lines) - 1:
            raise ValueError("line breaks in a request's path or headers")
        return Exchange(self, head.encode() + b"\r\n\r\n" + body, until, call=call)

    def close(self) -> None:
        """Close every connection, also those in use."""
        for connection in self._all:
            connection.writer.transport.abort()
        self._all.clear()
        self._idle.clear()

    async def take(self) -> _Connection:
        """An idle connection, or a new one."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable(now):
                return connection
            self.drop(connection)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._context, server_hostname=self._server_name, limit=BUFFER
            )
        connection = _Connection(reader, writer)
        self._all.add(connection)
        return connection

    def give_back(self, connection: _Connection) -> None:
        if connection in self._all:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)

    def drop(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.writer.transport.abort()


class Exchange:
    """A request and its answer. The connection is kept only if the answer was read to its end."""

    def __init__(self, wire: Wire, message: bytes, until: float | None, *, call: bool) -> None:
        self._wire, self._message, self._until, self._call = wire, message, until, call
        self._connection: _Connection | None = None
        self._keep = self._chunked = self._finished = False
        self._length: int | None = None
        self._head: Sequence[str] = ()
        self.status = 0
        self.reason = ""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The answer's headers, names in lower case."""
        fields = (line.partition(":") for line in self._head)
        return [(name.lower(), value.strip()) for name, _, value in fields]

    async def __aenter__(self) -> Self:
        async with asyncio.timeout_at(self._until):
            if self._call:
                await self._wire.calls.acquire()
            try:
                self._connection = await self._wire.take()
                await self._ask(self._connection)
            except BaseException:
                self._end(keep=False)
                raise
        return self

    async def _ask(self, connection: _Connection) -> None:
        try:
            connection.writer.write(self._message)
            await connection.writer.drain()
            await self._read_head(connection.reader)
        except _MALFORMED as error:
            raise BrokenAnswer("the server closed the connection or did not answer in HTTP") from error

    async def __aexit__(self, *_: object) -> None:
        self._end(keep=self._finished and self._keep)

    def _end(self, *, keep: bool) -> None:
        if self._connection is not None:
            (self._wire.give_back if keep else self._wire.drop)(self._connection)
        if self._call:
            self._wire.calls.release()

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while True:
            # Around the reading alone: a timeout that is open while we yield would hit whoever reads.
            async with asyncio.timeout_at(self._until):
                chunk = await self._next()
            if not chunk:
                return
            yield chunk

    async def receive(self) -> bytes:
        """After a switch of protocols: the next bytes, or b"" at the end."""
        assert self._connection is not None
        try:
            return await self._connection.reader.read(BUFFER)
        except OSError:
            return b""

    async def send(self, data: bytes) -> None:
        """After a switch of protocols: bytes to the server."""
        assert self._connection is not None
        self._connection.writer.write(data)
        await self._connection.writer.drain()

    async def _next(self) -> bytes:
        """The next part of the body; empty at its end."""
        assert self._connection is not None
        reader = self._connection.reader
        try:
            if self._chunked:
                chunk = await _chunk(reader)
                self._finished = not chunk
                return chunk
            if self._length is None:
                return await reader.read(BUFFER)
            chunk = await reader.readexactly(self._length)
        except _MALFORMED as error:
            raise BrokenAnswer("the server closed the connection in the middle of an answer") from error
        self._length, self._finished = 0, True
        return chunk

    async def _read_head(self, reader: asyncio.StreamReader) -> None:
        while self.status < 200 and self.status != SWITCHING:
            first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
            _, status, *reason = first.split(" ", 2)
            self.status, self.reason = int(status), " ".join(reason)
            fields = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip().lower() for name, _, value in fields}
            self._head = lines
        self._keep = headers.get("connection") != "close"
        self._chunked = headers.get("transfer-encoding") == "chunked"
        if not self._chunked:
            length = "0" if self.status in (204, 304) else headers.get("content-length")
            self._length = int(length) if length is not None else None


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """The next chunk of a chunked body; empty at its end."""
    size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
    if size:
        return (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers say nothing we need
    return b""
