"""One connection of HTTP/1.1: an asyncio protocol over httptools that feeds requests to the application, one at a time.

Written by hand because the API needs what ASGI servers do not give together: client certificates, upgrades to SPDY,
answers without a task when they are ready at once, and a single write per answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import cast

import httptools

from corral.core.admission import UserInfo
from corral.server.http.message import Request, Response, Stream, Upgrade
from corral.server.http.shared import (
    BODY_TIMEOUT_S,
    HEAD_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    LINGER_S,
    MAX_BODY,
    MAX_HEAD,
    MAX_PATH,
    MAX_UNASKED_BODY,
    STRANGER_BUFFER,
    STREAM_BUFFER,
    Shared,
    names_one_host,
    peer_user,
    time_to_take,
)

MAX_PIPELINED = 16
RAW_LIMIT = 256 * 1024
WRITE_PIECE = 64 * 1024

_READS = ("GET", "HEAD")
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class _Nobody:
    """Where a stream goes that nobody reads: its producer finds that the client has left, and cleans up."""

    async def write(self, data: bytes) -> None:
        raise ConnectionResetError("nobody reads this")


async def _unread(answer: Stream) -> None:
    with suppress(ConnectionResetError):
        await answer.produce(_Nobody())


class Connection(asyncio.Protocol):
    """Parses, queues, answers. At most one request is being answered; up to MAX_PIPELINED more may wait."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.loop = asyncio.get_running_loop()
        self.parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport
        self.peer: UserInfo | None = None
        self.task: asyncio.Task[None] | None = None
        self.waiting: deque[tuple[Request | Response, bool]] = deque()
        self.active_since = self.loop.time()
        self.busy = False
        self.long_running = False
        self.reading = False
        self.piece_since = 0.0
        """Since when the client has been given the present piece of a large answer; 0 when there is none."""
        self.answer_until = 0.0
        self.upgraded = False
        self.raw: _Raw | None = None
        self.refused = False
        self.renewed = False
        self._can_write: asyncio.Future[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._paused_reading = False
        self._noted = 0
        self._reset()

    def _reset(self) -> None:
        self.target = b""
        self.head_size = 0
        self.head_done = False
        self.arrived = 0
        self.fields: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.body_size = 0
        self.begun = 0.0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self.peer = self._peer()
        self.transport.set_write_buffer_limits(high=STREAM_BUFFER if self.peer is not None else STRANGER_BUFFER)
        if not self.shared.connected(self):
            self._refuse(429, "Too many connections, please try again later.")

    def _peer(self) -> UserInfo | None:
        """Who is at the other end, if the connection itself says so."""
        return peer_user(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.disconnected(self)
        self.waiting.clear()
        self.parser = None  # it and this connection hold each other, and with it everything that was read
        if self._lingering is not None:
            self._lingering.cancel()  # it holds the transport, with all the room that TLS has taken
        self._reset()
        self._wake_writer()
        if self.raw is not None:
            self.raw.feed(b"")
        elif self.task is not None and (self.long_running or self.reading):
            self.task.cancel()  # a write is carried out

    def data_received(self, data: bytes) -> None:
        if self.upgraded:
            self._feed_raw(data)
            return
        if self.refused:
            self.shared.came(self, len(data))
            self._note_held()
            return
        self.active_since = self.loop.time()
        if not self.begun:
            self.begun = self.active_since
        self.arrived += len(data)
        try:
            assert self.parser is not None
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            self.upgraded = True
            self._feed_raw(data[error.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400, "malformed HTTP request")
        if not self.head_done and self.arrived > 2 * MAX_HEAD:  # the parser keeps a header until it has all of it
            self._refuse(431, "request header fields too large")
        if self.refused:
            self.parser = None  # what it has of a header is nobody's any more
        self.shared.came(self, len(data))  # only now it is known who that was
        self._note_held()

    def _note_held(self) -> None:
        kept = 0 if self.refused else self.arrived
        if self.waiting:
            kept += sum(len(ready.target) + len(ready.body) for ready, _ in self.waiting if isinstance(ready, Request))
        if self._can_write is not None and self in self.shared.strangers:
            kept += STREAM_BUFFER
        if kept != self._noted:
            self._noted = kept
            if not self.shared.hold(self, kept) and not self.refused:
                self._refuse_more("bytes in requests")

    def _refuse_more(self, what: str) -> None:
        self.waiting.clear()
        self._end_with(self.shared.too_many(what))
        self._note_held()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._can_write is None:
            self._can_write = self.loop.create_future()
            self._note_held()
            self.shared.paused(self)

    def resume_writing(self) -> None:
        self.shared.resumed(self)
        self._wake_writer()
        self._note_held()
        self._next()

    def _wake_writer(self) -> None:
        if self._can_write is not None:
            if not self._can_write.done():
                self._can_write.set_result(None)
            self._can_write = None

    def _feed_raw(self, data: bytes) -> None:
        if self.raw is None:
            self.raw = _Raw(self)
        if data:
            self.raw.feed(data)

    # httptools callbacks

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        if not self.refused:
            self.target += url
        if len(self.target) > MAX_PATH and len(self.target.partition(b"?")[0]) > MAX_PATH:
            self._refuse(414, f"the path of the request is longer than {MAX_PATH} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)
        if self.head_done:
            return  # a trailer: it comes after what a proxy has checked, and nothing here asks for one
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.fields.append((key, text))
        self.headers[key] = text

    def _count_head(self, size: int) -> None:
        self.head_size += size
        if self.head_size > MAX_HEAD:
            self._refuse(431, "request header fields too large")

    def on_headers_complete(self) -> None:
        self.head_done = True
        if not names_one_host(self.fields):
            self._refuse(400, "the request must name one host, as name or name:port")
        length = self.headers.get("content-length", "")
        if length.isdigit() and (len(length) > 15 or int(length) > MAX_BODY):
            self._refuse(413, f"Request entity too large: limit is {MAX_BODY}")
        if not self.refused and (length or "transfer-encoding" in self.headers):
            self._become_known(self._request())  # what follows is his, and not a stranger's, who may have little
        if not self.refused and self.headers.get("expect", "").lower() == "100-continue" and self._allow_body():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _become_known(self, request: Request) -> bool:
        """Note who asks, where that is not known; False when he may not stay."""
        refusal = self.shared.known(self, request) if self in self.shared.strangers else None
        if refusal is not None:
            self._end_with(refusal)
        return refusal is None

    def on_body(self, body: bytes) -> None:
        """Keep a little of anybody's body, and more of it only for those who may do what they ask for."""
        if self.refused:
            return
        before = self.body_size
        self.body_size += len(body)
        if self.body_size > MAX_BODY:
            self._refuse(413, f"Request entity too large: limit is {MAX_BODY}")
        elif before <= MAX_UNASKED_BODY < self.body_size:
            self._allow_body()
        if not self.refused:
            self.body.append(body)

    def _allow_body(self) -> bool:
        """Whether more of a body may come; from then on it counts as its user's."""
        request = self._request()
        refusal = self.shared.app.refuse_body(request) or self.shared.known(self, request)
        if refusal is not None:
            self._end_with(refusal)
        return refusal is None

    def _request(self) -> Request:
        """The request as far as it is there."""
        assert self.parser is not None
        request = Request(self.parser.get_method().decode("latin-1"), self.target.decode("latin-1"), self.peer)
        request.headers, request.fields = self.headers, self.fields
        return request

    def on_message_complete(self) -> None:
        if self.refused:
            return
        assert self.parser is not None
        # What comes after a wish to switch protocols is nobody's request, whether or not the wish is granted.
        keep_alive = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        ready = self._request()
        ready.body = b"".join(self.body)
        self._reset()
        if self.busy or self._can_write is not None:
            self._queue(ready, keep_alive)
        else:
            self._begin(ready, keep_alive)

    def _refuse(self, code: int, message: str) -> None:
        """Answer what cannot be parsed any further and end the connection after the requests before it."""
        if not self.refused:
            self._end_with(self.shared.app.refuse(code, message))

    def _end_with(self, answer: Response) -> None:
        self.refused = True
        self.target = b""
        self.body.clear()
        self.fields.clear()
        if self.busy:
            self._queue(answer, False)
        else:
            self._begin(answer, False)

    def _queue(self, ready: Request | Response, keep_alive: bool) -> None:
        self.waiting.append((ready, keep_alive))
        if len(self.waiting) >= MAX_PIPELINED and not self._paused_reading:
            self._paused_reading = True
            self.transport.pause_reading()

    # answering

    def _begin(self, ready: Request | Response, keep_alive: bool) -> None:
        if isinstance(ready, Request) and not self._become_known(ready):
            return
        answer = ready if isinstance(ready, Response) else self.shared.app.answer_now(ready)
        if answer is not None:
            self._send(answer, keep_alive, "" if isinstance(ready, Response) else ready.method)
            return
        assert isinstance(ready, Request)
        self.busy, self.reading = True, ready.method in _READS
        self.task = self.loop.create_task(self._answer(ready, keep_alive))

    async def _answer(self, request: Request, keep_alive: bool) -> None:
        """Answer one request, then those that queued up behind it."""
        try:
            answer = await self.shared.app.answer(request)
            if isinstance(answer, Response):
                await self._send_long(answer, keep_alive, request.method)
            elif isinstance(answer, Stream):
                await self._stream(answer, keep_alive, request.method)
            else:
                await self._upgrade(answer)
                keep_alive = False
        except (ConnectionError, TimeoutError):
            self.transport.abort()  # what was written and not taken goes with it
        except asyncio.CancelledError:
            self.transport.close()
            raise
        finally:
            self.busy = False
            self.long_running = False
            self.task = None
            self.active_since = self.loop.time()
        if keep_alive and not self.transport.is_closing():
            self._next()

    def _next(self) -> None:
        """Begin what waits, unless the answers before it are not being read."""
        while self.waiting and not self.busy and self._can_write is None and not self.transport.is_closing():
            self._begin(*self.waiting.popleft())
        if self._paused_reading and len(self.waiting) < MAX_PIPELINED:
            self._paused_reading = False
            self.transport.resume_reading()

    def _head(self, status: int, content_type: str, headers: tuple[tuple[str, str], ...], cache: str) -> bytes:
        shared = self.shared
        lines = [f"Audit-Id: {shared.next_audit_id()}\r\n"]
        if cache:
            lines.append(f"Cache-Control: {cache}\r\n")
        if content_type:
            lines.append(f"Content-Type: {content_type}\r\n")
        lines.append(f"Date: {shared.date}\r\n")
        lines.extend(f"{name}: {value}\r\n" for name, value in headers)
        line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status  # what is proxied may have any
        return line + "".join(lines).encode("latin-1", "replace")

    async def _send_long(self, answer: Response, keep_alive: bool, method: str) -> None:
        """Send an answer; a large one as the client takes it, others having their turn between two pieces."""
        size = len(answer.body)
        if size <= STREAM_BUFFER or method == "HEAD" or self.transport.is_closing():
            self._send(answer, keep_alive, method)
        elif self.shared.may_send(self, size):
            self.answer_until = self.loop.time() + time_to_take(size)
            try:
                await self._send_pieces(answer, keep_alive and not self._ends())
            finally:
                self.piece_since = 0.0
                self.shared.sent(self, size)
        else:
            self._send(self.shared.too_many("bytes in answers"), keep_alive, method)

    async def _send_pieces(self, answer: Response, keep_alive: bool) -> None:
        self.transport.write(self._opening(answer, keep_alive))
        body, start = memoryview(answer.body), 0
        while len(body) - start > WRITE_PIECE:
            self.piece_since = self.loop.time()
            self.transport.write(body[start : start + WRITE_PIECE])
            start += WRITE_PIECE
            await asyncio.sleep(0)
            await self.drained()
            if self.transport.is_closing():
                raise ConnectionResetError("client left")
        self._finish(bytes(body[start:]), keep_alive)

    def _opening(self, answer: Response, keep_alive: bool) -> bytes:
        head = self._head(answer.status, answer.content_type, answer.headers, answer.cache)
        end = b"\r\n" if keep_alive else b"Connection: close\r\n\r\n"
        return b"%bContent-Length: %d\r\n%b" % (head, len(answer.body), end)

    def _send(self, answer: Response, keep_alive: bool, method: str) -> None:
        if self.transport.is_closing():
            return
        keep_alive = keep_alive and not self._ends()
        body = b"" if method == "HEAD" else answer.body
        self._finish(self._opening(answer, keep_alive) + body, keep_alive)

    def _finish(self, data: bytes, keep_alive: bool) -> None:
        """The last bytes of an answer."""
        self.transport.write(data)
        if self.refused:  # more of it is on its way: closing at once would take the answer back
            self._lingering = self.loop.call_later(LINGER_S, self.transport.close)
        elif not keep_alive:
            self.transport.close()

    async def _stream(self, answer: Stream, keep_alive: bool, method: str) -> None:
        if self.transport.is_closing():
            await _unread(answer)
            return
        self.long_running = True
        head = self._head(answer.status, answer.content_type, answer.headers, "no-cache, private")
        end = b"\r\n" if keep_alive else b"Connection: close\r\n\r\n"
        self.transport.write(head + b"Transfer-Encoding: chunked\r\n" + end)
        if method == "HEAD":  # whose answer has no body, not even an empty one
            await _unread(answer)
        else:
            await answer.produce(self)
            self.transport.write(b"0\r\n\r\n")
        if not keep_alive:
            self.transport.close()

    async def write(self, data: bytes) -> None:
        """One chunk of the stream being answered."""
        if self.transport.is_closing():
            raise ConnectionResetError("client left")
        if len(data) > WRITE_PIECE:
            await self._write_in_pieces(data)
        elif data:
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self.drained()

    async def _write_in_pieces(self, data: bytes) -> None:
        """A large chunk, as the client takes it: of what is shared by many watchers no client makes us keep a whole copy."""
        self.transport.write(b"%x\r\n" % len(data))
        for start in range(0, len(data), WRITE_PIECE):
            self.transport.write(data[start : start + WRITE_PIECE])
            await self.drained()
            if self.transport.is_closing():
                raise ConnectionResetError("client left")
        self.transport.write(b"\r\n")

    async def drained(self) -> None:
        """Wait until the peer has taken enough of what was written."""
        if self._can_write is not None:
            await asyncio.shield(self._can_write)

    async def _upgrade(self, answer: Upgrade) -> None:
        if self.raw is None:
            self.raw = _Raw(self)
        lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        self.transport.write(_STATUS_LINES[101] + b"Connection: Upgrade\r\n" + lines.encode("latin-1") + b"\r\n")
        try:
            await answer.run(self.raw)
        finally:
            self.transport.close()

    def sweep(self, now: float) -> None:
        if self.is_overdue(now):
            self._end()

    def _end(self) -> None:
        """Close; what the client does not read is not waited for."""
        if self._can_write is not None:
            self.transport.abort()
        else:
            self.transport.close()

    def _ends(self) -> bool:
        return self.shared.closing or (self.renewed and not self.waiting)

    def renew(self) -> None:
        self.renewed = True

    def drain(self) -> None:
        if self.long_running and self.task is not None:
            self.task.cancel()
        elif not self.busy:
            self.transport.close()

    def unfinished(self) -> asyncio.Future[None] | None:
        return self.task

    def is_overdue(self, now: float) -> bool:
        """True when the client has been silent for too long and nothing is being done for it, or does not take what it asked for."""
        if self.piece_since:
            return now - self.piece_since > IDLE_TIMEOUT_S or now > self.answer_until
        if self.busy:
            return False
        if self.begun:  # all of it, however it trickles in
            return now - self.begun > (BODY_TIMEOUT_S if self.head_done else HEAD_TIMEOUT_S)
        return now - self.active_since > IDLE_TIMEOUT_S


class _Raw:
    """The bytes of an upgraded connection, with back-pressure both ways."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.chunks: deque[bytes] = deque()
        self.size = 0
        self.ended = False
        self.arrived = asyncio.Event()

    def feed(self, data: bytes) -> None:
        if data:
            self.chunks.append(data)
            self.size += len(data)
            if self.size > RAW_LIMIT:
                self.connection.transport.pause_reading()
        else:
            self.ended = True
        self.arrived.set()

    async def read(self) -> bytes:
        while not self.chunks:
            if self.ended:
                return b""
            self.arrived.clear()
            await self.arrived.wait()
        data = b"".join(self.chunks)
        self.chunks.clear()
        if self.size > RAW_LIMIT:
            self.connection.transport.resume_reading()
        self.size = 0
        return data

    async def write(self, data: bytes) -> None:
        if self.connection.transport.is_closing():
            raise ConnectionResetError("client left")
        self.connection.transport.write(data)
        await self.connection.drained()
