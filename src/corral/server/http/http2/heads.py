"""Header fields of HTTP/2 as requests, and answers as header fields. Nothing here does I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

from corral.core.admission import UserInfo
from corral.server.http.http2.hpack import Field, encode
from corral.server.http.message import Headers, Request

_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"(?:/|\*\Z)[!-~\x80-\xff]*")
_OF_HTTP_1 = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})


class Malformed(Exception):
    """The fields are not those of a request."""


def request_of(fields: list[Field], peer: UserInfo | None) -> Request:
    """The request that fields describe; Malformed when RFC 9113, 8.2 and 8.3 do not allow them."""
    pseudo: dict[str, str] = {}
    count = 0
    for name, value in fields:
        if name[0] != ":":
            break
        pseudo[name] = value
        count += 1
    regular = fields[count:]
    if len(pseudo) != count or any(name[0] == ":" for name, _ in regular):
        raise Malformed("pseudo-headers come first, and once")
    request = Request(pseudo.pop(":method", ""), pseudo.pop(":path", ""), peer)
    authority = pseudo.pop(":authority", "")
    if pseudo.pop(":scheme", "") not in ("https", "http") or pseudo:
        raise Malformed("a pseudo-header is missing, or is none of a request")
    if _METHOD.fullmatch(request.method) is None or _TARGET.fullmatch(request.target) is None:
        raise Malformed("the request has no method or no path")
    request.headers = dict(regular)
    if not _OF_HTTP_1.isdisjoint(request.headers) or request.headers.get("te", "trailers") != "trailers":
        raise Malformed("a header of HTTP/1.1 has no meaning here")
    if authority and "host" not in request.headers:
        regular.append(("host", authority))
        request.headers["host"] = authority
    elif authority and request.headers["host"] != authority:
        raise Malformed("the request names two hosts")
    request.fields = regular
    return request


def length_of(request: Request) -> int | None:
    """The announced length of the body, if one is."""
    lengths = set(request.all_headers("content-length"))
    if not lengths:
        return None
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit()) or len(length) > 15:
        raise Malformed("the length of the body is not one number")
    return int(length)


def answer_block(
    status: int, audit_id: str, date: str, content_type: str, cache: str, length: int | None, headers: Headers
) -> bytes:
    """The head of an answer; without a length for a stream."""
    fields: list[Field] = [(":status", str(status)), ("audit-id", audit_id)]
    if cache:
        fields.append(("cache-control", cache))
    if content_type:
        fields.append(("content-type", content_type))
    fields.append(("date", date))
    if length is not None:
        fields.append(("content-length", str(length)))
    return encode(fields if not headers else [*fields, *_lowered(headers)])


def _lowered(headers: Headers) -> Iterable[Field]:
    """Other headers, such as a proxied answer's, without those that belong to a connection of HTTP/1.1."""
    for name, value in headers:
        lower = name.lower()
        if lower not in _OF_HTTP_1:
            yield lower, value
