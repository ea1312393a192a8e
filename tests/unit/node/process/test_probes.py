"""Whatever a program answers its probe, the probe has a result."""

from __future__ import annotations

import asyncio

import pytest

from corral.node.process.probes import ProbeTarget, check

ANSWERS = {
    "well": (b"HTTP/1.1 204 No Content\r\n\r\n", None),
    "ill": (b"HTTP/1.1 503 x\r\n\r\n", "503"),
    "a line without end": (b"H" * 200_000, "limit"),
    "a number without end": (b"HTTP/1.1 " + b"9" * 20_000 + b"\r\n", "statuscode: 0"),
    "nothing": (b"", "statuscode: 0"),
    "no HTTP": (b"\x00\xff\r\n", "statuscode: 0"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_every_answer_is_a_result(name: str) -> None:
    answer, wanted = ANSWERS[name]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def execute(command: list[str], timeout: float) -> tuple[int, str]:
        return 0, ""

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        target = ProbeTarget({}, "127.0.0.1", execute)
        port = server.sockets[0].getsockname()[1]
        problem = await check({"httpGet": {"port": port}, "timeoutSeconds": 10}, target)
    assert problem is None if wanted is None else wanted in str(problem)
