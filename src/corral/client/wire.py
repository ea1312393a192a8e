"""HTTP/1.1 to one server: keep-alive connections, each with one request at a time.

A manager makes thousands of small calls to its workers and holds dozens of watches open. This does what such a client needs
and nothing else, at a fraction of the cost of a general one; there are no redirects, proxies, cookies or compression.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Self, cast
from urllib.parse import urlsplit

import httptools

from corral.client import limits

IDLE_S = 60.0  # shorter than servers keep silent connections open
CALLS = (
    16  # at once; a handshake costs both sides more than a dozen calls do, and one server is no faster asked by more
)
BUFFER = 1 << 20
PASSED_ON = 64 * 1024
"""What is read of an answer that is passed on to somebody else before he takes it, beside what waits in his connection: there may be
hundreds of those."""
SWITCHING = 101


Dial = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses at which a host may be called, at least one."""


def passed_on(text: str) -> str:
    """What a request has brought, a character for each byte, as the text that is sent as the same bytes."""
    return text if text.isascii() else text.encode("latin-1").decode(errors="surrogateescape")


class BrokenAnswer(ConnectionError):
    """The server went away in the middle of an answer, or said something that is not HTTP."""


class TooLarge(BrokenAnswer):
    """The answer is larger than the caller takes."""


class Wire:
    """The connections to one server, `https://host[:port][/prefix]`."""

    def __init__(
        self,
        server: str,
        context: ssl.SSLContext | None,
        *,
        server_name: str = "",
        addresses: Dial | None = None,
        connected: Callable[[], socket.socket] | None = None,
    ) -> None:
        """`addresses` says where the host may be called; without it, wherever its name leads. `connected` gives sockets that lead
        to the server already."""
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if context else 80)
        self._netloc = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._context = context
        self._addresses = addresses
        self._connected = connected
        self._server_name = (server_name or self._host) if context else None
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self.calls = asyncio.Semaphore(CALLS)

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        body: bytes = b"",
        *,
        until: float | None = None,
        call: bool = False,
        buffer: int = BUFFER,
    ) -> Exchange:
        """One exchange, to be entered with `async with`; it fails when it is not over at the loop's time `until`. A `call`
        is over as soon as it is answered, so it waits for its turn when there are many. Of an answer that nobody takes, no more
        than `buffer` bytes are read."""
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", f"Host: {self._netloc}"]
        fields = headers.items() if isinstance(headers, Mapping) else headers
        lines += [f"{name}: {value}" for name, value in fields]
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        if any("\n" in line or "\r" in line for line in lines):  # there are servers for which either ends a line
            raise ValueError("line breaks in a request's path or headers")
        message = "\r\n".join(lines).encode(errors="surrogateescape") + b"\r\n\r\n" + body
        return Exchange(self, message, until, call=call, bodyless=method == "HEAD", buffer=buffer)

    @property
    def is_busy(self) -> bool:
        """Whether an exchange is under way."""
        return len(self._all) > len(self._idle)

    def close(self) -> None:
        """Close every connection, also those in use."""
        for connection in self._all:
            connection.transport.abort()
        self._all.clear()
        self._idle.clear()

    def take(self) -> _Connection | None:
        """An idle connection, if there is one."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable(now):
                return connection
            self.drop(connection)
        return None

    async def open(self) -> _Connection:
        """A new connection."""
        async with asyncio.timeout(limits.CONNECT_S):
            if self._connected is not None:
                connection = await self._connect_over(self._connected())
            elif self._addresses is None:
                connection = await self._connect(self._host)
            else:
                connection = await self._connect_to_one(await self._addresses(self._host))
        self._all.add(connection)
        return connection

    async def _connect_to_one(self, addresses: Sequence[str]) -> _Connection:
        for address in addresses[:-1]:
            with suppress(OSError):
                return await self._connect(address)
        return await self._connect(addresses[-1])

    async def _connect_over(self, ready: socket.socket) -> _Connection:
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, sock=ready)
        return connection

    async def _connect(self, host: str) -> _Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, host, self._port, ssl=self._context, server_hostname=self._server_name
        )
        return connection

    def give_back(self, connection: _Connection) -> None:
        if connection in self._all:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)

    def drop(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.transport.abort()


class _Connection(asyncio.Protocol):
    """Parses what arrives and hands it to the exchange that is under way."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.exchange: Exchange | None = None
        self.idle_since = 0.0
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._parser = httptools.HttpResponseParser(self)
        self._switched = False

    def is_usable(self, now: float) -> bool:
        return not self.transport.is_closing() and now - self.idle_since < IDLE_S

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:  # nobody asked
            self.transport.abort()
        elif self._switched:
            exchange.feed(data)
        else:
            exchange.overhead += len(data)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as switch:
                self._switched = True
                exchange.feed(data[switch.args[0] :])
            except httptools.HttpParserError as error:
                exchange.fail(BrokenAnswer(f"the server did not answer in HTTP: {error}"))
            else:
                if exchange.overhead > limits.HEADER_BYTES:
                    exchange.fail(TooLarge(f"the headers of the answer are larger than {limits.HEADER_BYTES} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.can_write.set()
        if self.exchange is not None:
            self.exchange.lost(exc)

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    # httptools callbacks

    def on_message_begin(self) -> None:
        assert self.exchange is not None
        self.exchange.begin()

    def on_status(self, reason: bytes) -> None:
        assert self.exchange is not None
        self.exchange.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self.exchange is not None
        self.exchange.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        assert self.exchange is not None
        self.exchange.start(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        assert self.exchange is not None
        self.exchange.overhead = 0
        self.exchange.feed(body)

    def on_message_complete(self) -> None:
        assert self.exchange is not None
        self.exchange.complete(keep=self._parser.should_keep_alive())


class Exchange:
    """A request and its answer. The connection is kept only if the whole answer has come."""

    def __init__(
        self,
        wire: Wire,
        message: bytes,
        until: float | None,
        *,
        call: bool,
        bodyless: bool = False,
        buffer: int = BUFFER,
    ) -> None:
        self._wire, self._message, self._until, self._call = wire, message, until, call
        self._bodyless = bodyless
        self._buffer = buffer
        self._connection: _Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._answered = self._over = self._keep = False
        self._error: Exception | None = None
        self.overhead = 0
        """Bytes that came since the last of the body."""
        self.reused = False
        """Whether the connection had served before: then the server may have closed it just now."""
        self.status = 0
        self.reason = ""
        self.headers: list[tuple[str, str]] = []
        """The answer's headers, names in lower case."""

    async def __aenter__(self) -> Self:
        if self._call:
            if self._wire.calls.locked():
                async with asyncio.timeout_at(self._until):
                    await self._wire.calls.acquire()
            else:
                await self._wire.calls.acquire()  # at once
        try:
            connection = self._wire.take()
            self.reused = connection is not None
            if connection is None:
                async with asyncio.timeout_at(self._until):
                    connection = await self._wire.open()
            self._connection, connection.exchange = connection, self
            if self._until is not None:
                self._timer = asyncio.get_running_loop().call_at(self._until, self.fail, TimeoutError())
            connection.transport.write(self._message)
            while not self._answered:
                await self._news()
        except BaseException:
            self._end(keep=False)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end(keep=self._over and self._keep and self._size <= self._buffer)

    def _end(self, *, keep: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.exchange = None
            (self._wire.give_back if keep else self._wire.drop)(self._connection)
        if self._call:
            self._wire.calls.release()

    async def read(self, *, at_most: int | None = None) -> bytes:
        """The whole body; TooLarge when there is more of it than `at_most`, or than anybody takes."""
        at_most = limits.ANSWER_BYTES if at_most is None else at_most
        parts, size = [], 0
        async for data in self.chunks():
            parts.append(data)
            size += len(data)
            if size > at_most:
                raise TooLarge(f"the answer is larger than {at_most} bytes")
        return b"".join(parts)

    def header(self, name: str, default: str = "") -> str:
        """The first value of a header of the answer; `name` is in lower case."""
        return next((value for key, value in self.headers if key == name), default)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while data := await self._next():
            yield data

    async def receive(self) -> bytes:
        """After a switch of protocols: the next bytes, or b"" at the end."""
        try:
            return await self._next()
        except OSError:
            return b""

    async def send(self, data: bytes) -> None:
        """After a switch of protocols: bytes to the server."""
        assert self._connection is not None
        if self._connection.transport.is_closing():
            raise ConnectionResetError("the server closed the connection")
        self._connection.transport.write(data)
        await self._connection.can_write.wait()

    async def _next(self) -> bytes:
        """What has come of the body since the last time; empty at its end."""
        while not self._parts and not self._over:
            await self._news()
        return self._taken()

    def _taken(self) -> bytes:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if self._size > self._buffer and self._connection is not None:
            self._connection.transport.resume_reading()
        self._parts, self._size = [], 0
        return data

    async def _news(self) -> None:
        """Wait for more of the answer."""
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the connection tells

    def begin(self) -> None:
        if self._over:
            self._keep = False  # there is more than was asked for
        self.reason, self.headers = "", []

    def start(self, status: int) -> None:
        self.status = status
        self._answered = status >= 200 or status == SWITCHING
        if self._bodyless and self._answered:
            self._over = True  # the parser waits for the body that the headers describe: not kept
        self._wake()

    def feed(self, data: bytes) -> None:
        if data and not self._over:
            paused = self._size > self._buffer
            self._parts.append(data)
            self._size += len(data)
            if self._size > self._buffer and not paused and self._connection is not None:
                self._connection.transport.pause_reading()
            self._wake()

    def complete(self, *, keep: bool) -> None:
        if self.status >= 200:
            self._over, self._keep = True, keep and not self._bodyless
            self._wake()

    def fail(self, error: Exception) -> None:
        self._error = self._error or error
        if self._connection is not None:
            self._connection.transport.abort()
        self._wake()

    def lost(self, error: Exception | None) -> None:
        """The connection is gone, which is how a body of unknown length ends."""
        names = [name for name, _ in self.headers]
        framed = "content-length" in names or "transfer-encoding" in names
        if self._answered and not framed and error is None and self._error is None:
            self._over = True
        elif not self._over and self._error is None:
            why = "the server closed the connection in the middle of an answer or before it"
            self._error = error if isinstance(error, OSError) else BrokenAnswer(why)
        self._wake()
