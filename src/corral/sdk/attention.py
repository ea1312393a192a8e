"""While jobs are waited for: warnings of what keeps them from running, each once."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from corral.core.resource import Resource
from corral.inspect.concerns import Attention
from corral.sdk.errors import CorralError, JobWarning

if TYPE_CHECKING:
    from corral.sdk.connection import Connection


@asynccontextmanager
async def attentive(connection: Connection, jobs: Iterable[tuple[Resource, str, str]]) -> AsyncIterator[Attention]:
    """Look at some jobs (kind, namespace, name) now and then, for as long as the block lasts."""
    attention = Attention(jobs, asyncio.get_running_loop().time())
    looking = asyncio.create_task(_look(connection, attention))
    try:
        yield attention
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _look(connection: Connection, attention: Attention) -> None:
    while True:
        await asyncio.sleep(attention.pause)
        try:
            news = await connection.ask(attention.look, asyncio.get_running_loop().time())
        except CorralError:
            continue  # whoever waits learns of it
        for sentence in news:
            warnings.warn(sentence, JobWarning, stacklevel=1)  # the caller's own line is in another thread
