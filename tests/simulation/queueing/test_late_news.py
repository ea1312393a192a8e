"""News of our own writes that comes late: nobody waits for it, and nothing is written twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.client.protocol import WatchEvent
from corral.core.meta import Obj, spec_of
from corral.core.resource import Resource
from corral.kinds.kueue import WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.server.local import LocalClient

from .world import JOBS, World, cluster_queue, fill, flavor, job, local_queue


def test_a_job_starts_and_has_one_workload_before_the_watch_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, create, created = LocalClient.watch, LocalClient.create, Counter[str]()

    async def late(self: LocalClient, resource: Resource, *where: Any, **options: Any) -> AsyncIterator[WatchEvent]:
        async for event in watch(self, resource, *where, **options):
            if resource == WORKLOADS and event.type != "BOOKMARK":
                await asyncio.sleep(60)
            yield event

    async def counted(self: LocalClient, resource: Resource, obj: Obj, **options: Any) -> Obj:
        created[resource.plural] += 1
        return await create(self, resource, obj, **options)

    async def main() -> None:
        monkeypatch.setattr(LocalClient, "watch", late)
        async with World() as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            monkeypatch.setattr(LocalClient, "create", counted)
            await world.client.create(*job("first"))
            await asyncio.sleep(1)
            await world.client.patch(JOBS, "first", "default", {"metadata": {"labels": {"another": "look"}}})
            await asyncio.sleep(1)
            assert created["workloads"] == 1
            assert spec_of(await world.job("first"))["suspend"] is False
            monkeypatch.undo()

    run_virtual(main)
