"""The HTTP/1.1 client against a server that says exactly what a test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from corral.client.wire import BUFFER, CALLS, PASSED_ON, BrokenAnswer, Wire, passed_on


class Script:
    """Answers the requests of each connection in turn; what was asked is in `asked`."""

    def __init__(self, answers: Sequence[bytes], *, hang: bool = False) -> None:
        self._answers = list(answers)
        self._hang = hang
        self.asked: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.asked.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self._answers.pop(0)
                writer.write(answer)
                if b"Connection: close" in answer:
                    break
                if self._hang:
                    await asyncio.sleep(60)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*answers: bytes, hang: bool = False) -> AsyncIterator[tuple[Wire, Script]]:
    script = Script(answers, hang=hang)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire = Wire(f"http://127.0.0.1:{port}/prefix", None)
    try:
        yield wire, script
    finally:
        wire.close()
        server.close()


async def read(wire: Wire, *, until: float | None = None) -> tuple[int, bytes]:
    async with wire.request("GET", "/version", {"Accept": "text/plain"}, until=until) as exchange:
        return exchange.status, await exchange.read()


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
INFORMATIONAL = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_one_connection_serves_many_requests_however_bodies_are_framed() -> None:
    async with scripted(LENGTH, CHUNKED, EMPTY, INFORMATIONAL + LENGTH) as (wire, script):
        answers = [await read(wire) for _ in range(4)]
        assert answers == [(200, b"hello"), (200, b"hello"), (204, b""), (200, b"hello")]
        assert script.connections == 1
        assert script.asked[0].startswith(b"GET /prefix/version HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize("answer", [LENGTH.replace(b"OK", b"OK\r\nConnection: Close"), CHUNKED[:-20]])
async def test_a_connection_that_ends_or_broke_is_not_used_again(answer: bytes) -> None:
    async with scripted(answer, LENGTH, hang=True) as (wire, script):
        try:
            assert (await read(wire, until=asyncio.get_running_loop().time() + 0.2))[1] == b"hello"
        except TimeoutError:
            pass
        assert await read(wire) == (200, b"hello")
        assert script.connections == 2


async def test_many_calls_take_turns_on_few_connections_beside_which_streams_go_on() -> None:
    async with scripted(CHUNKED[:60], *[LENGTH] * 90) as (wire, script):
        async with wire.request("GET", "/watch", {}) as stream:
            assert await anext(stream.chunks()) == b"hel"
            answers = await asyncio.gather(*(call(wire) for _ in range(90)))
        assert answers == [b"hello"] * 90
        assert script.connections <= 1 + CALLS


async def test_calls_that_fail_or_are_given_up_make_room_for_others() -> None:
    async with scripted(*[b"nonsense\r\n\r\n"] * CALLS, *[LENGTH] * 3) as (wire, _):
        failed = await asyncio.gather(*(call(wire) for _ in range(CALLS)), return_exceptions=True)
        assert {type(error) for error in failed} == {BrokenAnswer}
        assert await asyncio.gather(*(call(wire) for _ in range(3))) == [b"hello"] * 3
    async with scripted(*[LENGTH[:-1]] * CALLS, hang=True) as (wire, _):
        soon = asyncio.get_running_loop().time() + 0.1
        late = await asyncio.gather(*(call(wire, until=soon) for _ in range(CALLS + 2)), return_exceptions=True)
        assert {type(error) for error in late} == {TimeoutError}
        assert not wire.calls.locked()


async def call(wire: Wire, *, until: float | None = None) -> bytes:
    async with wire.request("GET", "/version", {}, until=until, call=True) as exchange:
        return await exchange.read()


async def test_a_body_without_length_ends_with_the_connection() -> None:
    async with scripted(TO_THE_END) as (wire, script):
        assert await read(wire) == (200, b"hello")
        assert script.connections == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0-OpenSSH\r\n\r\n", LENGTH[:-2]])
async def test_half_an_answer_is_a_broken_connection(answer: bytes) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    broken = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
    with pytest.raises(BrokenAnswer):
        await read(broken)
    broken.close()
    server.close()


async def test_a_silent_server_is_given_up() -> None:
    async with scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", hang=True) as (wire, _):
        with pytest.raises(TimeoutError):
            await read(wire, until=asyncio.get_running_loop().time() + 0.1)


async def test_closing_ends_a_stream_in_use() -> None:
    async with scripted(CHUNKED[:60], hang=True) as (wire, _), wire.request("GET", "/", {}) as exchange:
        stream = exchange.chunks()
        assert await anext(stream) == b"hel"
        asyncio.get_running_loop().call_later(0.05, wire.close)
        with pytest.raises(OSError):
            await anext(stream)


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
async def test_line_breaks_cannot_smuggle_headers(end: str) -> None:
    wire = Wire("http://127.0.0.1:1", None)
    for path, headers in ((f"/a{end}X: y", {}), ("/a", {"X": f"a{end}Y: b"}), ("/a", {f"X: a{end}Y": "b"})):
        with pytest.raises(ValueError, match="line breaks"):
            wire.request("GET", path, headers)
    with pytest.raises(ValueError, match="line breaks"):
        wire.request(f"GET / HTTP/1.1{end}", "/a", {})


async def test_what_is_passed_on_goes_as_the_bytes_that_came() -> None:
    async with scripted(LENGTH) as (wire, script):
        came = ("/zo\u00c3\u00ab?\u00ff".encode("latin-1"), "zo\u00c3\u00ab \u00ff".encode("latin-1"))
        target, value = (passed_on(each.decode("latin-1")) for each in came)
        async with wire.request("GET", target, {"X": value}) as exchange:
            await exchange.read()
        assert came[0] in script.asked[0]
        assert b"X: " + came[1] in script.asked[0]


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_an_answer_larger_than_what_is_held_at_once_is_read_to_its_end(is_chunked: bool) -> None:
    body = bytes(range(256)) * 20_000
    framed = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    known = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    answer = b"HTTP/1.1 200 OK\r\n" + (framed if is_chunked else known)
    async with scripted(answer, LENGTH) as (wire, script):
        until = asyncio.get_running_loop().time() + 30
        assert await read(wire, until=until) == (200, body)
        assert await read(wire) == (200, b"hello")
        assert script.connections == 1


@pytest.mark.parametrize("buffer", [PASSED_ON, BUFFER])
async def test_of_an_answer_that_nobody_takes_so_much_is_read(buffer: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        except OSError:
            pass

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
    async with server, wire.request("GET", "/", {}, buffer=buffer) as exchange:
        for _ in range(5000):
            await asyncio.sleep(0)
        assert buffer < exchange._size < buffer + (1 << 20)  # as much as one arrival has more
    wire.close()
