"""Informers over a real kube-apiserver take what is there from their watch, and from pages where the server does not offer that."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import ControlPlane, eventually, programs

from corral.client import kubeconfig, limits
from corral.client.http import HttpClient
from corral.client.protocol import ObjectList, WatchEvent
from corral.client.wrapper import ClientWrapper
from corral.core.meta import Key
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.runtime.clock import WallClock
from corral.runtime.informer import Informer
from corral.runtime.random import Random

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
COUNT = limits.LIST_PAGE + 200


class Asked(ClientWrapper):
    """Notes how an informer asks."""

    def __init__(self, client: HttpClient) -> None:
        super().__init__(lambda: client)
        self.how: list[str] = []

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        self.how.append("page")
        return await super().list(resource, namespace, **options)

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        self.how.append("stream" if options.get("initial") else "watch")
        async for event in super().watch(resource, namespace, **options):
            yield event


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ((), ["stream"], ["stream"]),
        (("--feature-gates=WatchList=false",), ["stream", "page", "page", "watch"], ["page", "page", "watch"]),
    ],
    ids=["offered", "not offered"],
)
async def test_what_is_there_and_what_comes(
    options: tuple[str, ...], first: list[str], second: list[str], tmp_path: Path
) -> None:
    assert BINARIES is not None
    plane = ControlPlane("streams", tmp_path, BINARIES)
    try:
        plane.start(options=options)
        client = HttpClient(kubeconfig.access(kubeconfig.load(plane.kubeconfig), "", folder=plane.folder))
        await eventually(lambda: client.get(NAMESPACES, "default"))
        await client.create(NAMESPACES, {"metadata": {"name": "many"}})
        gate = asyncio.Semaphore(16)

        async def make(name: str) -> None:
            async with gate:
                await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "many"}})

        await asyncio.gather(*(make(f"c{number}") for number in range(COUNT)))
        for number, expected in enumerate((first, second)):
            asked = Asked(client)
            informer = Informer(asked, CONFIG_MAPS, WallClock(), Random(1))
            running = asyncio.ensure_future(informer.run())
            await informer.synced()
            assert sum(obj["metadata"]["name"].startswith("c") for obj in informer.list("many")) == COUNT
            late = f"late-{number}"
            await make(late)
            await eventually(partial(_has, informer, Key("many", late)))
            assert asked.how == expected
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await client.close()
    finally:
        plane.stop()


async def _has(informer: Informer, key: Key) -> bool:
    return informer.get(key) is not None
