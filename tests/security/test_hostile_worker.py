"""A worker that answers with more than anybody needs: it costs a bounded number of bytes and requests, and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from tests.dispatching import run_on_fleet

from corral.client import answers, limits
from corral.client.http import HttpClient
from corral.client.kubeconfig import Access
from corral.client.protocol import Client, ObjectList
from corral.client.wrapper import ClientWrapper
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core import conditions
from corral.core.errors import ApiError, ConnectionFailed, LimitExceeded
from corral.core.meta import Key, Obj
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, WORKLOADS
from corral.runtime.clock import WallClock
from corral.runtime.informer import Informer
from corral.runtime.random import Random
from corral.simulate.fleet import SimulatedFleet

SLACK = 8 * limits.MIB
"""What may be under way in the kernel's buffers when the client hangs up."""
Say = Callable[[str, "Worker"], Awaitable[None]]


class Worker:
    """Answers each request as a test says; counts what was asked and what could be sent."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.requests = 0
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                await self._say(head.split(b" ", 2)[1].decode(), self)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        self.sent += len(data)

    async def answer(self, body: bytes, status: str = "200 OK") -> None:
        await self.send(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    async def endless(self, head: bytes, piece: bytes) -> None:
        await self.send(head)
        while True:
            await self.send(piece)


@asynccontextmanager
async def hostile(say: Say) -> AsyncIterator[tuple[HttpClient, Worker]]:
    worker = Worker(say)
    server = await asyncio.start_server(worker.serve, "127.0.0.1", 0)
    client = HttpClient(Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield client, worker
    finally:
        await client.close()
        server.close()


def workload(name: str, **more: object) -> Obj:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}, **more}


def page(items: list[object], token: str = "") -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "1", "continue": token}, "items": items}).encode()


async def listed(client: HttpClient) -> object:
    return await client.list(WORKLOADS, limit=limits.LIST_PAGE)


async def watched(client: HttpClient) -> object:
    return [event async for event in client.watch(WORKLOADS)]


async def relisted(client: HttpClient) -> object:
    """What an informer does first where lists are not streamed."""
    client.streams_lists = False
    return await informed(client)


async def informed(client: HttpClient) -> object:
    """What an informer does first; its first error ends it."""
    informer = Informer(client, WORKLOADS, WallClock(), Random(1))
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    informer.on_error(lambda error: None if failed.done() else failed.set_exception(error))
    task = asyncio.create_task(informer.run())
    try:
        return await failed
    finally:
        task.cancel()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
PIECE = b"x" * 65536


@pytest.mark.parametrize("call", [listed, watched], ids=["list", "watch"])
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"".join(b"X-%d: y\r\n" % number for number in range(5000))),
        (b"HTTP/1.1 200 OK\r\nX-One: ", PIECE),
        (b"HTTP/1.1 200 ", PIECE),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (CHUNKED + b"1;", PIECE),
        (CHUNKED + b"1\r\n \r\n0\r\n", b"".join(b"X-%d: y\r\n" % number for number in range(5000))),
    ],
    ids=["many headers", "one header", "status line", "1xx", "chunk extension", "trailers"],
)
def test_what_surrounds_a_body_is_bounded(
    head: bytes, piece: bytes, call: Callable[[HttpClient], Awaitable[object]]
) -> None:
    async def main() -> None:
        async with hostile(lambda target, worker: worker.endless(head, piece)) as (client, worker):
            with pytest.raises(ConnectionFailed):
                await call(client)
            assert worker.sent < limits.READ_ATTEMPTS * SLACK

    asyncio.run(main())


@pytest.mark.parametrize("call", [listed, relisted], ids=["list", "informer"])
def test_a_body_without_end_is_read_up_to_its_limit_and_once(
    call: Callable[[HttpClient], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_BYTES", limits.MIB)

    async def main() -> None:
        async with hostile(lambda target, worker: worker.endless(TO_THE_END, PIECE)) as (client, worker):
            with pytest.raises(LimitExceeded, match="larger than 1048576 bytes"):
                await call(client)
            assert worker.requests == 1
            assert worker.sent < limits.MIB + SLACK

    asyncio.run(main())


def test_a_line_of_a_watch_is_read_up_to_its_limit() -> None:
    async def main() -> None:
        async with hostile(lambda target, worker: worker.endless(TO_THE_END, PIECE)) as (client, worker):
            with pytest.raises(LimitExceeded, match="event of a watch is larger than"):
                await watched(client)
            assert worker.sent < limits.LINE_BYTES + SLACK

    asyncio.run(main())


def test_an_error_is_read_up_to_its_limit_and_its_message_cut() -> None:
    async def say(target: str, worker: Worker) -> None:
        if "watch" in target:
            await worker.endless(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", PIECE)
        text = {"kind": "Status", "message": "m" * 500_000, "code": "x", "details": [1], "reason": {}}
        await worker.answer(json.dumps(text).encode(), "403 Forbidden")

    async def main() -> None:
        async with hostile(say) as (client, worker):
            with pytest.raises(LimitExceeded):
                await watched(client)
            assert worker.sent < limits.ERROR_BYTES + SLACK
            with pytest.raises(ApiError) as refused:
                await listed(client)
            assert refused.value.code == 403
            assert len(str(refused.value)) <= limits.ERROR_TEXT

    asyncio.run(main())


def test_more_items_than_were_asked_for_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    monkeypatch.setattr(answers, "_decoded", lambda content, server: decoded.append(content))
    body = page([workload(f"w{number}") for number in range(limits.LIST_PAGE + 1)])

    async def main() -> None:
        async with hostile(lambda target, worker: worker.answer(body)) as (client, worker):
            with pytest.raises(LimitExceeded, match="1001 workloads when asked for 1000"):
                await listed(client)
            assert worker.requests == 1

    asyncio.run(main())
    assert decoded == []


@pytest.mark.parametrize(
    ("items", "tokens", "most"),
    [(1, lambda number: "again", 2), (0, str, 1), (1, str, limits.LIST_PAGES)],
    ids=["one token for ever", "empty pages", "new tokens for ever"],
)
def test_a_list_that_goes_on_for_ever_ends_after_a_number_of_requests(
    items: int, tokens: Callable[[int], str], most: int
) -> None:
    async def say(target: str, worker: Worker) -> None:
        await worker.answer(page([workload(f"w{number}") for number in range(items)], tokens(worker.requests)))

    async def main() -> None:
        async with hostile(say) as (client, worker):
            with pytest.raises(LimitExceeded):
                await relisted(client)
            assert worker.requests <= most

    asyncio.run(main())


def test_all_pages_of_a_list_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIST_BYTES", limits.MIB)

    async def say(target: str, worker: Worker) -> None:
        item = workload(f"w{worker.requests}", padding="x" * 200_000)
        await worker.answer(page([item], str(worker.requests)))

    async def main() -> None:
        async with hostile(say) as (client, worker):
            with pytest.raises(LimitExceeded, match="larger than 1048576 bytes"):
                await relisted(client)
            assert worker.requests == 6

    asyncio.run(main())


def test_a_streamed_list_that_goes_on_for_ever_is_read_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIST_BYTES", limits.MIB)
    line = json.dumps({"type": "ADDED", "object": workload("w", padding="x" * 60_000)}).encode() + b"\n"

    async def main() -> None:
        async with hostile(lambda target, worker: worker.endless(TO_THE_END, line)) as (client, worker):
            with pytest.raises(LimitExceeded, match="streamed list of workloads is larger than 1048576 bytes"):
                await informed(client)
            assert worker.requests == 1
            assert worker.sent < limits.MIB + SLACK

    asyncio.run(main())


WRONG = [
    b"[]",
    b"7",
    b'{"items": 7}',
    b'{"items": [7]}',
    b'{"items": [{}]}',
    b'{"items": [{"metadata": []}]}',
    b'{"items": [{"metadata": {"name": 7}}]}',
    b'{"items": [{"metadata": {"name": "a", "labels": 7}}]}',
    b'{"items": [{"metadata": {"name": "a"}, "spec": []}]}',
    b'{"items": [{"metadata": {"name": "a"}, "status": "x"}]}',
    b'{"metadata": 7, "items": []}',
    b'{"metadata": {"continue": 7}, "items": []}',
    b'{"items": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    b"\xff\xfe",
]


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_a_list_of_something_else_is_an_error_of_the_connection(body: bytes) -> None:
    async def main() -> None:
        async with hostile(lambda target, worker: worker.answer(body)) as (client, _):
            with pytest.raises(ConnectionFailed):
                await listed(client)

    asyncio.run(main())


LINES = [
    b"7",
    b"{}",
    b'{"type": "ADDED"}',
    b'{"type": ["ADDED"], "object": {}}',
    b'{"type": "NEWS", "object": {"metadata": {"name": "a"}}}',
    b'{"type": "ADDED", "object": {"metadata": {"name": 7}}}',
    b'{"type": "ERROR", "object": {"code": "x", "message": [], "details": 7}}',
    b'{"type": "ERROR", "object": 7}',
    b"{" * 100_000,
]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_an_event_of_something_else_is_an_api_error(line: bytes) -> None:
    async def main() -> None:
        async with hostile(lambda target, worker: worker.answer(line + b"\n")) as (client, _):
            with pytest.raises(ApiError):
                await watched(client)

    asyncio.run(main())


def test_lines_are_put_together_without_copying_what_came_before() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b", b"c\n\nd", b"\ne\nf", b"", b"g"):
            yield chunk

    async def main() -> None:
        assert [line async for line in answers.lines(chunks(), "x")] == [b"abc", b"d", b"e", b"fg"]

    asyncio.run(main())


def test_a_large_page_is_decoded_a_portion_at_a_time() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        content = page([workload(f"w{number}", padding="x" * 100_000) for number in range(100)])
        task = asyncio.create_task(others())
        found = await answers.page(content, WORKLOADS, 100, "x")
        task.cancel()
        assert len(found.items) == 100

    asyncio.run(main())
    assert turns >= 8


def remote(client: HttpClient, lost: Callable[[], None] = lambda: None) -> Remote:
    def wake(key: Key, is_progress: bool) -> None: ...

    return Remote(
        "w",
        client,
        b"",
        clock=WallClock(),
        random=Random(1),
        origin="o",
        kinds=[],
        wake=wake,
        lost=lambda name: lost(),
    )


def test_a_worker_past_a_limit_is_left_alone_for_longer_each_time() -> None:
    """Its lists are well, and its watch says too much."""

    async def say(target: str, worker: Worker) -> None:
        if "watch=true" in target:
            await worker.endless(TO_THE_END, PIECE)
        await worker.answer(page([]))

    async def main() -> None:
        lost = asyncio.Event()
        async with hostile(say) as (client, _):
            tried, delays = remote(client, lost.set), []
            for _ in range(3):
                with suppress(LimitExceeded):  # where the watch is quicker than the lists
                    await tried.connect(60.0, 600.0, 600.0)
                    await lost.wait()
                lost.clear()
                assert tried.excess is not None
                delays.append(tried.back_off())
                await tried.disconnect()
            assert delays == [5.0, 10.0, 20.0]

    asyncio.run(main())


def test_a_worker_that_lists_without_end_does_not_connect_and_is_asked_no_more() -> None:
    async def say(target: str, worker: Worker) -> None:
        await worker.answer(page([workload("w")], "again"))

    async def main() -> None:
        async with hostile(say) as (client, worker):
            with pytest.raises(LimitExceeded, match="does not come to an end"):
                await remote(client).connect(60.0, 600.0, 600.0)
            assert worker.requests == 4  # one to see that it is there, a stream that is none, two of the list

    asyncio.run(main())


class Talkative(ClientWrapper):
    """A worker whose every answer is refused for its length."""

    async def list(self, *_: object, **__: object) -> ObjectList:
        raise LimitExceeded("m" * 5_000_000)


def test_the_condition_says_which_limit_it_was_and_other_workers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = SimulatedFleet._connect

    def connected(fleet: SimulatedFleet, access: Access) -> Client:
        client = connect(fleet, access)
        return Talkative(lambda: client) if access.server.endswith("worker1") else client

    monkeypatch.setattr(SimulatedFleet, "_connect", connected)

    async def check(fleet: SimulatedFleet) -> None:
        bad = await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, "worker1")
        entry = conditions.find(bad, "Active") or {}
        assert (entry["status"], entry["reason"]) == ("False", "ClientConnectionFailed")
        assert len(entry["message"]) <= 1000
        good = await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, "worker2")
        assert conditions.is_true(good, "Active")

    run_on_fleet(check)
