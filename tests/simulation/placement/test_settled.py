"""A placement that has all it asked for is not scheduled again, although its status is held back for a moment."""

from __future__ import annotations

import pytest

from corral.configuration.placement import PlacementSettings
from corral.core.meta import Obj, status_of
from corral.kinds.fleet import CLUSTER_POLICY_SNAPSHOTS, MEMBER_CLUSTERS

from .hub import Hub, on_hub

GOLD = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"tier": "gold"}}}]}
ONE_OF_GOLD: Obj = {
    "placementType": "PickN",
    "numberOfClusters": 1,
    "affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": GOLD}},
}


async def _label(hub: Hub, cluster: str, **labels: str) -> None:
    await hub.patch(MEMBER_CLUSTERS, cluster, {"metadata": {"labels": labels}})
    await hub.cluster.settle()


@pytest.mark.parametrize("settings", [None, PlacementSettings.upstream()], ids=["shipped", "upstream"])
def test_two_news_at_once_do_not_make_it_forget_who_was_not_picked(settings: PlacementSettings | None) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.place("app", policy=ONE_OF_GOLD)
        await _label(hub, "cluster-1", tier="gold")
        await _label(hub, "cluster-2", tier="gold")
        await hub.settle()
        (policy,) = (await hub.client.list(CLUSTER_POLICY_SNAPSHOTS)).items
        decisions = {one["clusterName"]: one["selected"] for one in status_of(policy)["targetClusters"]}
        assert decisions == {"cluster-1": True, "cluster-2": False, "cluster-3": False}
        assert await hub.clusters("app") == ["cluster-1"]

    on_hub(scenario, settings=settings)
