"""Open connections never take the last descriptor of a process: the next client is let in, and so is what the server itself opens."""

from __future__ import annotations

import asyncio
import resource
import ssl
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from corral.core.server_limits import Limits
from corral.server.http.listener import within

FEW = 256


def test_limits_are_kept_to_where_there_are_descriptors_enough() -> None:
    assert within(Limits(), 20_000) == Limits()
    assert within(Limits(connections=5), FEW) == Limits(connections=5)


@pytest.mark.parametrize("descriptors", [64, FEW, 1024, 4096])
def test_of_few_descriptors_some_are_left_and_strangers_have_a_part_of_the_rest(descriptors: int) -> None:
    kept = within(Limits(), descriptors)
    assert kept.connections < descriptors * 3 // 4
    assert kept.strangers <= kept.connections // 4


@pytest.mark.parametrize("hard", [FEW, 4096], ids=["that is all", "more are to be had"])
async def test_whoever_comes_finds_room_beside_strangers_who_stay(tmp_path: Path, hard: int) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))

    command = [
        "-m",
        "corral",
        "serve",
        "--state",
        str(tmp_path / "state"),
        "--kubeconfig",
        str(tmp_path / "kubeconfig"),
    ]
    server = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, preexec_fn=few
    )
    try:
        assert server.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            ready = (await server.stdout.readline()).decode()
        port = int(ready.partition("127.0.0.1:")[2].partition(",")[0])
        context = ssl.create_default_context(cafile=str(tmp_path / "state" / "pki" / "ca.crt"))
        held = []
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(FEW + 50):
                held.append(await asyncio.open_connection("127.0.0.1", port, ssl=context))
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in await reader.readline()
        for _, stranger in [*held, (reader, writer)]:
            stranger.transport.abort()
    finally:
        server.terminate()
        await server.wait()
