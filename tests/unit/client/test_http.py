"""A server that is too busy says so before it does anything: reads and writes are sent again when it asks for them. Watches do not all end
at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest

from corral.client import limits
from corral.client.http import HttpClient
from corral.client.kubeconfig import Access
from corral.core.errors import ApiError, TooManyRequests
from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS

CONFIG_MAP: Obj = {"metadata": {"name": "a", "namespace": "default"}}
BUSY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 0.01}}


class Busy:
    """Answers that it is too busy a number of times, and then with what it was asked to write."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                sizes = [
                    line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length:")
                ]
                await reader.readexactly(int(sizes[0]) if sizes else 0)
                self.asked.append(head.split(" ", 1)[0])
                refused = len(self.asked) <= self.refusals
                body = json.dumps(BUSY if refused else CONFIG_MAP).encode()
                status = "429 Too Many Requests" if refused else "200 OK"
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def busy(refusals: int) -> AsyncIterator[tuple[HttpClient, Busy]]:
    busy_one = Busy(refusals)
    server = await asyncio.start_server(busy_one.serve, "127.0.0.1", 0)
    client = HttpClient(Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield client, busy_one
    finally:
        await client.close()
        server.close()


async def test_a_write_is_sent_again_when_the_server_was_too_busy_to_take_it() -> None:
    async with busy(refusals=2) as (client, server):
        await client.create(CONFIG_MAPS, CONFIG_MAP)
        assert server.asked == ["POST"] * 3


async def test_a_server_that_stays_busy_is_believed_in_the_end() -> None:
    async with busy(refusals=100) as (client, server):
        with pytest.raises(TooManyRequests):
            await client.update(CONFIG_MAPS, CONFIG_MAP)
        assert server.asked == ["PUT"] * limits.READ_ATTEMPTS


async def test_an_eviction_that_a_budget_forbids_is_not_asked_for_again() -> None:
    async with busy(refusals=1) as (client, server):
        with pytest.raises(TooManyRequests):
            await client.create_subresource(PODS, "a", "default", "eviction", {})
        assert server.asked == ["POST"]


@asynccontextmanager
async def answering(*lines: str) -> AsyncIterator[tuple[HttpClient, list[str]]]:
    """A server that answers everything with a head of these lines and nothing else; what it was asked for."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)[1])
        head = ("HTTP/1.1 " + lines[0], *lines[1:], "Content-Length: 0", "Connection: close")
        writer.write("".join(f"{line}\r\n" for line in (*head, "")).encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = HttpClient(Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield client, asked
    finally:
        await client.close()
        server.close()


@pytest.mark.parametrize(("header", "wait"), [("Retry-After: 7", 7.0), ("Retry-After: soon", None), ("A: b", None)])
async def test_a_server_that_turns_calls_away_unread_says_in_a_header_for_how_long(
    header: str, wait: float | None
) -> None:
    async with answering("429 Too Many Requests", header) as (client, _):
        with pytest.raises(TooManyRequests) as raised:
            await client.create_subresource(PODS, "a", "default", "eviction", {})
        assert raised.value.retry_after_s == wait


async def test_watches_that_begin_together_do_not_end_together() -> None:
    async with answering("200 OK") as (client, asked):
        for _ in range(20):
            async for _event in client.watch(CONFIG_MAPS):
                pass
    lasting = sorted(int(parse_qs(urlsplit(path).query)["timeoutSeconds"][0]) for path in asked)
    assert lasting[0] >= limits.WATCH_S * (1 - limits.WATCH_SPREAD) - 1
    assert lasting[-1] <= limits.WATCH_S
    assert all(later - earlier >= 2 for earlier, later in pairwise(lasting))
    assert all("allowWatchBookmarks=true" in path for path in asked)


@pytest.mark.parametrize(
    ("status", "offers"),
    [("422 Unprocessable Entity", False), ("400 Bad Request", False), ("404 Not Found", True), ("500 Oops", True)],
)
async def test_a_server_that_does_not_stream_lists_is_remembered(status: str, offers: bool) -> None:
    async with answering(status) as (client, asked):
        for initial, still in ((False, True), (True, offers)):
            with pytest.raises(ApiError):
                async for _ in client.watch(CONFIG_MAPS, initial=initial):
                    pass
            assert client.streams_lists is still
        assert "sendInitialEvents" not in asked[0]
        assert "sendInitialEvents=true&resourceVersionMatch=NotOlderThan" in asked[1]
        assert "allowWatchBookmarks=true" in asked[1]
