"""SPDY frames and header blocks."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.server.http.spdy import DICTIONARY, Frame, FrameReader, HeaderCodec, SpdyError, encode_frame


def test_dictionary_is_the_protocols() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_headers_survive_a_round_trip() -> None:
    writer, reader = HeaderCodec(), HeaderCodec()
    for headers in ({"streamtype": "stdin"}, {"streamtype": "data", "port": "8080"}, {}):
        assert reader.decode(writer.encode(headers)) == headers


def test_bad_header_blocks_are_refused() -> None:
    with pytest.raises(SpdyError):
        HeaderCodec().decode(b"not zlib")


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 7))
def test_frames_survive_any_cutting(payloads: list[bytes], step: int) -> None:
    frames = [Frame(0, 0, payload, 3) for payload in payloads] + [Frame(6, 0, struct.pack(">I", 1))]
    data = b"".join(encode_frame(frame) for frame in frames)
    reader = FrameReader()
    found = [frame for start in range(0, len(data), step) for frame in reader.feed(data[start : start + step])]
    assert found == frames
