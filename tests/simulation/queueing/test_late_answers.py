"""Answers that come after the news of what happened next: quota is never kept for what is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.controllers.queueing.context import QueueingContext
from corral.core.meta import Obj, status_of
from corral.kinds.kueue import CLUSTER_QUEUES
from corral.runtime.virtual import run_virtual

from .world import JOBS, World, cluster_queue, condition, fill, flavor, job, local_queue


def test_a_workload_deleted_before_its_admission_is_answered_gives_its_quota_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_status = QueueingContext.write_status

    async def main() -> None:
        async with World() as world:

            async def answered_late(self: QueueingContext, new: Obj, **options: Any) -> Obj:
                written = await write_status(self, new, **options)
                await self.clock.sleep(5)
                return written

            await fill(world, flavor(), cluster_queue(cpu="1"), local_queue())
            monkeypatch.setattr(QueueingContext, "write_status", answered_late)
            await world.client.create(*job("first"))
            await asyncio.sleep(1)
            await world.client.delete(JOBS, "first", "default", propagation="Background")
            await asyncio.sleep(10)
            monkeypatch.undo()
            await fill(world, job("second"))
            await world.advance(10)
            assert condition(await world.workload_of("second"), "Admitted") is not None
            queue = await world.client.get(CLUSTER_QUEUES, "cq")
            assert status_of(queue)["reservingWorkloads"] == 1

    run_virtual(main)
