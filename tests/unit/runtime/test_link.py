"""Frames and sockets between a process and one it has started."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from corral.runtime import link
from corral.runtime.link import Handing, Link


class Taken:
    """Frames that have come."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self._came = asyncio.Event()

    def take(self, frame: bytes) -> None:
        self.frames.append(frame)
        self._came.set()

    async def until(self, count: int) -> list[bytes]:
        async with asyncio.timeout(30):
            while len(self.frames) < count:
                self._came.clear()
                await self._came.wait()
        return self.frames


async def tied(taken: Taken, ended: Callable[[], None] = lambda: None) -> Link:
    """The sending end of a pair."""
    one, other = link.pair()
    await Link.over(other, taken.take, ended)
    return await Link.over(one, lambda frame: None, lambda: None)


async def test_frames_arrive_whole_and_in_order() -> None:
    taken = Taken()
    sender = await tied(taken)
    frames = [b"", b"a", b"b" * 70_000, b"\x00\x00\x00\x05", b"c" * 3_000_000, b"d"]
    for frame in frames:
        sender.send(frame)
    assert await taken.until(len(frames)) == frames


async def test_what_was_sent_arrives_before_the_end_is_told() -> None:
    taken, gone = Taken(), asyncio.Event()
    sender = await tied(taken, gone.set)
    sender.send(b"last words")
    sender.close()
    async with asyncio.timeout(30):
        await gone.wait()
    assert taken.frames == [b"last words"]
    sender.send(b"nobody hears this")


async def test_who_sends_faster_than_the_other_takes_can_wait_and_count() -> None:
    one, other = link.pair()
    sender = await Link.over(one, lambda frame: None, lambda: None)
    sender.send(b"x" * 5_000_000)
    await asyncio.sleep(0)
    assert sender.unsent > 1_000_000
    waiting = asyncio.create_task(sender.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    taken = Taken()
    await Link.over(other, taken.take, lambda: None)
    async with asyncio.timeout(30):
        await waiting
    assert [len(frame) for frame in await taken.until(1)] == [5_000_000]


async def test_a_socket_goes_on_where_it_is_handed_to() -> None:
    one, other = link.pair()
    giving, taking = Handing(one), Handing(other)
    arrived: asyncio.Queue[socket.socket] = asyncio.Queue()
    taking.receive(arrived.put_nowait)
    ours, theirs = socket.socketpair()
    assert giving.give(theirs)
    assert theirs.fileno() == -1, "it is not ours any more"
    async with asyncio.timeout(30):
        handed = await arrived.get()
    handed.sendall(b"here")
    assert ours.recv(10) == b"here"
    ours.close()
    handed.close()
    giving.close()
    taking.close()


async def test_nothing_is_given_to_who_is_gone() -> None:
    one, other = link.pair()
    other.close()
    giving = Handing(one)
    ours, theirs = socket.socketpair()
    assert not giving.give(theirs)
    assert theirs.fileno() != -1, "it is still ours"
    ours.close()
    theirs.close()
    giving.close()
