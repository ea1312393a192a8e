"""Handing whole requests from a front process to the owner of the store, and taking them there.

They go over pairs of sockets that the front makes and hands over, as HTTP/1.1 without TLS: what the owner's connections do about
streams, upgrades and slow readers holds for them too. Who was at the other end of the client's connection goes along
in a header, which is believed because nobody but our own fronts has such a socket; a client's header of that name goes nowhere.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec

from corral.client.wire import PASSED_ON, Exchange, Wire, passed_on
from corral.core.admission import ANONYMOUS, UserInfo
from corral.core.errors import ServiceUnavailable
from corral.runtime import link
from corral.runtime.tasks import until_one_ends
from corral.server.http.connection import Connection
from corral.server.http.message import Answer, Headers, RawStream, Request, Response, Stream, Upgrade, Writer

PEER = "corral-peer"
FRONTS = UserInfo("system:fronts", ("system:masters",))
"""Whose the connections of the fronts are until somebody's request comes over them. Nobody is authenticated as it."""

_REPLACED = {PEER, "host", "content-length", "transfer-encoding", "accept-encoding", "expect"}
_OF_A_CONNECTION = {"connection", "keep-alive", "upgrade"}
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "keep-alive", "audit-id"}
_OURS = {*_HOP_BY_HOP, "content-type", "cache-control"}
_ANYTHING = 1 << 62  # the owner is one of our own, and bounds what it answers


class ToOwner:
    """`give` hands one end of a pair of sockets to the owner."""

    def __init__(self, give: Callable[[socket.socket], bool]) -> None:
        self._give = give
        self._wire = Wire("http://owner", None, connected=self._connected)

    def close(self) -> None:
        self._wire.close()

    def _connected(self) -> socket.socket:
        ours, theirs = link.pair()
        if not self._give(theirs):
            ours.close()
            theirs.close()
            raise ConnectionRefusedError("the process that owns the store takes no connections")
        ours.setblocking(False)
        return ours

    async def answer(self, request: Request) -> Answer:
        """The owner's answer, which the owner counts and audits."""
        request.handed_on = True
        method = "GET" if request.method == "HEAD" else request.method  # whoever asks leaves the body out
        opened = AsyncExitStack()
        try:
            asked = self._wire.request(
                method, passed_on(request.target), _fields(request), request.body, buffer=PASSED_ON
            )
            exchange = await opened.enter_async_context(asked)
            headers = tuple(field for field in exchange.headers if field[0] not in _OURS)
            content_type, cache = exchange.header("content-type"), exchange.header("cache-control")
            if exchange.status == 101:
                return Upgrade(_joined(exchange, opened), headers)
            if not exchange.header("content-length"):
                return _streamed(exchange, opened, content_type, headers)
            async with opened:
                body = await exchange.read(at_most=_ANYTHING)
                return Response(exchange.status, body, content_type, headers, cache)
        except (OSError, ValueError) as error:
            raise ServiceUnavailable(f"the API server has to be asked again: {error}") from error


def _streamed(exchange: Exchange, opened: AsyncExitStack, content_type: str, headers: Headers) -> Stream:
    async def produce(writer: Writer) -> None:
        async with opened:
            async for chunk in exchange.chunks():
                await writer.write(chunk)

    answer = Stream(produce, content_type, headers)
    answer.status = exchange.status
    return answer


def _joined(exchange: Exchange, opened: AsyncExitStack) -> Callable[[RawStream], Awaitable[None]]:
    async def out(raw: RawStream) -> None:
        while data := await raw.read():
            await exchange.send(data)

    async def back(raw: RawStream) -> None:
        while data := await exchange.receive():
            await raw.write(data)

    async def run(raw: RawStream) -> None:
        async with opened:
            await until_one_ends(out(raw), back(raw))

    return run


def _fields(request: Request) -> list[tuple[str, str]]:
    replaced = _REPLACED if request.upgrade else _REPLACED | _OF_A_CONNECTION
    fields = [(name, passed_on(value)) for name, value in request.fields if name not in replaced]
    if request.peer is not None:
        fields.append((PEER, base64.b64encode(msgspec.json.encode(request.peer)).decode()))
    return fields


class ForwardedConnection(Connection):
    """The owner's end of a pair: requests of many clients, one after the other."""

    def _peer(self) -> UserInfo | None:
        return FRONTS

    def _request(self) -> Request:
        request = super()._request()
        sent = request.headers.get(PEER)
        request.peer = msgspec.json.decode(base64.b64decode(sent), type=UserInfo) if sent else None
        if sent:
            request.headers = {name: value for name, value in request.headers.items() if name != PEER}
            request.fields = [field for field in request.fields if field[0] != PEER]
        return request

    def _begin(self, ready: Request | Response, keep_alive: bool) -> None:
        if isinstance(ready, Request):  # what it takes counts as his, so he cannot take what others need
            self.shared.serves(self, self.shared.app.caller(ready) or ANONYMOUS)
        super()._begin(ready, keep_alive)
