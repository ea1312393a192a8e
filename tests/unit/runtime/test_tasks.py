"""Coroutines that end together."""

from __future__ import annotations

import asyncio

from corral.runtime.tasks import until_one_ends


async def test_the_first_to_end_ends_the_others() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("forever")

    async def brief() -> None:
        await asyncio.sleep(0)
        ended.append("brief")

    await until_one_ends(forever(), brief())
    assert ended == ["brief", "forever"]
