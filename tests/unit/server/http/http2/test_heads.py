"""Header fields as requests: what RFC 9113 allows, and nothing else."""

from __future__ import annotations

import pytest

from corral.server.http.http2.heads import Malformed, answer_block, length_of, request_of
from corral.server.http.http2.hpack import Decoder

GET = [(":method", "GET"), (":scheme", "https"), (":path", "/api?a=b"), (":authority", "here:1")]


def test_a_request_looks_like_one_of_http_1() -> None:
    request = request_of([*GET, ("accept", "a"), ("x", "1"), ("x", "2")], None)
    assert (request.method, request.path, request.query.get("a")) == ("GET", "/api", "b")
    assert request.headers == {"accept": "a", "x": "2", "host": "here:1"}
    assert request.all_headers("x") == ["1", "2"]
    assert request.all_headers("host") == ["here:1"]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        GET[1:],
        [GET[0], *GET[2:]],
        GET[:2],
        [*GET, GET[0]],
        [*GET, ("accept", "a"), (":path", "/b")],
        [*GET, (":protocol", "websocket")],
        [*GET, (":status", "200")],
        [*GET[:2], (":path", "")],
        [*GET[:2], (":path", "api")],
        [*GET[:2], (":path", "/a b")],
        [("a", "b"), *GET],
        [(":method", "CONNECT"), (":authority", "x")],
        [(":method", "G T"), *GET[1:]],
        [*GET, ("connection", "upgrade")],
        [*GET, ("upgrade", "websocket")],
        [*GET, ("transfer-encoding", "chunked")],
        [*GET, ("te", "gzip")],
        [*GET, ("host", "elsewhere")],
    ],
)
def test_other_fields_are_malformed(fields: list[tuple[str, str]]) -> None:
    with pytest.raises(Malformed):
        request_of(fields, None)


@pytest.mark.parametrize("lengths", [["1", "2"], ["-1"], ["+1"], [""], ["1" * 16], ["٣"]])
def test_a_length_is_one_number(lengths: list[str]) -> None:
    with pytest.raises(Malformed):
        length_of(request_of([*GET, *(("content-length", length) for length in lengths)], None))


def test_an_answer_has_the_headers_of_http_1_in_lower_case() -> None:
    block = answer_block(404, "id", "today", "text/plain", "none", 5, (("Warning", "w"), ("Connection", "close")))
    assert Decoder(1 << 16).decode(block) == [
        (":status", "404"),
        ("audit-id", "id"),
        ("cache-control", "none"),
        ("content-type", "text/plain"),
        ("date", "today"),
        ("content-length", "5"),
        ("warning", "w"),
    ]
