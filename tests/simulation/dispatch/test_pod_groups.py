"""Groups of pods that run on a worker and whose Workload is deleted on the manager."""

from __future__ import annotations

import asyncio

from tests.dispatching import run_on_fleet
from tests.simulation.queueing.test_pods import pod

from corral.core.meta import name_of, status_of
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_a_group_whose_workload_is_deleted_goes_from_its_worker() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        manager = fleet.manager.client
        for name in ("a", "b", "c"):
            resource, made = pod(name, queue="user-queue", group="g", total="3")
            made["metadata"]["annotations"]["corral.dev/run-seconds"] = "100000"
            await manager.create(resource, made)
        await asyncio.sleep(10)
        worker = fleet.workers[status_of(await manager.get(WORKLOADS, "g", "default"))["clusterName"]]
        running = [one for one in (await worker.client.list(PODS)).items if status_of(one)["phase"] == "Running"]
        assert {name_of(one) for one in running} == {"a", "b", "c"}
        await manager.delete(WORKLOADS, "g", "default")
        await asyncio.sleep(90)
        assert (await worker.client.list(PODS)).items == (await worker.client.list(WORKLOADS)).items == []
        assert (await manager.list(PODS)).items == (await manager.list(WORKLOADS)).items == []

    run_on_fleet(script)
