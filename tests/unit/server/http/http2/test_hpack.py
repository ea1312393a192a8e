"""Compressed headers: the examples of RFC 7541, appendix C, round trips, and what an attacker makes of few bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.server.http.http2 import huffman
from corral.server.http.http2.frames import Code, ConnectionFault
from corral.server.http.http2.hpack import TABLE_SIZE, Decoder, HeadersTooLarge, encode

REQUESTS = [
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
]
PLAIN = [
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
]
CODED = [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
]


@pytest.mark.parametrize("blocks", [PLAIN, CODED], ids=["plain", "huffman"])
def test_requests_of_one_connection_build_on_each_other(blocks: list[str]) -> None:
    decoder = Decoder(1 << 16)
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == REQUESTS


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", ("custom-key", "custom-header")),
        ("040c2f73616d706c652f70617468", (":path", "/sample/path")),
        ("100870617373776f726406736563726574", ("password", "secret")),
        ("82", (":method", "GET")),
    ],
)
def test_each_form_of_a_field(block: str, field: tuple[str, str]) -> None:
    assert Decoder(1 << 16).decode(bytes.fromhex(block)) == [field]


@pytest.mark.parametrize(
    "block",
    ["80", "ff", "ffffffffffff7f", "be", "41", "410f77", "0085ffffffffff01", "3fe21f", "8220", "408825a849e95ba97d7e"],
)
def test_what_is_no_block_ends_the_connection(block: str) -> None:
    with pytest.raises(ConnectionFault) as caught:
        Decoder(1 << 16).decode(bytes.fromhex(block))
    assert caught.value.code == Code.COMPRESSION_ERROR


@pytest.mark.parametrize(
    ("name", "value"),
    [("Upper", "x"), ("sp ace", "x"), ("", "x"), ("a", "x\r\nb: c"), ("a", "x\0"), ("a", " x"), ("a", "x\t")],
)
def test_names_and_values_that_no_header_has_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConnectionFault) as caught:
        Decoder(1 << 16).decode(encode([(name, value)]))
    assert caught.value.code == Code.PROTOCOL_ERROR


def test_few_bytes_that_mean_many_are_not_decoded_to_their_end() -> None:
    decoder = Decoder(1 << 16)
    value = b"x" * 4000
    decoder.decode(b"\x40\x01a\x7f\xa1\x1e" + value)
    with pytest.raises(HeadersTooLarge):
        decoder.decode(b"\xbe" * 100_000)


def test_the_table_forgets_what_has_no_room() -> None:
    decoder = Decoder(1 << 20)
    for number in range(1000):
        decoder.decode(b"\x40" + encode([(f"name-{number}", "v" * 50)])[1:])
    assert sum(len(name) + len(value) + 32 for name, value in decoder._recent) <= TABLE_SIZE
    assert decoder.decode(b"\xbe") == [("name-999", "v" * 50)]
    decoder.decode(b"\x20")
    assert not decoder._recent


_names = st.from_regex(r"[a-z0-9-]{1,30}", fullmatch=True)
_values = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"), max_size=300)


@given(st.lists(st.tuples(_names, _values), max_size=20))
def test_fields_survive_a_round_trip(fields: list[tuple[str, str]]) -> None:
    assert Decoder(1 << 20).decode(encode(fields)) == fields


@given(st.binary(max_size=200))
def test_texts_survive_huffmans_code(text: bytes) -> None:
    assert huffman.decode(huffman.encode(text)) == text


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(block: bytes) -> None:
    try:
        Decoder(1 << 16).decode(block)
    except (ConnectionFault, HeadersTooLarge):
        pass


@given(st.binary(max_size=60))
def test_what_decodes_encodes_to_the_same(data: bytes) -> None:
    try:
        text = huffman.decode(data)
    except ValueError:
        return
    assert huffman.encode(text) == data
