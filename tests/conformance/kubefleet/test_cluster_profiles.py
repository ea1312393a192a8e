"""ClusterProfiles: the inventory that mirrors members."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub

from corral.core.conditions import find
from corral.core.errors import NotFound
from corral.kinds.fleet import (
    CLUSTER_PROFILES,
    MEMBER_CLUSTERS,
)
from corral.kinds.fleet.names import PROFILE_CLEANUP

ONE = ("cluster-1",)


# The inventory


def test_136_cluster_profiles_mirror_members() -> None:
    async def scenario(hub: Hub) -> None:
        found = (await hub.client.list(CLUSTER_PROFILES, "fleet-system")).items
        assert [one["metadata"]["name"] for one in found] == ["cluster-1", "cluster-2", "cluster-3"]
        assert found[0]["metadata"]["labels"] == {"x-k8s.io/cluster-manager": "KubeFleet"}
        assert found[0]["spec"] == {"clusterManager": {"name": "KubeFleet"}, "displayName": "cluster-1"}
        assert find(found[0], "ControlPlaneHealthy")["reason"] == "MemberClusterAPIServerHealthy"  # type: ignore[index]
        member = await hub.client.get(MEMBER_CLUSTERS, "cluster-1")
        assert PROFILE_CLEANUP in member["metadata"]["finalizers"]

        await hub.patch(CLUSTER_PROFILES, "cluster-1", {"spec": {"displayName": "somebody"}}, "fleet-system")
        await hub.client.delete(CLUSTER_PROFILES, "cluster-2", "fleet-system")
        await hub.settle()
        assert (await hub.client.get(CLUSTER_PROFILES, "cluster-1", "fleet-system"))["spec"] == found[0]["spec"]
        assert await hub.client.get(CLUSTER_PROFILES, "cluster-2", "fleet-system")

        await hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await hub.advance(20)
        with pytest.raises(NotFound):
            await hub.client.get(CLUSTER_PROFILES, "cluster-2", "fleet-system")
        with pytest.raises(NotFound):
            await hub.client.get(MEMBER_CLUSTERS, "cluster-2")

    on_hub(scenario)


def test_136_a_silent_member_is_unhealthy_in_the_inventory() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.silent.add("cluster-1")
        await hub.advance(250)
        healthy = find(await hub.client.get(CLUSTER_PROFILES, "cluster-1", "fleet-system"), "ControlPlaneHealthy")
        assert healthy is not None
        assert (healthy["status"], healthy["reason"]) == ("False", "MemberAgentHeartbeatLost")
        hub.members.silent.clear()
        hub.members.healthy["cluster-1"] = False
        await hub.beat("cluster-1")
        healthy = find(await hub.client.get(CLUSTER_PROFILES, "cluster-1", "fleet-system"), "ControlPlaneHealthy")
        assert healthy is not None
        assert (healthy["status"], healthy["reason"]) == ("False", "MemberClusterAPIServerUnhealthy")

    on_hub(scenario, members=ONE)
