"""Envelopes: what they may hold and how they are unpacked."""

from __future__ import annotations

from fleet import PlacementFleet, on_fleet
from hub import Hub, namespace_selector, on_hub

from corral.core.meta import status_of
from corral.kinds.fleet import (
    CLUSTER_RESOURCE_PLACEMENTS,
    ENVELOPES,
)
from corral.kinds.kubernetes.core.kinds import NAMESPACES

ONE = ("cluster-1",)


def test_144_an_envelope_is_unpacked_and_may_not_hold_what_is_cluster_scoped() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in", "namespace": "app"}}
        metadata = {"name": "wrap", "namespace": "app"}
        await hub.client.create(ENVELOPES, {"metadata": metadata, "data": {"in.yaml": inside}})
        hub.members.broken.add(("cluster-1", "in"))
        await hub.place("app")
        entry = status_of(await hub.placement("app"))["placementStatuses"][0]
        (failed,) = entry["failedPlacements"]
        assert (failed["name"], failed["envelope"]["name"]) == ("in", "wrap")
        hub.members.broken.clear()
        await hub.recheck()
        assert (await hub.conditions("app"))["Available"][0] == "True"

        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
        await hub.patch(ENVELOPES, "wrap", {"data": {"role.yaml": role}}, "app")
        await hub.advance(60)
        status, _, _ = (await hub.conditions("app"))["WorkSynchronized"]
        assert status == "False"
        entry = status_of(await hub.placement("app"))["placementStatuses"][0]
        assert "a cluster-scoped object role.yaml (r) has been wrapped" in entry["conditions"][-1]["message"]

    on_hub(scenario, members=ONE)


def test_144_a_generated_name_in_an_envelope_is_refused_by_the_member() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        hub = fleet.hub.client
        await hub.create(NAMESPACES, {"metadata": {"name": "app"}})
        inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "in-", "namespace": "app"}}
        await hub.create(ENVELOPES, {"metadata": {"name": "wrap", "namespace": "app"}, "data": {"in.yaml": inside}})
        spec = {"resourceSelectors": [namespace_selector("app")]}
        await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "app"}, "spec": spec})
        await fleet.hub.advance(10)
        (failed,) = status_of(await fleet.placement("app"))["placementStatuses"][0]["failedPlacements"]
        assert failed["envelope"]["name"] == "wrap"
        assert failed["condition"]["reason"] == "FoundGenerateName"
        assert "objects with only generate name are not supported" in failed["condition"]["message"]

    on_fleet(scenario)
