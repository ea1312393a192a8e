"""Compressed headers (RFC 7541): all of decoding, and as much of encoding as answers need.

Answers are encoded without a dynamic table and without Huffman's code: there is no state to keep, and the few bytes saved
are not worth the time of a server that answers small requests.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from corral.server.http.http2 import huffman
from corral.server.http.http2.frames import Code, ConnectionFault

TABLE_SIZE = 4096
NO_TABLE = b"\x20"
"""What our first block begins with: our encoder has no dynamic table, however small the peer wants it."""
_ENTRY = 32
_LONGEST_NUMBER = 1 << 24

Field = tuple[str, str]

_STATIC_TEXT = """\
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate"""


def _static_field(line: str) -> Field:
    name, _, value = line.partition(" ")
    return name, value


_STATIC: tuple[Field, ...] = tuple(_static_field(line) for line in _STATIC_TEXT.split("\n"))
_NAME = re.compile(r":?[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE = re.compile(r"[\0\r\n]|\A[ \t]|[ \t]\Z")


class HeadersTooLarge(Exception):
    """A block describes more than we keep. The rest of it is not decoded, so no other block can be either."""


class Decoder:
    """Decodes the blocks of one connection, in their order. Names and values are checked when they are first seen."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._recent: deque[Field] = deque()
        self._size = 0
        self._capacity = TABLE_SIZE

    def decode(self, block: bytes) -> list[Field]:
        """The fields of a block; what an attacker makes of few bytes ends at `largest`."""
        fields: list[Field] = []
        room, position, end = self._largest, 0, len(block)
        try:
            while position < end:
                first = block[position]
                if first & 0x80:
                    index, position = (
                        (first & 0x7F, position + 1) if first & 0x7F != 0x7F else _number(block, position, 7)
                    )
                    field = self._field(index)
                elif first & 0xE0 == 0x20:
                    position = self._resize(block, position, bool(fields))
                    continue
                else:
                    field, position = self._literal(block, position, first)
                fields.append(field)
                room -= len(field[0]) + len(field[1]) + _ENTRY
                if room < 0:
                    raise HeadersTooLarge
        except (IndexError, ValueError) as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, "a header block cannot be decoded") from error
        return fields

    def _field(self, index: int) -> Field:
        if index <= len(_STATIC):
            if not index:
                raise ValueError("there is no field 0")
            return _STATIC[index - 1]
        return self._recent[index - len(_STATIC) - 1]

    def _resize(self, block: bytes, position: int, late: bool) -> int:
        size, position = _number(block, position, 5)
        if late or size > TABLE_SIZE:
            raise ValueError("the table is resized late, or beyond its limit")
        self._capacity = size
        self._evict()
        return position

    def _literal(self, block: bytes, position: int, first: int) -> tuple[Field, int]:
        kept = bool(first & 0x40)
        index, position = _number(block, position, 6 if kept else 4)
        if index:
            name = self._field(index)[0]
        else:
            name, position = _string(block, position)
            if _NAME.fullmatch(name) is None:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a header has a name that is none")
        value, position = _string(block, position)
        if _BAD_VALUE.search(value) is not None:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a header has a value that must not be sent")
        field = (name, value)
        if kept:
            self._recent.appendleft(field)
            self._size += len(name) + len(value) + _ENTRY
            self._evict()
        return field, position

    def _evict(self) -> None:
        while self._size > self._capacity:
            name, value = self._recent.pop()
            self._size -= len(name) + len(value) + _ENTRY


def _number(block: bytes, position: int, bits: int) -> tuple[int, int]:
    """An integer with a prefix of so many bits, and where it ends."""
    mask = (1 << bits) - 1
    value = block[position] & mask
    position += 1
    if value < mask:
        return value, position
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if value > _LONGEST_NUMBER or shift > 35:
            raise ValueError("a number is too long")
        if byte < 0x80:
            return value, position


def _string(block: bytes, position: int) -> tuple[str, int]:
    coded = block[position] & 0x80
    length, position = _number(block, position, 7)
    end = position + length
    if end > len(block):
        raise ValueError("a string ends after its block")
    data = block[position:end]
    return (huffman.decode(data) if coded else data).decode("latin-1"), end


def _prefixed(value: int, bits: int, pattern: int) -> bytes:
    mask = (1 << bits) - 1
    if value < mask:
        return bytes((pattern | value,))
    made = bytearray((pattern | mask,))
    value -= mask
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


_NAMES = {name: _prefixed(index, 4, 0) for index, (name, _) in reversed(list(enumerate(_STATIC, 1)))}
_WHOLE = {field: _prefixed(index, 7, 0x80) for index, field in enumerate(_STATIC, 1) if field[1]}


def encode(fields: Iterable[Field]) -> bytes:
    """A block that leaves the peer's table as it was."""
    return b"".join([_WHOLE.get(field) or _encode_literal(*field) for field in fields])


def _encode_literal(name: str, value: str) -> bytes:
    start = _NAMES.get(name)
    if start is None:
        start = b"\0" + _text(name)
    return start + _text(value)


def _text(text: str) -> bytes:
    data = text.encode("latin-1", "replace")
    return _prefixed(len(data), 7, 0) + data
