"""What a manager measures of its connections and of how long dispatching takes."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import job, on_fleet

from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS
from corral.simulate.fleet import SimulatedFleet


def test_connections_and_latency_are_measured() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(seconds=1))
        await asyncio.sleep(3)
        fleet.links["worker2"].set(cut=True)
        await asyncio.sleep(30)
        text = fleet.manager.manager.metrics.exposition().decode()
        assert 'corral_dispatch_connected{cluster="worker1"} 1.0' in text
        assert 'corral_dispatch_connected{cluster="worker2"} 0.0' in text
        assert "corral_dispatch_seconds_count" in text
        assert 'corral_dispatch_connection_changes_total{cluster="worker2",reason="Active"} 1.0' in text
        lost = '{cluster="worker2",reason="ClientConnectionFailed"} 1.0'
        assert f"corral_dispatch_connection_changes_total{lost}" in text
        await fleet.manager.client.delete(MULTI_KUEUE_CLUSTERS, "worker2")
        await asyncio.sleep(1)
        assert 'corral_dispatch_connected{cluster="worker2"}' not in fleet.manager.manager.metrics.exposition().decode()

    on_fleet(check)
