"""HTTP/2 from clients who mean no good: floods, bombs, bodies without end, streams nobody reads. And from good ones."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import AsyncIterator

import pytest
from tests.security.served import World, served
from tests.security.test_limits import Anybody, Wire

from corral.core.server_limits import Limits
from corral.server.http import shared as http
from corral.server.http.http2 import connection as http2
from corral.server.http.http2 import frames, hpack
from corral.server.http.http2.connection import Http2Connection
from corral.server.http.http2.frames import Code, Frame, Setting
from corral.server.http.message import Answer, Request, Response, Stream, Writer
from corral.server.http.shared import Shared


class Slow(Anybody):
    """An application whose answers wait until they are let go; a path of /watch streams."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = self.cancelled = self.written = 0

    def answer_now(self, request: Request) -> Response | None:  # type: ignore[override]  # or wait
        return Response(200, b"b" * int(request.path[1:])) if request.path[1:].isdigit() else None

    async def answer(self, request: Request) -> Answer:  # type: ignore[override]  # streams, too
        self.begun += 1
        if request.path == "/watch":
            return Stream(self._produce)
        await self.go.wait()
        return Response(200, b"done")

    async def _produce(self, writer: Writer) -> None:
        try:
            while True:
                await writer.write(b"e" * 1000)
                self.written += 1000
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Peer:
    """A client over a transport that keeps what is written."""

    def __init__(self, shared: Shared, *, window: int | None = None) -> None:
        self.wire = Wire()
        self.wire.resume_reading = lambda: None  # type: ignore[attr-defined]
        self.connection = Http2Connection(shared)
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]  # as much of a transport as it needs
        self._decoder = hpack.Decoder(1 << 20)
        settings = {} if window is None else {Setting.INITIAL_WINDOW_SIZE: window}
        self.send(frames.PREFACE + frames.settings(settings))

    def send(self, *data: bytes) -> None:
        self.connection.data_received(b"".join(data))

    def ask(
        self, stream: int, path: str = "/wait", *more: tuple[str, str], method: str = "GET", ends: bool = True
    ) -> None:
        self.send(head(stream, path, *more, method=method, ends=ends))

    def got(self) -> list[Frame]:
        return list(frames.FrameReader().feed(frames.PREFACE + self.wire.written))

    def of(self, kind: int) -> list[Frame]:
        return [frame for frame in self.got() if frame.kind == kind]

    def statuses(self) -> dict[int, str]:
        decoder = hpack.Decoder(1 << 20)
        return {frame.stream: dict(decoder.decode(frame.payload))[":status"] for frame in self.of(frames.HEADERS)}

    def resets(self) -> dict[int, int]:
        return {frame.stream: frames.number_of(frame) for frame in self.of(frames.RST_STREAM)}

    def end(self) -> Code | None:
        """Why the server ended the connection, None when it has not."""
        gone = self.of(frames.GOAWAY)
        return Code(struct.unpack(">LL", gone[0].payload[:8])[1]) if gone else None


def head(stream: int, path: str, *more: tuple[str, str], method: str = "GET", ends: bool = True) -> bytes:
    fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "x"), *more]
    return frames.headers(stream, hpack.encode(fields), ends=ends)


ME = ("authorization", "me")


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_streams_are_answered_as_they_are_ready() -> None:
    app = Slow()
    peer = Peer(Shared(app))
    peer.ask(1)
    peer.ask(3, "/10")
    await turns()
    assert peer.statuses() == {3: "200"}
    app.go.set()
    await turns()
    assert peer.statuses() == {1: "200", 3: "200"}
    assert b"".join(frame.payload for frame in peer.of(frames.DATA)) == b"b" * 10 + b"done"


async def test_requests_taken_back_at_once_count_as_long_as_they_run_and_end_the_connection() -> None:
    app = Slow()
    peer = Peer(Shared(app))
    for number in range(3000):
        peer.send(head(2 * number + 1, "/wait", method="DELETE"), frames.reset(2 * number + 1, Code.CANCEL))
    await turns()
    assert app.begun <= http2.MAX_STREAMS
    assert peer.end() == Code.ENHANCE_YOUR_CALM
    app.go.set()
    await turns()
    assert peer.connection._abandoned == 0


async def test_there_are_only_so_many_streams() -> None:
    app = Slow()
    peer = Peer(Shared(app))
    for number in range(http2.MAX_STREAMS + 2):
        peer.ask(2 * number + 1)
    last = 2 * http2.MAX_STREAMS + 1
    assert peer.resets() == {last: Code.REFUSED_STREAM, last + 2: Code.REFUSED_STREAM}
    peer.send(frames.reset(1, Code.CANCEL))
    await turns()
    peer.ask(last + 4)
    assert last + 4 not in peer.resets()
    peer.connection.connection_lost(None)
    await turns()


async def test_a_client_that_goes_on_as_soon_as_it_is_answered_is_never_refused() -> None:
    """It knows of no task of the server's that has yet to end after its answer."""
    app = Slow()
    peer = Peer(Shared(app))
    for number in range(http2.MAX_STREAMS):
        peer.ask(2 * number + 1)
    await turns()
    write, asked = peer.wire.write, http2.MAX_STREAMS

    def taken(data: bytes) -> None:
        nonlocal asked
        write(data)
        while asked < http2.MAX_STREAMS + len(peer.statuses()) and asked < 3 * http2.MAX_STREAMS:
            asked += 1
            peer.ask(2 * asked - 1)

    peer.wire.write = taken  # type: ignore[method-assign]
    app.go.set()
    await turns(20)
    assert asked == 3 * http2.MAX_STREAMS
    assert len(peer.statuses()) == asked
    assert not peer.resets()


PING = frames.write(frames.PING, 0, 0, b"12345678")
FLOODS = {
    "pings": PING,
    "settings": frames.settings({}),
    "empty data": frames.write(frames.DATA, 0, 1),
    "malformed requests": b"",
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_of_what_leads_to_nothing_ends_the_connection(flood: str) -> None:
    peer = Peer(Shared(Anybody()))
    peer.ask(1, "/", ME, method="POST", ends=False)
    for number in range(3000):
        bad = frames.headers(2 * number + 3, hpack.encode([(":method", "GET")]), ends=True)
        peer.send(FLOODS[flood] or bad)
    assert peer.end() == Code.ENHANCE_YOUR_CALM
    assert len(peer.wire.written) < 40_000


async def test_a_header_block_without_end_ends_the_connection() -> None:
    for part in (b"", b"\0" * 16_000):
        peer = Peer(Shared(Anybody()))
        peer.send(frames.write(frames.HEADERS, frames.END_STREAM, 1))
        for _ in range(100):
            peer.send(frames.write(frames.CONTINUATION, 0, 1, part))
        assert peer.end() == Code.ENHANCE_YOUR_CALM
    slow = Peer(Shared(Anybody()))
    slow.send(frames.write(frames.HEADERS, frames.END_STREAM, 1))
    slow.connection.sweep(slow.connection.loop.time() + http.HEAD_TIMEOUT_S + 1)
    assert slow.wire.closed


async def test_headers_that_unfold_are_answered_with_431_and_the_end() -> None:
    peer = Peer(Shared(Anybody()))
    bomb = b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 10_000
    peer.send(frames.write(frames.HEADERS, frames.END_STREAM | frames.END_HEADERS, 1, bomb))
    assert peer.statuses() == {1: "431"}
    assert peer.end() == Code.ENHANCE_YOUR_CALM


BROKEN = {
    "data of no stream": (frames.write(frames.DATA, 0, 5, b"x"), Code.PROTOCOL_ERROR),
    "data of the connection": (frames.write(frames.DATA, 0, 0, b"x"), Code.PROTOCOL_ERROR),
    "an even stream": (head(2, "/"), Code.PROTOCOL_ERROR),
    "a push": (frames.write(frames.PUSH_PROMISE, 0, 1, b"1234"), Code.PROTOCOL_ERROR),
    "a continuation of nothing": (frames.write(frames.CONTINUATION, 0, 1), Code.PROTOCOL_ERROR),
    "something between": (frames.write(frames.HEADERS, 0, 1) + PING, Code.PROTOCOL_ERROR),
    "a short ping": (frames.write(frames.PING, 0, 0, b"1"), Code.FRAME_SIZE_ERROR),
    "a ping of a stream": (frames.write(frames.PING, 0, 1, b"12345678"), Code.PROTOCOL_ERROR),
    "a reset of no stream": (frames.reset(7, Code.CANCEL), Code.PROTOCOL_ERROR),
    "a window widened by nothing": (frames.window_update(0, 0), Code.PROTOCOL_ERROR),
    "a window too wide": (frames.window_update(0, (1 << 31) - 1), Code.FLOW_CONTROL_ERROR),
    "a frame too large": (frames.head(frames.DATA, 0, 1, 1 << 20), Code.FRAME_SIZE_ERROR),
    "a block of nonsense": (frames.write(frames.HEADERS, 5, 1, b"\x80"), Code.COMPRESSION_ERROR),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_protocol_ends_the_connection_with_its_reason(case: str) -> None:
    data, code = BROKEN[case]
    peer = Peer(Shared(Anybody()))
    peer.send(data)
    assert peer.end() == code


async def test_a_stranger_sends_no_body() -> None:
    peer = Peer(Shared(Anybody()))
    peer.ask(1, "/", method="POST", ends=False)
    assert peer.statuses() == {1: "401"}
    assert peer.resets() == {1: Code.NO_ERROR}
    peer.send(frames.write(frames.DATA, frames.END_STREAM, 1, b"x" * 1000))
    assert peer.end() is None


async def test_a_body_is_let_in_after_it_was_allowed_and_up_to_the_limit() -> None:
    peer = Peer(Shared(Anybody()))
    peer.ask(1, "/", ME, method="POST", ends=False)
    peer.ask(3, "/", ME, ("content-length", str(http.MAX_BODY + 1)), method="POST", ends=False)
    assert peer.statuses() == {3: "413"}
    part = frames.write(frames.DATA, 0, 1, b"x" * frames.FRAME_SIZE)
    for _ in range(http.MAX_BODY // frames.FRAME_SIZE):
        peer.send(part)
    assert peer.end() is None
    peer.send(part)
    assert peer.statuses() == {3: "413", 1: "413"}
    assert not peer.connection._exchanges


async def test_a_body_of_another_length_than_announced_is_no_request() -> None:
    peer = Peer(Shared(Anybody()))
    for stream, size in ((1, 4), (3, 6), (5, 5)):
        peer.ask(stream, "/", ME, ("content-length", "5"), method="POST", ends=False)
        peer.send(frames.write(frames.DATA, frames.END_STREAM, stream, b"x" * size))
    assert peer.resets() == {1: Code.PROTOCOL_ERROR, 3: Code.PROTOCOL_ERROR}
    assert peer.statuses() == {5: "200"}


async def test_a_body_that_trickles_and_an_answer_nobody_takes_end_alone() -> None:
    peer = Peer(Shared(Slow()), window=0)
    peer.ask(1, "/", ME, method="POST", ends=False)
    peer.ask(3, "/50")
    peer.connection.sweep(peer.connection.loop.time() + http.IDLE_TIMEOUT_S + 1)
    assert peer.resets() == {1: Code.CANCEL, 3: Code.CANCEL}


async def test_a_stream_is_written_as_far_as_its_window_goes() -> None:
    app = Slow()
    peer = Peer(Shared(app), window=5000)
    peer.ask(1, "/watch")
    await turns(50)
    assert app.written == 5000
    peer.send(frames.window_update(1, 2500))
    await turns(50)
    assert sum(len(frame.payload) for frame in peer.of(frames.DATA)) == 7500
    peer.send(frames.reset(1, Code.CANCEL))
    await turns()
    assert app.cancelled == 1


async def test_a_client_that_does_not_read_is_not_written_for() -> None:
    app = Slow()
    peer = Peer(Shared(app), window=1 << 30)
    peer.send(frames.window_update(0, 1 << 30))
    peer.connection.pause_writing()
    peer.ask(1, "/watch")
    await turns(50)
    assert app.written == 0
    peer.connection.connection_lost(None)
    await turns()
    assert not peer.connection._exchanges


async def test_a_server_that_stops_finishes_answers_and_ends_watches() -> None:
    app = Slow()
    peer = Peer(Shared(app), window=3000)
    peer.ask(1)
    peer.ask(3, "/watch")
    await turns(20)
    peer.connection.drain()
    unfinished = peer.connection.unfinished()
    assert unfinished is not None
    peer.ask(5, "/10")
    await turns()
    assert peer.end() == Code.NO_ERROR
    assert not peer.wire.closed
    app.go.set()
    await turns()
    assert unfinished.done()
    assert peer.wire.closed
    assert peer.statuses() == {1: "200", 3: "200"}


async def test_there_are_only_so_many_connections() -> None:
    shared = Shared(Anybody(), Limits(connections=1))
    assert [Peer(shared).end() for _ in range(2)] == [None, Code.ENHANCE_YOUR_CALM]


async def test_expectations_are_answered_and_trailers_ignored() -> None:
    peer = Peer(Shared(Anybody()))
    peer.ask(1, "/", ME, ("expect", "100-continue"), method="POST", ends=False)
    assert peer.statuses() == {1: "100"}
    peer.send(frames.write(frames.DATA, 0, 1, b"x"), frames.headers(1, hpack.encode([("a", "b")]), ends=True))
    assert peer.statuses() == {1: "200"}


# over the wire


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served() as made:
        yield made


async def curl(world: World, path: str, *arguments: str) -> str:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("there is no curl on the PATH")
    command = [program, "-sS", "--http2", "-k", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"]
    command += ["-H", f"Authorization: Bearer {world.admin}", *arguments, world.cluster.server.url + path]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode()


async def test_curl_and_the_server_agree_on_http_2(world: World) -> None:
    if await curl(world, "/version") == "1.1 200":
        pytest.skip("this curl has no HTTP/2")
    assert await curl(world, "/version") == "2 200"
    assert await curl(world, "/version", "--http1.1") == "1.1 200"
    exec_path = "/api/v1/namespaces/default/pods/x/exec?command=a"
    assert (await curl(world, exec_path)).startswith("2 4")
    large = "/api/v1/namespaces/default/configmaps"
    assert await curl(world, large, "-d", "x" * 100_000, "-H", "Content-Type: application/json") == "2 400"


async def test_a_server_that_stops_under_load_answers_what_it_has_taken() -> None:
    async with served() as world:
        world.context.set_alpn_protocols(["h2"])
        reader, writer = await world.connect()
        who = ("authorization", f"Bearer {world.admin}")
        asked = [head(stream, "/api/v1/namespaces?limit=500", who) for stream in range(1, 201, 2)]
        asked.append(head(201, "/api/v1/namespaces?watch=1", who))
        writer.write(frames.PREFACE + frames.settings({}) + frames.window_update(0, 1 << 24) + b"".join(asked))
        first = await reader.read(200)
        stopping = asyncio.create_task(world.cluster.stop())
        received = list(frames.FrameReader().feed(frames.PREFACE + first + await asyncio.wait_for(reader.read(), 30)))
        await stopping
        writer.close()
    gone = next(frame for frame in received if frame.kind == frames.GOAWAY)
    last = struct.unpack(">L", gone.payload[:4])[0]
    ended = {frame.stream for frame in received if frame.kind == frames.DATA and frame.flags & frames.END_STREAM}
    assert ended == set(range(1, min(last, 199) + 1, 2))


@pytest.mark.parametrize("path", ["/50000", "/wait"], ids=["unread answers", "long heads"])
async def test_all_strangers_together_hold_little_over_http2_too(path: str) -> None:
    shared = Shared(Slow())
    peers = [Peer(shared, window=0) for _ in range(20)]
    for peer in peers:
        for stream in range(1, 60, 2):
            if not peer.wire.aborted:
                peer.ask(stream, path, ("x", "y" * 10_000))
    assert any(peer.wire.aborted for peer in peers)
    assert sum(shared.strangers.values()) <= http.STRANGERS_HOLD
    for peer in peers:
        peer.connection.connection_lost(None)
    assert not shared.strangers


async def test_the_room_that_tls_keeps_for_what_came_at_once_counts_over_http2_too() -> None:
    shared = Shared(Anybody())
    for _ in range(100):
        peer = Peer(shared)
        peer.send(*(head(stream, "/1", ("x", "y" * 10_000)) for stream in range(1, 40, 2)))
        assert len(peer.statuses()) == 20
    assert len(shared.strangers) <= http.STRANGERS_HOLD // 200_000 + 1


async def test_one_user_has_so_much_over_all_connections() -> None:
    """Bodies on their way, and answers that wait to be taken; each stream is answered for itself."""
    shared = Shared(Slow(), Limits(bytes_each=100_000, answers_each=1_000_000))
    senders = [Peer(shared) for _ in range(4)]
    for peer in senders:
        for stream in (1, 3):
            peer.ask(stream, "/10", ME, ("content-length", "30000"), method="POST", ends=False)
            peer.send(
                frames.write(frames.DATA, 0, stream, b"x" * 16_000), frames.write(frames.DATA, 0, stream, b"x" * 13_000)
            )
    refused = [status for peer in senders for status in peer.statuses().values()]
    assert set(refused) == {"429"}
    assert sum(sum(map(len, each.body)) for peer in senders for each in peer.connection._coming.values()) <= 100_000
    assert [peer.end() for peer in senders] == [None] * 4
    readers = [Peer(shared, window=0) for _ in range(4)]
    for peer in readers:
        peer.ask(1, "/400000", ME)
    assert [peer.statuses()[1] for peer in readers] == ["200", "200", "429", "429"]
    readers[0].send(frames.reset(1, Code.CANCEL))
    readers[3].ask(3, "/400000", ME)
    assert readers[3].statuses()[3] == "200"


async def test_small_answers_and_streams_count_where_nobody_takes_them() -> None:
    """A window of nothing holds every answer back, and 250 small ones are as much as a large one."""
    shared = Shared(Slow(), Limits(answers=2_000_000))
    readers = [Peer(shared, window=0) for _ in range(20)]
    for number, peer in enumerate(readers):
        for stream in range(1, 100, 2):
            peer.ask(stream, "/20000" if number % 2 else "/watch", ("authorization", f"user{number % 3}"))
    await turns()
    kept = [sum(map(len, each.pending)) for peer in readers for each in peer.connection._exchanges.values()]
    assert 1_000_000 <= sum(kept) <= 2_000_000 + len(readers) * 50 * 200, (
        "answers, and what says that there were too many"
    )
    newcomer = Peer(shared, window=0)
    newcomer.ask(1, "/20000", ME)
    assert newcomer.statuses() == {1: "200"}
    for peer in [*readers, newcomer]:
        peer.connection.connection_lost(None)
    await turns()
    assert not shared._unsent._held
    assert shared._unsent._used == 0


async def test_a_stream_that_is_taken_counts_no_more() -> None:
    shared = Shared(Slow())
    peer = Peer(shared, window=1500)
    peer.ask(1, "/watch", ME)
    await turns(20)
    assert shared._unsent._used == 1000
    peer.send(frames.window_update(1, 500))
    await turns(20)
    assert shared._unsent._used == 1000
    peer.send(frames.reset(1, Code.CANCEL))
    await turns()
    assert shared._unsent._used == 0


async def test_one_user_has_so_many_connections_over_http2_too() -> None:
    shared = Shared(Slow(), Limits(connections_each=2))
    peers = [Peer(shared) for _ in range(3)]
    for peer in peers:
        peer.ask(1, "/10", ME)
    assert [peer.statuses()[1] for peer in peers] == ["200", "200", "429"]
    assert [peer.end() for peer in peers] == [None, None, Code.ENHANCE_YOUR_CALM]
