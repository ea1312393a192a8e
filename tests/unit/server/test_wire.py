"""Bytes: SPDY frames and headers, Go's words for bad JSON, request bodies."""

from __future__ import annotations

import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.errors import BadRequest, UnsupportedMediaType
from corral.core.resource import Resource
from corral.server.content import bodies
from corral.server.content.go_json_errors import syntax_error
from corral.server.http.spdy import DICTIONARY, Frame, FrameReader, HeaderCodec, SpdyError, encode_frame

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b"{}}", "invalid character '}' after top-level value"),
        (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        (b"-x", "invalid character 'x' in numeric literal"),
    ],
)
def test_syntax_errors_are_in_gos_words(text: bytes, said: str) -> None:
    assert syntax_error(text) == said


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_well_formed_json_has_no_syntax_error(value: object) -> None:
    assert syntax_error(json.dumps(value).encode()) == ""


@given(st.binary(max_size=40))
def test_syntax_errors_are_found_exactly_when_decoding_fails(data: bytes) -> None:
    try:
        json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: pytest.fail("not JSON"))
        broken = False
    except (ValueError, pytest.fail.Exception):
        broken = True
    assert bool(syntax_error(data.decode("utf-8", "replace").encode())) == broken


def test_objects_get_their_kind_from_the_endpoint() -> None:
    assert bodies.decode_object(b'{"data":{}}', "", CONFIG_MAPS) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {},
    }
    assert bodies.decode_object(b"data: {a: 2026-01-01}", "application/yaml", CONFIG_MAPS)["data"] == {
        "a": "2026-01-01"
    }


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"{", b'{"kind":1}'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the object provided is unrecognized"):
        bodies.decode_object(body, "application/json", CONFIG_MAPS)


def test_unknown_media_types_are_refused() -> None:
    with pytest.raises(UnsupportedMediaType):
        bodies.decode_object(b"{}", "text/plain", CONFIG_MAPS)


def test_duplicate_fields_are_found() -> None:
    body = b'{"data":{"a":"1","a":"2"},"x":[{"y":1,"y":2}]}'
    assert bodies.duplicates(body, json.loads(body)) == ["data.a", "x[0].y"]
    twice = b'{"data":{"a":"1","a":"2"},"metadata":{"labels":{"x":"1"},"labels":{}}}'
    assert bodies.duplicates(twice, json.loads(twice)) == ["data.a", "metadata.labels"]
    clean = b'{"data" : {"a\\"b": "1"}, "more": {"b": 2}}'
    assert bodies.duplicates(clean, json.loads(clean)) == []


@pytest.mark.parametrize(
    "text",
    [b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (98 + i, 98 + i, 97 + i, 97 + i) for i in range(24)),
     b"a: &a [*a]", b"- " * 2000, b"[" * 2000 + b"]" * 2000],
    ids=["billion laughs", "an alias of itself", "nested items", "nested flow"],
)  # fmt: skip
def test_yaml_that_explodes_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"yaml|YAML"):
        bodies.decode_yaml(text)


def test_json_is_read_as_yaml_without_the_yaml_parser() -> None:
    assert bodies.decode_yaml(b'{"a": "2026-01-01", "b": 1.5}') == {"a": "2026-01-01", "b": 1.5}
    assert bodies.decode_yaml(b"{a: 1}") == {"a": 1}
    assert bodies.decode_yaml(b"2: x\ntrue: y") == {"2": "x", "true": "y"}
