"""Which queues are counted again after their Workloads changed, and how often that is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from corral.controllers.queueing.queues.status import Recounts
from corral.core.meta import Key, Obj
from corral.runtime.controller import Controller
from corral.runtime.informer import Informer
from corral.runtime.queue import WorkQueue
from corral.runtime.virtual import run_virtual
from corral.testing.queueing import make_assignment, make_workload, reserve


def test_of_workloads_that_change_together_one_for_each_queue_is_asked_about() -> None:
    asked: list[str] = []

    def of(workload: Obj) -> Iterable[Key]:
        asked.append(workload["metadata"]["name"])
        held = (workload.get("status") or {}).get("admission") or {}
        return [Key("", name) for name in (workload["spec"]["queueName"], held.get("clusterQueue")) if name]

    async def main() -> list[Key]:
        queue: WorkQueue[Key] = WorkQueue()
        recounts = Recounts()
        recounts.add(cast(Controller, SimpleNamespace(queue=queue)), cast(Informer, ()), of)
        workloads = [make_workload(f"w{number}", f"lq{number % 2}", requests={"cpu": 1}) for number in range(100)]
        for workload in workloads:
            recounts.changed(None, workload)
        recounts.changed(workloads[0], _admitted(workloads[0]))
        await asyncio.sleep(0)
        assert asked == ["w0", "w1", "w0"]
        recounts.changed(workloads[4], None)
        await asyncio.sleep(2)
        assert asked[3:] == ["w4"], "what changes later is asked about again"
        found: list[Any] = [await queue.get() for _ in range(len(queue))]
        return found

    assert run_virtual(main) == [Key("", "lq0"), Key("", "lq1"), Key("", "cq")]


def _admitted(workload: Obj) -> Obj:
    return reserve(workload, "cq", make_assignment("main", {"cpu": "f"}, {"cpu": 1}, 1))
