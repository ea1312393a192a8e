"""A StatefulSet that is dispatched: its counts come back from the worker."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.configured_fleet import on_fleet

from corral.core import conditions
from corral.core.meta import status_of
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_the_counts_of_a_stateful_set_come_back() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        labels = {"app": "db"}
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"serviceName": "db", "replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        queue = {"kueue.x-k8s.io/queue-name": "user-queue"}
        metadata = {"name": "db", "namespace": "default", "labels": queue}
        client = fleet.manager.client
        await client.create(STATEFUL_SETS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(20)
        held = await client.get(STATEFUL_SETS, "db", "default")
        assert (status_of(held)["replicas"], status_of(held)["readyReplicas"]) == (2, 2)
        assert conditions.is_true(held, "Dispatched")
        await client.delete(STATEFUL_SETS, "db", "default", propagation="Background")
        await asyncio.sleep(40)
        for worker in fleet.workers.values():
            assert (await worker.client.list(STATEFUL_SETS)).items == []
            assert (await worker.client.list(WORKLOADS)).items == []

    on_fleet(check, "pod", "statefulset")
