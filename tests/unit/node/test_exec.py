"""Streams of programs started in containers, on the event loop that clusters run on."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop
from tests.waiting import PATIENCE_S

from corral.node.exec import ProcessSession, _Input
from corral.node.process.connection import SupervisorConnection

TURNS = 100
MORE_THAN_A_PIPE_HOLDS = b"x" * (1 << 20)


def on_uvloop(main: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await main()

    uvloop.run(run())


def test_nobody_but_its_reader_takes_what_a_terminal_shows() -> None:
    async def main() -> None:
        session = ProcessSession(cast("SupervisorConnection", None), "exec.1")
        (theirs,) = await session._open_terminal()
        (reader,) = cast("list[asyncio.ReadTransport]", session._transports)
        reader.pause_reading()
        os.write(theirs, b"shown")
        assert session._terminal is not None
        assert select.select([session._terminal], [], [], PATIENCE_S)[0]
        for _ in range(TURNS):
            await asyncio.sleep(0)  # whoever else reads has his chance
        reader.resume_reading()
        assert await anext(session.read()) == (1, b"shown")
        await session.write(b"keys\n")
        assert await asyncio.to_thread(os.read, theirs, 100) == b"keys\n"
        session._close()
        os.close(theirs)

    on_uvloop(main)


def test_who_writes_to_a_program_that_does_not_read_waits_and_is_let_go_at_its_end() -> None:
    async def main() -> None:
        theirs, ours = os.pipe()
        keys = _Input(ours)
        writing = asyncio.create_task(keys.write(MORE_THAN_A_PIPE_HOLDS))
        taken = 0
        while taken < 1 << 19:
            taken += len(await asyncio.to_thread(os.read, theirs, 1 << 16))
        assert not writing.done()
        os.close(theirs)
        await writing
        await keys.write(b"nobody is there")

    on_uvloop(main)


def test_closing_lets_go_of_who_waits() -> None:
    async def main() -> None:
        theirs, ours = os.pipe()
        keys = _Input(ours)
        writing = asyncio.create_task(keys.write(MORE_THAN_A_PIPE_HOLDS))
        assert await asyncio.to_thread(os.read, theirs, 1)
        keys.close()
        await writing
        keys.close()
        os.close(theirs)

    on_uvloop(main)
