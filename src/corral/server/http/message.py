"""Requests and responses as plain values between a connection and the application.

A handler returns a `Response` (one body), a `Stream` (chunks until the producer ends) or an `Upgrade` (the bytes of the
connection belong to somebody else from then on). Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, unquote

if TYPE_CHECKING:
    from corral.core.admission import UserInfo

Headers = tuple[tuple[str, str], ...]
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
NO_CACHE = "no-cache, private"


_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def _well_formed(raw: str) -> str:
    """A query without the pairs Go's parser drops: those with broken escapes or semicolons."""
    if ";" not in raw and not _BAD_ESCAPE.search(raw):
        return raw
    return "&".join(pair for pair in raw.split("&") if ";" not in pair and not _BAD_ESCAPE.search(pair))


class Query:
    """The query string: first values by name, all values on demand, booleans as Go reads them."""

    __slots__ = ("pairs", "values")

    def __init__(self, raw: str) -> None:
        pairs = parse_qsl(_well_formed(raw), keep_blank_values=True, max_num_fields=1000) if raw else []
        self.pairs: list[tuple[str, str]] = pairs
        self.values: dict[str, str] = dict(reversed(pairs))

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def flag(self, name: str) -> bool:
        """True for any value but the false ones: a bare `?watch` counts as true."""
        value = self.values.get(name)
        return value is not None and value.lower() not in ("false", "0", "f")


class RawStream(Protocol):
    """A connection after an upgrade: bytes in both directions."""

    async def read(self) -> bytes:
        """The next bytes, or b"" when the peer is gone."""
        ...

    async def write(self, data: bytes) -> None: ...


class Request:
    """One request, body included. Header names are lower case; a repeated header keeps its last value in `headers`."""

    __slots__ = ("__dict__", "body", "fields", "handed_on", "headers", "method", "peer", "target")

    def __init__(self, method: str, target: str, peer: UserInfo | None = None) -> None:
        self.method = method
        self.target = target
        self.peer = peer
        self.headers: dict[str, str] = {}
        self.fields: list[tuple[str, str]] = []
        self.body = b""
        self.handed_on = False
        """Whether another process of this server answers it."""

    @cached_property
    def path(self) -> str:
        path = self.target.partition("?")[0]
        return unquote(path) if "%" in path else path

    @cached_property
    def query(self) -> Query:
        return Query(self.target.partition("?")[2])

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def all_headers(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    @property
    def upgrade(self) -> str:
        """The protocol the client asks to switch to, in lower case, or nothing."""
        return self.header("upgrade").lower() if "upgrade" in self.header("connection").lower() else ""


class Response:
    """A complete answer."""

    __slots__ = ("body", "cache", "content_type", "headers", "status")

    def __init__(
        self, status: int, body: bytes = b"", content_type: str = JSON, headers: Headers = (), cache: str = NO_CACHE
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.cache = cache


class Writer(Protocol):
    """Where a stream's chunks go. `write` waits while the client is slow; a client that left cancels the producer."""

    async def write(self, data: bytes) -> None: ...


class Stream:
    """An answer of unknown length, written by `produce`."""

    __slots__ = ("content_type", "headers", "produce", "status")

    def __init__(
        self, produce: Callable[[Writer], Awaitable[None]], content_type: str = JSON, headers: Headers = ()
    ) -> None:
        self.status = 200
        self.produce = produce
        self.content_type = content_type
        self.headers = headers


class Upgrade:
    """101 Switching Protocols; then `run` owns the connection until it returns."""

    __slots__ = ("headers", "run")

    def __init__(self, run: Callable[[RawStream], Awaitable[None]], headers: Headers) -> None:
        self.run = run
        self.headers = headers


Answer = Response | Stream | Upgrade
