"""Frames: round trips, however the bytes are cut, and what no frame looks like."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.server.http.http2 import frames
from corral.server.http.http2.frames import Code, ConnectionFault, Frame, FrameReader, Setting

_frames = st.builds(
    Frame, st.integers(0, 255), st.integers(0, 255), st.integers(0, (1 << 31) - 1), st.binary(max_size=500)
)


@given(st.lists(_frames, max_size=8), st.lists(st.integers(0, 4000), max_size=10))
def test_frames_survive_a_round_trip_however_their_bytes_arrive(sent: list[Frame], cuts: list[int]) -> None:
    data = frames.PREFACE + b"".join(frames.write(*frame) for frame in sent)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = FrameReader()
    got = [frame for start, end in itertools.pairwise(edges) for frame in reader.feed(data[start:end])]
    assert got == sent


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/1.1", b"\0" * 30])
def test_another_protocol_is_told_at_once(data: bytes) -> None:
    with pytest.raises(ConnectionFault):
        list(FrameReader().feed(data))


def test_a_frame_too_large_is_refused_before_it_is_there() -> None:
    with pytest.raises(ConnectionFault) as caught:
        list(FrameReader().feed(frames.PREFACE + frames.head(frames.DATA, 0, 1, frames.FRAME_SIZE + 1)))
    assert caught.value.code == Code.FRAME_SIZE_ERROR


@pytest.mark.parametrize(
    ("kind", "flags", "payload", "wanted"),
    [
        (frames.DATA, 0, b"abc", b"abc"),
        (frames.DATA, frames.PADDED, b"\x02abc\0\0", b"abc"),
        (frames.DATA, frames.PADDED, b"\x00", b""),
        (frames.HEADERS, frames.HAS_PRIORITY, b"12345abc", b"abc"),
        (frames.HEADERS, frames.HAS_PRIORITY | frames.PADDED, b"\x0112345abc\0", b"abc"),
        (frames.DATA, frames.HAS_PRIORITY, b"12345abc", b"12345abc"),
    ],
)
def test_padding_and_priority_are_taken_off(kind: int, flags: int, payload: bytes, wanted: bytes) -> None:
    assert frames.unpadded(Frame(kind, flags, 1, payload)) == wanted


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abc"])
def test_padding_beyond_the_frame_is_refused(payload: bytes) -> None:
    with pytest.raises(ConnectionFault):
        frames.unpadded(Frame(frames.DATA, frames.PADDED, 1, payload))


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (Setting.INITIAL_WINDOW_SIZE, 1 << 31, Code.FLOW_CONTROL_ERROR),
        (Setting.ENABLE_PUSH, 2, Code.PROTOCOL_ERROR),
        (Setting.MAX_FRAME_SIZE, 1, Code.PROTOCOL_ERROR),
        (Setting.MAX_FRAME_SIZE, 1 << 24, Code.PROTOCOL_ERROR),
    ],
)
def test_settings_have_limits(key: Setting, value: int, code: Code) -> None:
    with pytest.raises(ConnectionFault) as caught:
        frames.settings_of(Frame(frames.SETTINGS, 0, 0, struct.pack(">HL", key, value)))
    assert caught.value.code == code


@pytest.mark.parametrize("size", [1, frames.FRAME_SIZE, frames.FRAME_SIZE + 1, 3 * frames.FRAME_SIZE])
def test_a_long_block_is_continued(size: int) -> None:
    block = b"x" * size
    sent = list(FrameReader().feed(frames.PREFACE + frames.headers(3, block, ends=True)))
    assert b"".join(frame.payload for frame in sent) == block
    assert [frame.kind for frame in sent] == [frames.HEADERS] + [frames.CONTINUATION] * (len(sent) - 1)
    assert [bool(frame.flags & frames.END_HEADERS) for frame in sent] == [False] * (len(sent) - 1) + [True]
    assert sent[0].flags & frames.END_STREAM
