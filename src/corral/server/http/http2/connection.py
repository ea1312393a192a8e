"""One connection of HTTP/2: an asyncio protocol that feeds the requests of all its streams to the application.

Written by hand, HPACK included, because of the time it takes: answers of 300 bytes over one connection with many streams, in
one process and without TLS (CPython 3.11), are 47,000 a second; 16,000 with the package `hpack`, 8,000 with `h2`.

What goes out during one arrival of bytes is written at once. Bodies of answers go round the streams, a frame each, as far
as the two windows and the socket take them; a client that does not read is not read from either.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import ClassVar, cast

from corral.core.admission import UserInfo
from corral.server.http.http2 import flow, frames, heads, hpack
from corral.server.http.http2.exchange import Exchange
from corral.server.http.http2.frames import Code, ConnectionFault, Frame, Setting
from corral.server.http.message import Request, Response, Stream
from corral.server.http.shared import (
    BODY_TIMEOUT_S,
    HEAD_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    LINGER_S,
    MAX_BODY,
    MAX_HEAD,
    MAX_PATH,
    STRANGER_BUFFER,
    STREAM_BUFFER,
    Shared,
    names_one_host,
    peer_user,
    time_to_take,
)

log = logging.getLogger(__name__)

MAX_STREAMS = 250
MAX_CONTINUATIONS = 64
CONNECTION_WINDOW = 1 << 20
LARGE_BODY = 32 * 1024
"""From here on a body must be allowed before more of it may come: half of what comes unasked."""
LARGE_BODIES = 8
"""So many large bodies may be on their way at once over one connection; others wait with what they have sent."""
USELESS_BURST = 1000
USELESS_PER_S = 100.0
FLUSH_AT = 64 * 1024

_HELLO = frames.settings(
    {Setting.MAX_CONCURRENT_STREAMS: MAX_STREAMS, Setting.MAX_HEADER_LIST_SIZE: MAX_HEAD}
) + frames.window_update(0, CONNECTION_WINDOW - flow.DEFAULT_WINDOW)
_SETTINGS_ACK = frames.write(frames.SETTINGS, frames.ACK, 0)
_MORE_BODY = MAX_BODY + frames.FRAME_SIZE - flow.DEFAULT_WINDOW
"""A body may grow just beyond the limit, so that it is seen to and answered with 413."""
_CONTINUE = hpack.encode([(":status", "100")])
_READS = ("GET", "HEAD")


class Http2Connection(asyncio.Protocol):
    """Frames in, frames out. `_exchanges` are the open streams by their numbers."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.peer: UserInfo | None = None
        now = self.loop.time()
        self._reader = frames.FrameReader()
        self._decoder = hpack.Decoder(MAX_HEAD)
        self._patience = flow.Patience(USELESS_BURST, USELESS_PER_S, now)
        self._arrivals = flow.Arrivals(CONNECTION_WINDOW)
        self._large = flow.Places(LARGE_BODIES)
        self._exchanges: dict[int, Exchange] = {}
        self._coming: dict[int, Exchange] = {}
        """Streams whose requests have not come to their end, and are not answered yet."""
        self._noted = 0
        self._abandoned = 0
        """Tasks that still run for streams that are closed: they count as streams, whatever the client resets."""
        self._last = 0
        self._greeted = False
        self._block: list[bytes] | None = None
        self._block_of: Frame | None = None
        self._block_since = 0.0
        self._active_since = now
        self._window = self._initial_window = flow.DEFAULT_WINDOW
        self._ready: deque[Exchange] = deque()
        self._out: list[bytes | memoryview] = []
        self._out_size = 0
        self._block_prefix = hpack.NO_TABLE
        self._corked = False
        self._flushing = False
        self._paused = False
        self._over = False
        self._drained: asyncio.Future[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self.peer = peer_user(self.transport)
        self.transport.set_write_buffer_limits(high=STREAM_BUFFER if self.peer is not None else STRANGER_BUFFER)
        self.transport.write(_HELLO)
        if not self.shared.connected(self):
            self._fail(Code.ENHANCE_YOUR_CALM, "too many connections, please try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.disconnected(self)
        self._over = True
        if self._lingering is not None:
            self._lingering.cancel()  # it holds the transport, with all the room that TLS has taken
        for exchange in list(self._exchanges.values()):
            self._leave(exchange)
        self._ready.clear()
        self._out.clear()
        self._settle()

    def data_received(self, data: bytes) -> None:
        if self._over:
            self.shared.came(self, len(data))
            return
        self._corked = True
        try:
            for frame in self._reader.feed(data):
                self._handle(frame)
                if self._over:
                    break
        except ConnectionFault as fault:
            self._fail(fault.code, str(fault))
        finally:
            self._corked = False
            self._pump()
            self._flush()
            self.shared.came(self, len(data))  # only now it is known who that was
            self._note_held()

    def _note_held(self) -> None:
        block = sum(map(len, self._block or ()))
        if self in self.shared.strangers:
            unread = STREAM_BUFFER if self._paused else 0
            self._noted = block + unread + sum(exchange.held() for exchange in self._exchanges.values())
            self.shared.hold(self, self._noted)
            return
        coming = block + sum(exchange.held() for exchange in self._coming.values())
        if coming != self._noted and not self._over:
            self._noted = coming
            if not self.shared.hold(self, coming) and self._coming:
                self._send(max(self._coming.values(), key=Exchange.held), self.shared.too_many("bytes in requests"))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused = True
        self.transport.pause_reading()
        self._note_held()
        self.shared.paused(self)

    def resume_writing(self) -> None:
        self._paused = False
        self.shared.resumed(self)
        if not self.transport.is_closing():
            self.transport.resume_reading()
        self._pump()
        self._flush()

    # frames that come

    def _handle(self, frame: Frame) -> None:
        if self._block is not None and (
            frame.kind != frames.CONTINUATION or self._block_of is None or frame.stream != self._block_of.stream
        ):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "something came between the parts of a header block")
        if not self._greeted:
            if frame.kind != frames.SETTINGS or frame.flags & frames.ACK:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame must be SETTINGS")
            self._greeted = True
        handler = self._HANDLERS.get(frame.kind)
        if handler is not None:  # frames of extensions are ignored
            handler(self, frame)

    def _on_settings(self, frame: Frame) -> None:
        _of_connection(frame)
        values = frames.settings_of(frame)
        if frame.flags & frames.ACK:
            return
        self._spend()
        window = values.get(Setting.INITIAL_WINDOW_SIZE)
        if window is not None:
            change, self._initial_window = window - self._initial_window, window
            for exchange in self._exchanges.values():
                exchange.window = flow.widened(exchange.window, change)
                self._line_up(exchange)
        self._put(_SETTINGS_ACK)

    def _on_ping(self, frame: Frame) -> None:
        _of_connection(frame)
        frames.check_length(frame, 8)
        if not frame.flags & frames.ACK:
            self._spend()
            self._put(frames.write(frames.PING, frames.ACK, 0, frame.payload))

    def _on_go_away(self, frame: Frame) -> None:
        _of_connection(frame)  # the client will close when it has its answers

    def _on_priority(self, frame: Frame) -> None:
        if not frame.stream:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "the connection has no priority")
        frames.check_length(frame, 5)

    def _on_push(self, frame: Frame) -> None:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "a client must not push")

    def _on_window_update(self, frame: Frame) -> None:
        increment = frames.number_of(frame)
        if not increment:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a window was widened by nothing")
        if not frame.stream:
            self._window = flow.widened(self._window, increment)
            return
        exchange = self._open(frame)
        if exchange is not None:
            exchange.window = flow.widened(exchange.window, increment)
            self._line_up(exchange)

    def _on_reset(self, frame: Frame) -> None:
        frames.check_length(frame, 4)
        exchange = self._open(frame)
        if exchange is None:
            return
        if not exchange.answered:
            self._spend()
        self._leave(exchange)

    def _open(self, frame: Frame) -> Exchange | None:
        """The exchange a frame belongs to, None when it has ended; a stream nobody has opened is an error."""
        if not frame.stream or frame.stream > self._last:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a frame belongs to no stream")
        return self._exchanges.get(frame.stream)

    def _on_data(self, frame: Frame) -> None:
        exchange = self._open(frame)
        size = len(frame.payload)
        data = frames.unpadded(frame)
        given = self._arrivals.take(size)
        if given:
            self._put(frames.window_update(0, given))
        if not data and not frame.flags & frames.END_STREAM:
            self._spend()
        if exchange is None:
            return
        if exchange.requested:
            self._reset(exchange, Code.STREAM_CLOSED)
            return
        exchange.left_to_come -= size
        if exchange.left_to_come < 0:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more was sent than there was room for")
        if data and not exchange.answered:
            self._add_to_body(exchange, data)
        if frame.flags & frames.END_STREAM and not exchange.closed:
            self._end_request(exchange)

    # header blocks

    def _on_headers(self, frame: Frame) -> None:
        if not frame.stream % 2:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "streams of clients have odd numbers")
        fragment = frames.unpadded(frame)
        if frame.flags & frames.END_HEADERS:
            self._on_block(frame, fragment)
        else:
            self._block, self._block_of, self._block_since = [fragment], frame, self.loop.time()

    def _on_continuation(self, frame: Frame) -> None:
        if self._block is None or self._block_of is None:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "there is no header block to continue")
        self._block.append(frame.payload)
        if len(self._block) > MAX_CONTINUATIONS or sum(map(len, self._block)) > MAX_HEAD:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "a header block is too large")
        if frame.flags & frames.END_HEADERS:
            begun, block = self._block_of, b"".join(self._block)
            self._block = self._block_of = None
            self._on_block(begun, block)

    def _on_block(self, frame: Frame, block: bytes) -> None:
        ends = bool(frame.flags & frames.END_STREAM)
        try:
            fields = self._decoder.decode(block)
        except hpack.HeadersTooLarge:
            self._refuse_head(frame.stream)
            return
        if frame.stream <= self._last:
            self._on_trailers(frame.stream, ends)
        elif self._drained is None:
            self._last = frame.stream
            self._on_request(frame.stream, fields, ends)
        # otherwise the client knows from our GOAWAY that nobody looks at this stream

    def _refuse_head(self, stream: int) -> None:
        """Answer and end: the decoder has lost its place."""
        if stream > self._last:
            self._last = stream
            now = self.loop.time()
            exchange = self._exchanges[stream] = Exchange(self, stream, Request("", ""), self._initial_window, now)
            self._send(exchange, self.shared.app.refuse(431, "request header fields too large"))
        self._pump()
        self._fail(Code.ENHANCE_YOUR_CALM, "request header fields too large")

    def _on_trailers(self, stream: int, ends: bool) -> None:
        """Fields after a body come after what a proxy has checked, and nothing here asks for them."""
        exchange = self._exchanges.get(stream)
        if exchange is None or exchange.requested:
            self._spend()
            self._put(frames.reset(stream, Code.STREAM_CLOSED))
            if exchange is not None:
                self._leave(exchange)
        elif not ends:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "trailers must end their stream")
        else:
            self._end_request(exchange)

    def _on_request(self, stream: int, fields: list[hpack.Field], ends: bool) -> None:
        self._active_since = now = self.loop.time()
        if len(self._exchanges) + self._abandoned >= MAX_STREAMS:
            self._spend()
            self._put(frames.reset(stream, Code.REFUSED_STREAM))
            return
        try:
            request = heads.request_of(fields, self.peer)
            expected = None if ends else heads.length_of(request)
        except heads.Malformed:
            self._spend()
            self._put(frames.reset(stream, Code.PROTOCOL_ERROR))
            return
        exchange = self._exchanges[stream] = Exchange(self, stream, request, self._initial_window, now)
        exchange.requested = ends
        exchange.expected = expected
        refusal = self._refusal(request, expected)
        if refusal is not None:
            self._send(exchange, refusal)
            return
        refusal = self.shared.known(self, request)
        if refusal is not None:
            self._send(exchange, refusal)
            self._fail(Code.ENHANCE_YOUR_CALM, "too many connections of this user")
            return
        if ends:
            self._begin(exchange)
        else:
            self._expect_body(exchange)

    def _refusal(self, request: Request, length: int | None) -> Response | None:
        refuse = self.shared.app.refuse
        if len(request.target.partition("?")[0]) > MAX_PATH:
            return refuse(414, f"the path of the request is longer than {MAX_PATH} bytes")
        if not names_one_host(request.fields):
            return refuse(400, "the request must name one host, as name or name:port")
        if length is not None and length > MAX_BODY:
            return refuse(413, f"Request entity too large: limit is {MAX_BODY}")
        return None

    # bodies that come

    def _expect_body(self, exchange: Exchange) -> None:
        """A stranger's body, a large one and one that somebody asks about are looked at before they come."""
        self._coming[exchange.stream] = exchange
        asks = exchange.request.headers.get("expect", "").lower() == "100-continue"
        large = exchange.expected is not None and exchange.expected > LARGE_BODY
        if (asks or large or self in self.shared.strangers) and not self._allow_body(exchange):
            return
        if asks:
            self._put(frames.headers(exchange.stream, self._block_prefix + _CONTINUE, ends=False))
            self._block_prefix = b""
        if large:
            self._make_room(exchange)

    def _allow_body(self, exchange: Exchange) -> bool:
        refusal = self.shared.app.refuse_body(exchange.request)
        if refusal is not None:
            self._send(exchange, refusal)
        return refusal is None

    def _make_room(self, exchange: Exchange) -> None:
        exchange.may_send_more = True
        if self._large.ask(exchange.stream):
            self._let_come(exchange)

    def _let_come(self, exchange: Exchange) -> None:
        exchange.left_to_come += _MORE_BODY
        exchange.begun = self.loop.time()
        self._put(frames.window_update(exchange.stream, _MORE_BODY))

    def _add_to_body(self, exchange: Exchange, data: bytes) -> None:
        exchange.body_size += len(data)
        if exchange.body_size > MAX_BODY:
            self._send(exchange, self.shared.app.refuse(413, f"Request entity too large: limit is {MAX_BODY}"))
        elif exchange.expected is not None and exchange.body_size > exchange.expected:
            self._reset(exchange, Code.PROTOCOL_ERROR)
        elif exchange.body_size <= LARGE_BODY or exchange.may_send_more:
            exchange.body.append(data)
        elif self._allow_body(exchange):
            exchange.body.append(data)
            self._make_room(exchange)

    def _end_request(self, exchange: Exchange) -> None:
        exchange.requested = True
        self._coming.pop(exchange.stream, None)
        if exchange.answered:
            self._close_if_done(exchange)
        elif exchange.expected is not None and exchange.expected != exchange.body_size:
            self._reset(exchange, Code.PROTOCOL_ERROR)
        else:
            exchange.request.body = b"".join(exchange.body)
            exchange.body.clear()
            self._give_back_room(exchange)
            self._begin(exchange)

    def _give_back_room(self, exchange: Exchange) -> None:
        if exchange.may_send_more:
            exchange.may_send_more = False
            following = self._exchanges.get(self._large.leave(exchange.stream) or 0)
            if following is not None:
                self._let_come(following)

    # answers

    def _begin(self, exchange: Exchange) -> None:
        answer = self.shared.app.answer_now(exchange.request)
        if answer is not None:
            self._send(exchange, answer)
        else:
            exchange.task = self.loop.create_task(self._answer(exchange))
            # Not `finally`: a task that is cancelled before its first step runs nothing of its own.
            exchange.task.add_done_callback(lambda _: self._answer_ended(exchange))

    async def _answer(self, exchange: Exchange) -> None:
        try:
            answer = await self.shared.app.answer(exchange.request)
            if isinstance(answer, Response):
                self._send(exchange, answer)
            elif isinstance(answer, Stream):
                await self._stream(exchange, answer)
            else:  # only a request with headers of HTTP/1.1 gets here, and those are refused before
                self._reset(exchange, Code.HTTP_1_1_REQUIRED)
        except ConnectionError:
            self._reset(exchange, Code.CANCEL)
        except asyncio.CancelledError:
            if self._drained is None:
                self._reset(exchange, Code.CANCEL)
            raise
        except Exception:  # one stream must not take the others with it
            log.exception("answer failed: %s %s", exchange.request.method, exchange.request.path)
            self._reset(exchange, Code.INTERNAL_ERROR)

    def _answer_ended(self, exchange: Exchange) -> None:
        exchange.task = None
        if exchange.abandoned:
            self._abandoned -= 1
        elif (
            not exchange.closed and not exchange.ended
        ):  # cancelled by a server that stops: the end of the connection is its end
            self._close(exchange)
        self._settle()

    def _head(self, exchange: Exchange, answer: Response | Stream, cache: str, length: int | None, ends: bool) -> None:
        shared = self.shared
        audit_id = shared.next_audit_id()
        block = heads.answer_block(
            answer.status, audit_id, shared.date, answer.content_type, cache, length, answer.headers
        )
        self._put(frames.headers(exchange.stream, self._block_prefix + block, ends=ends))
        self._block_prefix = b""
        exchange.answered = True

    def _send(self, exchange: Exchange, answer: Response) -> None:
        if exchange.closed:
            return
        exchange.body.clear()
        self._coming.pop(exchange.stream, None)
        body = b"" if exchange.request.method == "HEAD" else answer.body
        if body and not self._count(exchange, len(body)):
            answer = self.shared.too_many("bytes in answers")
            body = answer.body
        exchange.until = self.loop.time() + time_to_take(len(body))
        self._head(exchange, answer, answer.cache, len(answer.body), not body)
        exchange.ended = True
        if body:
            exchange.pending.append(body)
            self.push(exchange)
        else:
            self._close_if_done(exchange)

    def _count(self, exchange: Exchange, size: int) -> bool:
        """Count what waits for the client as its user's; False when that is too much."""
        if not self.shared.may_send(self, size):
            return False
        exchange.unsent = size if self.shared.is_known(self) else 0
        return True

    def keep(self, exchange: Exchange) -> None:
        if not self._count(exchange, sum(map(len, exchange.pending))):
            self._reset(exchange, Code.ENHANCE_YOUR_CALM)

    def release(self, exchange: Exchange) -> None:
        if exchange.unsent:
            self.shared.sent(self, exchange.unsent)
            exchange.unsent = 0

    async def _stream(self, exchange: Exchange, answer: Stream) -> None:
        if exchange.closed:  # its producer finds that nobody reads, and cleans up
            await answer.produce(exchange)
            return
        exchange.long_running = True
        without_body = exchange.request.method == "HEAD"
        self._head(exchange, answer, "no-cache, private", None, without_body)
        if without_body:  # its producer finds that nobody reads, and cleans up
            self._close(exchange)
            await answer.produce(exchange)
            return
        await answer.produce(exchange)
        if not exchange.closed:
            exchange.ended = True
            self._put(frames.head(frames.DATA, frames.END_STREAM, exchange.stream, 0))
            self._close_if_done(exchange)

    # what goes out

    def push(self, exchange: Exchange) -> None:
        exchange.moved = self.loop.time()
        self._line_up(exchange)
        if not self._corked:
            self._pump()

    def _line_up(self, exchange: Exchange) -> None:
        if exchange.pending and exchange.window > 0 and not exchange.queued:
            exchange.queued = True
            self._ready.append(exchange)

    def _pump(self) -> None:
        """A frame for each stream in turn, as long as the windows and the socket take them."""
        ready = self._ready
        while ready and self._window > 0 and not self._paused:
            exchange = ready.popleft()
            exchange.queued = False
            if exchange.closed or not exchange.pending or exchange.window <= 0:
                continue
            piece = exchange.next_piece(min(frames.FRAME_SIZE, self._window, exchange.window))
            self._window -= len(piece)
            exchange.moved = self._active_since = self.loop.time()
            last = exchange.ended and not exchange.pending
            self._put(frames.head(frames.DATA, frames.END_STREAM if last else 0, exchange.stream, len(piece)))
            self._put(piece)
            if self._out_size > FLUSH_AT:
                self._flush()
            if last:
                self._close_if_done(exchange)
            elif exchange.pending:
                self._line_up(exchange)
            else:
                exchange.wake()

    def _put(self, data: bytes | memoryview) -> None:
        self._out.append(data)
        self._out_size += len(data)
        if not self._corked and not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_size = 0
            if not self.transport.is_closing():
                self.transport.write(data)

    # ends

    def _spend(self) -> None:
        self._patience.spend(self.loop.time())

    def _reset(self, exchange: Exchange, code: Code) -> None:
        if not exchange.closed:
            self._put(frames.reset(exchange.stream, code))
            self._leave(exchange)

    def _close_if_done(self, exchange: Exchange) -> None:
        """Close a stream whose answer is out; a client that has not said all of its request may stop."""
        if not exchange.ended or exchange.pending:
            return
        if not exchange.requested:
            self._put(frames.reset(exchange.stream, Code.NO_ERROR))
        self._close(exchange)

    def _leave(self, exchange: Exchange) -> None:
        """Close a stream nobody reads, and stop what only reads for it. Writes are carried out, as in HTTP/1.1."""
        task = exchange.task
        self._close(exchange)
        if task is not None and (exchange.long_running or exchange.request.method in _READS):
            task.cancel()

    def _close(self, exchange: Exchange) -> None:
        if exchange.closed:
            return
        exchange.closed = True
        self._exchanges.pop(exchange.stream, None)
        self._coming.pop(exchange.stream, None)
        self.release(exchange)
        exchange.body.clear()
        exchange.pending.clear()
        exchange.wake()
        self._give_back_room(exchange)
        self._active_since = self.loop.time()
        if (
            exchange.task is not None and not exchange.ended
        ):  # answered streams are over for the client before their tasks are
            exchange.abandoned = True
            self._abandoned += 1
        elif exchange.task is None:
            self._settle()

    def _fail(self, code: Code, reason: str) -> None:
        """Say why, and end the connection: a moment later, since closing at once would take the words back."""
        if self._over:
            return
        self._over = True
        log.debug("connection ended: %s", reason)
        self._put(frames.go_away(self._last, code, reason))
        self._flush()
        for exchange in list(self._exchanges.values()):
            self._leave(exchange)
        self._lingering = self.loop.call_later(LINGER_S, self.transport.close)

    def _settle(self) -> None:
        """After a GOAWAY of ours, the last answer ends the connection."""
        if self._drained is None or self._exchanges or self._abandoned or self._drained.done():
            return
        self._flush()
        self._drained.set_result(None)
        if not self.transport.is_closing():
            self.transport.close()

    def renew(self) -> None:
        if self._drained is None:
            self._drained = self.loop.create_future()
            self._put(frames.go_away(self._last, Code.NO_ERROR))
            self._flush()
            self._settle()

    def drain(self) -> None:
        self.renew()
        for exchange in list(self._exchanges.values()):
            if exchange.long_running and exchange.task is not None:
                exchange.task.cancel()
        self._settle()

    def unfinished(self) -> asyncio.Future[None] | None:
        return self._drained if self._exchanges or self._abandoned else None

    def sweep(self, now: float) -> None:
        for exchange in list(self._exchanges.values()):
            trickles = not exchange.requested and now - exchange.begun > BODY_TIMEOUT_S
            stands = exchange.pending and (now - exchange.moved > IDLE_TIMEOUT_S or 0 < exchange.until < now)
            if trickles or stands:
                self._reset(exchange, Code.CANCEL)
        if self._is_overdue(now):
            self.drain()
        self._flush()

    def _is_overdue(self, now: float) -> bool:
        """True when the client does not finish its greeting or a header block, or has asked for nothing for long."""
        if self._block is not None and now - self._block_since > HEAD_TIMEOUT_S:
            return True
        if self._exchanges or self._abandoned:
            return False
        return now - self._active_since > (IDLE_TIMEOUT_S if self._last else HEAD_TIMEOUT_S)

    _HANDLERS: ClassVar[dict[int, Callable[[Http2Connection, Frame], None]]] = {
        frames.DATA: _on_data,
        frames.HEADERS: _on_headers,
        frames.PRIORITY: _on_priority,
        frames.RST_STREAM: _on_reset,
        frames.SETTINGS: _on_settings,
        frames.PUSH_PROMISE: _on_push,
        frames.PING: _on_ping,
        frames.GOAWAY: _on_go_away,
        frames.WINDOW_UPDATE: _on_window_update,
        frames.CONTINUATION: _on_continuation,
    }


def _of_connection(frame: Frame) -> None:
    if frame.stream:
        raise ConnectionFault(Code.PROTOCOL_ERROR, f"a frame of kind {frame.kind} belongs to the whole connection")
