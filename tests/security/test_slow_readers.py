"""Who does not read is not written for: watches and logs go out a little at a time, and end with a client that stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.turns import TurnCounter

from corral.core.streams import LogOptions
from corral.node import logs
from corral.runtime.clock import WallClock
from corral.server import resources
from corral.server.content.representations import yaml_stream
from corral.server.http.connection import Connection
from corral.server.http.shared import STREAM_BUFFER, Shared
from corral.server.http.turns import ALLOWANCE, BEGIN_COST, CALLED, Turns
from corral.store import Event, ObjectKey, Stored


class Batches:
    """A watch that has these events to tell."""

    def __init__(self, *batches: Sequence[Event]) -> None:
        self._batches = list(batches)
        self.closed = False

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Sequence[Event]:
        if not self._batches:
            raise StopAsyncIteration
        return self._batches.pop(0)

    def close(self) -> None:
        self.closed = True


class Lines:
    """Views that encode an event as its line, and count."""

    def __init__(self) -> None:
        self.encoded = 0

    def event_lines(self, events: Sequence[Event], served: Any, wanted: Any, include: str, first: bool) -> bytes:
        self.encoded += len(events)
        return b"".join(event.line for event in events)


class Reader:
    """A client that takes `takes` writes and then waits."""

    def __init__(self, takes: int) -> None:
        self.takes, self.got = takes, [0]

    async def write(self, data: bytes) -> None:
        self.got.append(len(data))
        if len(self.got) > self.takes:
            await asyncio.Event().wait()


def added(count: int, size: int) -> list[Event]:
    objects = [{"metadata": {"name": str(number)}, "data": {"x": "y" * size}} for number in range(count)]
    return [Event("ADDED", Stored(ObjectKey("configmaps", "a", str(n)), 1, obj=obj)) for n, obj in enumerate(objects)]


async def pump(watch: Batches, reader: Reader, views: Lines) -> None:
    await resources._pump(watch, reader, views, None, None, "", Turns())  # type: ignore[arg-type]  # what it needs of them


async def test_the_first_events_of_a_watch_wait_for_the_client_as_later_ones_do() -> None:
    watch, reader, views = Batches(added(500, 3000)), Reader(3), Lines()
    task = asyncio.create_task(pump(watch, reader, views))
    for _ in range(20):
        await asyncio.sleep(0)
    assert sum(reader.got) < 4 * resources.PORTION
    assert views.encoded < 100
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert watch.closed


async def test_every_event_arrives_in_portions() -> None:
    watch, reader, views = Batches(added(500, 3000), added(1, 5)), Reader(1000), Lines()
    await pump(watch, reader, views)
    assert views.encoded == 501
    assert max(reader.got) < resources.PORTION + 4000


async def test_a_watch_ends_with_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "SLOW_READER_S", 0.0)
    watch = Batches(added(500, 3000))
    with pytest.raises(ConnectionResetError):
        await pump(watch, Reader(2), Lines())
    assert watch.closed


class Counting:
    """A client that takes everything at once, as a socket with room does."""

    def __init__(self, counter: TurnCounter) -> None:
        self._counter = counter

    async def write(self, data: bytes) -> None:
        self._counter.count(len(data))


@pytest.mark.parametrize(
    ("watchers", "events", "size"), [(200, 1, 1_000_000), (3000, 1, 10), (50, 20, 100_000), (1, 500, 100_000)]
)
async def test_what_many_watchers_are_told_is_written_in_portions(watchers: int, events: int, size: int) -> None:
    told, counter, turns, views = added(events, size), TurnCounter(), Turns(), Lines()

    async def serve() -> None:
        watch = Batches(told)
        await resources._pump(watch, Counting(counter), views, None, None, "", turns)  # type: ignore[arg-type]

    with counter:
        await asyncio.gather(*[serve() for _ in range(watchers)])
    assert views.encoded == watchers * events
    assert counter.most <= ALLOWANCE + resources.PORTION + max(len(event.line) for event in told)


async def test_small_events_to_many_watchers_count_too() -> None:
    told, counter, turns = added(1, 10), TurnCounter(), Turns()

    async def serve() -> None:
        async for _ in turns.share(iter([told[0].line])):
            counter.count()

    with counter:
        await asyncio.gather(*[serve() for _ in range(3000)])
    assert (counter.total, counter.most <= CALLED) == (3000, True)


async def test_nobody_new_goes_before_those_who_wait() -> None:
    turns, served = Turns(), list[int]()

    async def serve(number: int) -> None:
        async for _ in turns.share(iter([b"x" * ALLOWANCE])):
            served.append(number)

    tasks = []
    for number in range(50):
        tasks.append(asyncio.create_task(serve(2 * number)))
        tasks.append(asyncio.create_task(serve(2 * number + 1)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert served == list(range(100))


async def test_a_watcher_that_leaves_the_line_holds_nobody_up() -> None:
    turns, served = Turns(), []

    async def serve(number: int) -> None:
        async for _ in turns.share(iter([b"x" * ALLOWANCE])):
            served.append(number)

    tasks = [asyncio.create_task(serve(number)) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[1::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(served) == list(range(0, 20, 2))


class Socket:
    """A transport whose peer takes nothing: it tells the writer to wait as soon as it holds its limit."""

    def __init__(self) -> None:
        self.held = 0
        self.high = 0
        self.protocol: Connection | None = None

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.held += len(data)
        if self.held > self.high and self.protocol is not None:
            self.protocol.pause_writing()


class Anybody:
    """An application that is never asked."""


async def test_of_a_big_object_no_more_is_held_for_an_unread_watcher_than_of_small_ones() -> None:
    socket, connection = Socket(), Connection(Shared(Anybody()))  # type: ignore[arg-type]
    connection.connection_made(socket)  # type: ignore[arg-type]
    socket.protocol = connection
    writing = asyncio.create_task(connection.write(b"x" * 1_500_000))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not writing.done()
    assert socket.held <= STREAM_BUFFER + 2 * resources.PORTION
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_a_big_chunk_arrives_whole() -> None:
    socket, connection = Socket(), Connection(Shared(Anybody()))  # type: ignore[arg-type]
    connection.connection_made(socket)  # type: ignore[arg-type]
    await connection.write(b"x" * 1_500_000)
    assert socket.held == 1_500_000 + len(b"16e360\r\n\r\n")


class Kept:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.writes.append(data)


async def test_a_list_in_yaml_is_written_item_by_item() -> None:
    items = [
        {"metadata": {"name": str(n), "labels": {"a": "yes", "b": "1"}}, "data": {"x": "y\n" * n}} for n in range(50)
    ]
    shown = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}
    kept = Kept()
    await yaml_stream(shown, "items").produce(kept)
    assert yaml.safe_load(b"".join(kept.writes)) == shown
    assert len(kept.writes) > len(items)


# logs


def written(folder: Path, rows: int, name: str = "log") -> None:
    lines = [
        b"2026-01-01T%02d:%02d:%02d.000000000Z stdout F x\n" % (n // 3600 % 24, n // 60 % 60, n % 60)
        for n in range(rows)
    ]
    (folder / name).write_bytes(b"".join(lines))


async def read(folder: Path, **options: Any) -> tuple[bytes, int]:
    """What is shown, and how often others had a turn meanwhile."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "give_a_turn", turn)
        rows = logs.read_log(folder, LogOptions(**options), WallClock(), lambda: True)
        return b"".join([part async for part in rows]), turns


ROWS = 80_000
SINCE = 1_767_225_600.0


async def test_a_long_log_is_read_in_slices_between_which_others_have_a_turn(tmp_path: Path) -> None:
    written(tmp_path, ROWS)
    text, slices = await read(tmp_path)
    assert text == b"x\n" * ROWS
    assert slices >= (tmp_path / "log").stat().st_size // logs.CHUNK


async def test_a_log_is_read_no_further_than_asked_for(tmp_path: Path) -> None:
    written(tmp_path, ROWS)
    written(tmp_path, ROWS, "log.1")
    text, slices = await read(tmp_path, limit_bytes=10)
    assert (text, slices) == (b"x\n" * 5, 0)


async def test_a_log_since_a_time_begins_there(tmp_path: Path) -> None:
    written(tmp_path, ROWS)
    for since in (0, 1, 70_000, ROWS - 1, ROWS, ROWS + 5):
        text, slices = await read(tmp_path, since=SINCE + since)
        assert text == b"x\n" * max(ROWS - since, 0)
        assert slices <= (ROWS - since) * 46 // logs.CHUNK + 4


@pytest.mark.parametrize("count", [0, 1, 1500, 79_999, 80_000, 100_000])
async def test_the_last_lines_come_in_slices_too(tmp_path: Path, count: int) -> None:
    written(tmp_path, ROWS)
    text, slices = await read(tmp_path, tail_lines=count)
    assert text == b"x\n" * min(count, ROWS)
    assert slices >= min(count, ROWS) // 1000


async def test_a_thousand_watches_begun_at_once_begin_a_few_in_each_turn() -> None:
    turns = Turns()

    async def begin(counter: TurnCounter) -> None:
        await turns.begin()
        counter.count()

    with TurnCounter() as counter:
        await asyncio.gather(*(begin(counter) for _ in range(1000)))
    assert counter.total == 1000
    assert counter.most <= 2 * ALLOWANCE // BEGIN_COST
