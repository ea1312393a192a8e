"""SPDY/3.1, as far as Kubernetes clients use it: one connection carries the streams of an exec, attach or port-forward.

Frames and header blocks are pure; `Session` is the server's side of one connection. Settings and priorities are read
and ignored, pings are answered, and data is flow-controlled by window updates for what was consumed.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from corral.server.http.message import RawStream

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FLAG_FIN = 1
VERSION = 3
MAX_FRAME = 1024 * 1024
MAX_STREAMS = 1000
MAX_BUFFERED = 4 * 1024 * 1024

_WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range
if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer
retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status
200|OK version HTTP/1.1 url public set-cookie keep-alive origin"""
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset="
    "iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    """The compression dictionary of the protocol: header names with their lengths, then common values."""
    words = [word.replace("|", " ").encode() for word in _WORDS.split()]
    return b"".join(struct.pack(">I", len(word)) + word for word in words) + _TAIL.encode()


DICTIONARY = _dictionary()


class SpdyError(Exception):
    """The peer broke the protocol; the connection ends."""


class Frame(NamedTuple):
    """A control frame (`kind` > 0) or a data frame (`kind` 0, with its stream)."""

    kind: int
    flags: int
    payload: bytes
    stream: int = 0


def encode_frame(frame: Frame) -> bytes:
    length = struct.pack(">I", len(frame.payload))[1:]
    if frame.kind:
        return struct.pack(">HHB", 0x8000 | VERSION, frame.kind, frame.flags) + length + frame.payload
    return struct.pack(">IB", frame.stream, frame.flags) + length + frame.payload


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames = []
        while len(self._buffer) >= 8:
            first, rest = struct.unpack_from(">II", self._buffer)
            length = rest & 0xFFFFFF
            if length > MAX_FRAME:
                raise SpdyError("frame too large")
            if len(self._buffer) < 8 + length:
                break
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if first & 0x80000000:
                frames.append(Frame(first & 0xFFFF, rest >> 24, payload))
            else:
                frames.append(Frame(0, rest >> 24, payload, first))
        return frames


class HeaderCodec:
    """Header blocks of one connection; compression state runs through all of them."""

    def __init__(self) -> None:
        self._compress = zlib.compressobj(9, zdict=DICTIONARY)
        self._decompress = zlib.decompressobj(zdict=DICTIONARY)

    def encode(self, headers: dict[str, str]) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += [struct.pack(">I", len(text)), text]
        return self._compress.compress(b"".join(parts)) + self._compress.flush(zlib.Z_SYNC_FLUSH)

    def decode(self, data: bytes) -> dict[str, str]:
        try:
            plain = self._decompress.decompress(data, 64 * 1024)
            (count,) = struct.unpack_from(">I", plain)
            offset, headers = 4, {}
            for _ in range(min(count, 256)):
                pair = []
                for _ in range(2):
                    (length,) = struct.unpack_from(">I", plain, offset)
                    pair.append(plain[offset + 4 : offset + 4 + length].decode("latin-1"))
                    offset += 4 + length
                headers[pair[0].lower()] = pair[1].partition("\0")[0]
        except (zlib.error, struct.error) as error:
            raise SpdyError("bad header block") from error
        return headers


class SpdyStream:
    """One stream of a session, opened by the client."""

    def __init__(self, session: Session, number: int, headers: dict[str, str]) -> None:
        self.session = session
        self.number = number
        self.headers = headers
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._ended = False
        self._arrived = asyncio.Event()
        self._closed = False

    def feed(self, data: bytes, end: bool) -> None:
        if data:
            self._chunks.append(data)
            self._buffered += len(data)
            self.session.count_unread(len(data))
        self._ended = self._ended or end
        self._arrived.set()

    async def read(self) -> bytes:
        """The next bytes, or b"" when the peer has closed its half."""
        while not self._chunks:
            if self._ended:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = b"".join(self._chunks)
        self.discard()
        await self.session.send(Frame(WINDOW_UPDATE, 0, struct.pack(">II", self.number, len(data))))
        return data

    def discard(self) -> None:
        """Let go of what has not been read."""
        self._chunks.clear()
        self.session.count_unread(-self._buffered)
        self._buffered = 0

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), 32 * 1024):
            await self.session.send(Frame(0, 0, data[start : start + 32 * 1024], self.number))

    async def close(self) -> None:
        """Close this side; what the peer still sends can be read."""
        if not self._closed:
            self._closed = True
            await self.session.send(Frame(0, FLAG_FIN, b"", self.number))


class Session:
    """The server's side of a connection: replies to opened streams and hands them out."""

    def __init__(self, raw: RawStream, opened: Callable[[SpdyStream], Awaitable[None]]) -> None:
        self._raw = raw
        self._opened = opened
        self._codec = HeaderCodec()
        self.streams: dict[int, SpdyStream] = {}
        self._unread = 0
        self._room = asyncio.Event()
        self._room.set()

    def count_unread(self, size: int) -> None:
        """All streams together keep a bounded amount. Some clients know no windows, so then the connection is not read."""
        self._unread += size
        if self._unread > MAX_BUFFERED:
            self._room.clear()
        else:
            self._room.set()

    async def send(self, frame: Frame) -> None:
        await self._raw.write(encode_frame(frame))

    async def run(self) -> None:
        """Serve until the client leaves or breaks the protocol."""
        reader = FrameReader()
        try:
            while data := await self._raw.read():
                for frame in reader.feed(data):
                    await self._room.wait()
                    await self._handle(frame)
        except SpdyError:
            await self.send(Frame(GOAWAY, 0, struct.pack(">II", max(self.streams, default=0), 1)))
        finally:
            for stream in self.streams.values():
                stream.feed(b"", True)

    async def _handle(self, frame: Frame) -> None:
        if frame.kind == 0:
            stream = self.streams.get(frame.stream)
            if stream is not None:
                stream.feed(frame.payload, bool(frame.flags & FLAG_FIN))
        elif frame.kind == SYN_STREAM:
            await self._open(frame)
        elif frame.kind == PING:
            await self.send(frame)
        elif frame.kind in (RST_STREAM, HEADERS):
            if len(frame.payload) < 4:
                raise SpdyError("short frame")
            number = struct.unpack_from(">I", frame.payload)[0] & 0x7FFFFFFF
            if frame.kind == HEADERS:
                self._codec.decode(frame.payload[4:])
            elif number in self.streams:
                self.streams[number].feed(b"", True)

    async def _open(self, frame: Frame) -> None:
        if len(frame.payload) < 10 or len(self.streams) >= MAX_STREAMS:
            raise SpdyError("cannot open stream")
        number = struct.unpack_from(">I", frame.payload)[0] & 0x7FFFFFFF
        stream = SpdyStream(self, number, self._codec.decode(frame.payload[10:]))
        self.streams[number] = stream
        await self.send(Frame(SYN_REPLY, 0, struct.pack(">I", number) + self._codec.encode({})))
        if frame.flags & FLAG_FIN:
            stream.feed(b"", True)
        await self._opened(stream)

    def forget(self, stream: SpdyStream) -> None:
        stream.discard()
        self.streams.pop(stream.number, None)
