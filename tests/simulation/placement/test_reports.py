"""Statuses that come home: `reportBackStrategy` with destination `OriginalResource`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.core.meta import Obj, status_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS

from .fleet import PlacementFleet, on_fleet

BACK = {"type": "Mirror", "destination": "OriginalResource"}
ONE: Obj = {"placementType": "PickFixed", "clusterNames": ["cluster-2"]}


async def place_queue(fleet: PlacementFleet, policy: Obj, report: Obj = BACK) -> None:
    hub = fleet.hub.client
    await hub.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    quota = [{"name": "cpu", "nominalQuota": "4"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quota}]}]
    await hub.create(CLUSTER_QUEUES, {"metadata": {"name": "queue"}, "spec": {"resourceGroups": groups}})
    selectors = [
        {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": kind, "name": name}
        for kind, name in (("ResourceFlavor", "default"), ("ClusterQueue", "queue"))
    ]
    spec: dict[str, Any] = {
        "resourceSelectors": selectors,
        "policy": policy,
        "strategy": {"type": "RollingUpdate", "reportBackStrategy": report},
    }
    await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "queue"}, "spec": spec})
    await asyncio.sleep(60)


def test_the_status_of_a_placed_object_shows_on_the_hub() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await place_queue(fleet, ONE)
        there = await fleet.members["cluster-2"].client.get(CLUSTER_QUEUES, "queue")
        here = await fleet.hub.client.get(CLUSTER_QUEUES, "queue")
        assert status_of(there)["conditions"][0]["type"] == "Active"
        assert status_of(here) == status_of(there)

    on_fleet(scenario)


@pytest.mark.parametrize(
    ("policy", "report"),
    [({"placementType": "PickAll"}, BACK), (ONE, {"type": "Mirror", "destination": "WorkAPI"})],
)
def test_it_does_not_when_there_are_several_or_nobody_asked(policy: Obj, report: Obj) -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await place_queue(fleet, policy, report)
        assert "conditions" not in status_of(await fleet.hub.client.get(CLUSTER_QUEUES, "queue"))
        told = [one["reason"] for one in (await fleet.hub.client.list(EVENTS)).items]
        assert ("StatusNotReportedBack" in told) == (report == BACK)

    on_fleet(scenario)
