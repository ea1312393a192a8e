"""Frames of HTTP/2 (RFC 9113, chapters 4 and 6) as values: bytes in, frames out, and back. Nothing here does I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_SIZE = 16_384
"""The largest payload we send and take: what every peer must accept, and the default of what it may send."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

_HEAD = struct.Struct(">HBBBL")
_NUMBER = struct.Struct(">L")
_SETTING = struct.Struct(">HL")
_ID = 0x7FFF_FFFF


class Code(IntEnum):
    """Why a stream or a connection ends (RFC 9113, chapter 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB
    HTTP_1_1_REQUIRED = 0xD


class Setting(IntEnum):
    """What the two ends tell each other about themselves."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class ConnectionFault(Exception):
    """The peer broke the protocol in a way the connection does not survive."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class Frame(NamedTuple):
    """One frame as it came."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class FrameReader:
    """Cuts the bytes of a client into frames, after the preface every client begins with."""

    def __init__(self) -> None:
        self._rest = b""
        self._greeted = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes; at most one incomplete frame is kept."""
        data = self._rest + data if self._rest else data
        position = 0
        if not self._greeted:
            if not PREFACE.startswith(data[: len(PREFACE)]):
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the connection does not begin with HTTP/2's preface")
            if len(data) < len(PREFACE):
                self._rest = data
                return
            self._greeted, position = True, len(PREFACE)
        self._rest = b""
        total = len(data)
        while total - position >= 9:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, position)
            length = high << 8 | low
            if length > FRAME_SIZE:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame is larger than {FRAME_SIZE} bytes")
            end = position + 9 + length
            if end > total:
                break
            yield Frame(kind, flags, stream & _ID, data[position + 9 : end])
            position = end
        self._rest = data[position:]


def write(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return head(kind, flags, stream, len(payload)) + payload


def head(kind: int, flags: int, stream: int, length: int) -> bytes:
    """The nine bytes before a payload."""
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    """A header block in as many frames as it takes."""
    flags = END_STREAM if ends else 0
    if len(block) <= FRAME_SIZE:
        return write(HEADERS, flags | END_HEADERS, stream, block)
    parts = [block[start : start + FRAME_SIZE] for start in range(0, len(block), FRAME_SIZE)]
    middle = [write(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    last = write(CONTINUATION, END_HEADERS, stream, parts[-1])
    return b"".join([write(HEADERS, flags, stream, parts[0]), *middle, last])


def settings(values: dict[Setting, int]) -> bytes:
    return write(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


def reset(stream: int, code: Code) -> bytes:
    return write(RST_STREAM, 0, stream, _NUMBER.pack(code))


def window_update(stream: int, increment: int) -> bytes:
    return write(WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def go_away(last: int, code: Code, reason: str = "") -> bytes:
    return write(GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code) + reason.encode())


def unpadded(frame: Frame) -> bytes:
    """What a DATA or HEADERS frame carries, without padding and priority."""
    payload, start, padding = frame.payload, 0, 0
    if frame.flags & PADDED:
        _need(frame, len(payload) >= 1)
        start, padding = 1, payload[0]
    if frame.flags & HAS_PRIORITY and frame.kind == HEADERS:
        start += 5
    if start + padding > len(payload):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "a frame has more padding than room")
    return payload[start : len(payload) - padding]


def settings_of(frame: Frame) -> dict[int, int]:
    """The settings of a frame, checked; of one named twice the last value, and none that HTTP/2 does not define."""
    _need(frame, len(frame.payload) % 6 == 0 and not (frame.flags & ACK and frame.payload))
    values = dict(_SETTING.iter_unpack(frame.payload))
    if values.get(Setting.INITIAL_WINDOW_SIZE, 0) > _ID:
        raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "the initial window is too large")
    if values.get(Setting.ENABLE_PUSH, 0) > 1 or not (
        FRAME_SIZE <= values.get(Setting.MAX_FRAME_SIZE, FRAME_SIZE) < 1 << 24
    ):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "a setting has a value it must not have")
    return values


def number_of(frame: Frame) -> int:
    """The increment of a WINDOW_UPDATE, the code of an RST_STREAM."""
    _need(frame, len(frame.payload) == 4)
    number: int = _NUMBER.unpack(frame.payload)[0]
    return number & _ID if frame.kind == WINDOW_UPDATE else number


def check_length(frame: Frame, length: int) -> None:
    _need(frame, len(frame.payload) == length)


def _need(frame: Frame, fits: bool) -> None:
    if not fits:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame of kind {frame.kind} has a length it cannot have")
