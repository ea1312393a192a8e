"""What a start costs for each Workload that waits, counted in calls of our functions: it neither grows nor comes back."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from corral.controllers.queueing.setup import Queueing
from corral.core.meta import Key
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster
from corral.testing.queueing import make_cluster_queue, make_flavor, make_local_queue, make_workload

FEW, MANY = 200, 1400
CALLS = 165
"""Calls for one Workload: 160 on the day this was written, 243 before, and more the more there were."""

OURS = str(Path(sys.modules["corral"].__file__ or "").parent)


async def calls_of_a_start(count: int) -> int:
    """Calls of Corral's functions when queueing begins to follow so many Workloads that wait."""
    cluster = VirtualCluster(lifecycle=False)
    async with cluster:
        client = cluster.client
        await client.create(RESOURCE_FLAVORS, make_flavor("f"))
        await client.create(CLUSTER_QUEUES, make_cluster_queue("cq", {"f": {"cpu": 1}}))
        await client.create(LOCAL_QUEUES, make_local_queue("lq", "cq"))
        for number in range(count):
            workload = make_workload(f"w{number}", "lq", requests={"cpu": 1000})
            await client.create(WORKLOADS, {name: workload[name] for name in ("metadata", "spec")})
        queueing = Queueing()
        calls = 0

        def note(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code.co_filename.startswith(OURS)

        beside = cluster.manager.beside()
        queueing.setup(beside)
        sys.setprofile(note)
        try:
            await beside.start()
        finally:
            sys.setprofile(None)
        view = queueing.state.questions.local_queue(Key("default", "lq"))
        assert view is not None
        assert view.pending == count
        await beside.stop()
        return calls


def test_each_workload_that_waits_costs_a_start_a_few_calls_however_many_there_are() -> None:
    few, many = run_virtual(lambda: calls_of_a_start(FEW)), run_virtual(lambda: calls_of_a_start(MANY))
    assert (many - few) / (MANY - FEW) <= CALLS
