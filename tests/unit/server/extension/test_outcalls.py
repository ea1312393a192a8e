"""Calls to other servers, against one that says exactly what a test wants it to."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.converting import closed_port

from corral.runtime.clock import WallClock
from corral.server.access.certificates import Authority, load_pair
from corral.server.extension import outcalls
from corral.server.extension.egress import Egress
from corral.server.extension.outcalls import Address, Caller, CallFailed

OK = b"HTTP/1.1 200 OK\r\nX-Two: a\r\nX-Two: b\r\nContent-Length: 2\r\n\r\nhi"
TIMES_OUT = b""
HANGS_UP = b"bye"


class Other:
    """Another server: it answers what it is told to, request by request; `asked` is what came."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
                answer = self._answers.pop(0)
                if answer == HANGS_UP:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


HERE = Egress(None, ["127.0.0.1/32"]).addresses


@asynccontextmanager
async def other(*answers: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Caller, Other]]:
    served = Other(answers)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=context)
    served.url = f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    caller = Caller(HERE)
    try:
        yield caller, served
    finally:
        caller.close()
        server.close()


def at(url: str, server_name: str = "") -> Address:
    return Address("https://shown/hook", url, server_name)


async def get(caller: Caller, url: str, suffix: str = "/x", *, method: str = "GET", timeout_s: float = 10.0) -> bytes:
    reply = await caller.call(method, at(url), body=b"", headers={}, suffix=suffix, timeout_s=timeout_s)
    return reply.body


async def test_headers_are_sent_and_received_as_often_as_they_are_given() -> None:
    async with other(OK) as (caller, served):
        fields = [("X-Remote-Group", "a"), ("X-Remote-Group", "b")]
        async with await caller.open("GET", at(served.url), body=b"", headers=fields, suffix="/x?y#z") as answer:
            assert [value for key, value in answer.headers if key == "x-two"] == ["a", "b"]
            assert await answer.read() == b"hi"
    assert served.asked[0].startswith("GET /x?y#z HTTP/1.1\r\n")
    assert served.asked[0].count("X-Remote-Group: ") == 2


async def test_a_header_with_a_line_break_is_not_sent() -> None:
    async with other(OK) as (caller, served):
        with pytest.raises(CallFailed, match="line breaks"):
            await caller.open("GET", at(served.url), body=b"", headers=[("X-Remote-User", "a\r\nX: b")])
        assert served.asked == []


async def test_the_answer_to_head_has_no_body_whatever_length_it_states() -> None:
    async with other(OK.removesuffix(b"hi"), OK) as (caller, served):
        assert await get(caller, served.url, method="HEAD") == b""
        assert await get(caller, served.url) == b"hi"


async def test_an_answer_that_is_too_large_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcalls, "MAX_ANSWER", 1)
    async with other(OK) as (caller, served):
        with pytest.raises(CallFailed, match=r'^Get "https://shown/hook/x": the answer is larger than 1 bytes$'):
            await get(caller, served.url)


async def test_a_read_is_sent_again_when_the_server_hangs_up_on_a_kept_connection() -> None:
    async with other(OK, HANGS_UP, OK) as (caller, served):
        assert [await get(caller, served.url) for _ in range(2)] == [b"hi", b"hi"]
        assert len(served.asked) == 3


async def test_a_write_is_sent_once() -> None:
    async with other(OK, HANGS_UP, OK) as (caller, served):
        assert await get(caller, served.url) == b"hi"
        with pytest.raises(CallFailed):
            await get(caller, served.url, method="POST")
        assert len(served.asked) == 2


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:{port}", "dial tcp 127.0.0.1:{port}: connect: connection refused"),
        ("http://no-such-host.invalid:80", "dial tcp: lookup no-such-host.invalid: no such host"),
    ],
)
async def test_a_server_that_is_not_there_is_told_in_the_words_of_gos_client(url: str, why: str) -> None:
    caller = Caller(HERE)
    with closed_port() as port, pytest.raises(CallFailed) as failed:
        await get(caller, url.format(port=port))
    assert str(failed.value) == f'Get "https://shown/hook/x": {why.format(port=port)}'


async def test_a_server_that_says_nothing_is_given_up_at_the_deadline() -> None:
    async with other(TIMES_OUT) as (caller, served):
        with pytest.raises(CallFailed, match=r"context deadline exceeded$"):
            await get(caller, served.url, timeout_s=0.05)


async def test_a_certificate_is_checked_for_the_name_and_against_the_bundle_that_are_given() -> None:
    now = WallClock().now()
    authority, stranger = Authority.create("one", now), Authority.create("two", now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, authority.issue_server(["hook.default.svc"], now))
    bundle, wrong = (base64.b64encode(each.certificate).decode() for each in (authority, stranger))

    async def asked(caller: Caller, url: str, name: str, bundle: str, *, verify: bool = True) -> int:
        address = at(url, name)
        return (await caller.call("GET", address, body=b"", headers={}, bundle=bundle, verify=verify)).status

    async with other(*[OK] * 9, context=context) as (caller, served):
        assert await asked(caller, served.url, "hook.default.svc", bundle) == 200
        assert await asked(caller, served.url, "", "", verify=False) == 200
        for name, trusted in (("other.default.svc", bundle), ("hook.default.svc", wrong)):
            with pytest.raises(CallFailed, match="tls: failed to verify certificate"):
                await asked(caller, served.url, name, trusted)


async def test_connections_to_very_many_servers_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcalls, "MAX_SERVERS", 2)
    async with other(*[OK] * 5) as (caller, served):
        held = await caller.open("GET", at(served.url), body=b"", headers=[])
        for number in range(4):
            address = Address("", served.url, f"name-{number}")
            assert (await caller.call("GET", address, body=b"", headers={})).status == 200
        assert len(caller._wires) <= 3
        async with held:
            assert await held.read() == b"hi"
