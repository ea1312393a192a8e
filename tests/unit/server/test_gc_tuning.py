"""The cycle collector holds nobody up: a little at a time, and nothing where connections close."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from tests.waiting import eventually

from corral.client.kubeconfig import access, load
from corral.clusters.embedded_api import EmbeddedApi
from corral.server import gc_tuning
from corral.server.http.connection import Connection

FEW = 100_000
"""Objects that are walked in some hundredths of a second."""


def test_what_survived_is_looked_at_a_little_at_a_time() -> None:
    assert gc_tuning.YOUNG * gc_tuning.MIDDLE <= FEW


async def test_closed_connections_are_gone_without_the_collector(tmp_path: Path) -> None:
    served = EmbeddedApi(tmp_path)
    await served.start()
    served.server.write_kubeconfig(tmp_path / "kubeconfig")
    found = access(load(tmp_path / "kubeconfig"), "")
    watch = f"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {found.token}\r\n\r\n"
    gc.collect()
    before = _alive()
    gc.disable()
    try:
        await _watch_and_leave(int(found.server.rpartition(":")[2]), found.ssl_context(), watch.encode())
        await asyncio.to_thread(eventually, lambda: _alive() <= before, what="the end of the connections")
    finally:
        gc.enable()
        await served.stop()


async def _watch_and_leave(port: int, context: object, request: bytes) -> None:
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)  # type: ignore[arg-type]
        writer.write(request)
        assert await reader.read(100)
        writer.transport.abort()


def _alive() -> int:
    return sum(isinstance(one, Connection) for one in gc.get_objects())


def test_giving_memory_back_collects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(gc, "collect", lambda *generation: called.append(generation))
    gc_tuning.give_back_memory()
    assert not called
