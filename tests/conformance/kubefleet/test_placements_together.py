"""Placements beside each other and beside workloads on the hub: who has an object, and what travels."""

from __future__ import annotations

from fleet import PlacementFleet, on_fleet
from hub import Hub, config_selector, namespace_selector, on_hub

from corral.configuration.placement import PlacementSettings
from corral.core.conditions import find
from corral.core.meta import Obj, status_of
from corral.kinds.fleet import (
    CLUSTER_RESOURCE_PLACEMENTS,
    RESOURCE_PLACEMENTS,
)
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS, REPLICA_SETS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES

ONE = ("cluster-1",)
LABELS = {"matchLabels": {"app": "x"}}
POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}


def test_142_a_namespace_and_its_contents_may_be_placed_apart() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", selectors=[namespace_selector("app", "NamespaceOnly")])
        await hub.place("contents", "app", selectors=[config_selector("conf")])
        assert [one["kind"] for one in await hub.manifests("cluster-1", "app-work")] == ["Namespace"]
        assert [one["kind"] for one in await hub.manifests("cluster-1", "app.contents-work")] == ["ConfigMap"]
        assert (await hub.conditions("contents", "app"))["Available"][0] == "True"

    on_hub(scenario)


def test_145_with_workloads_on_the_hub_only_what_users_wrote_travels() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        spec = {"selector": LABELS, "template": POD}
        owner = await hub.client.create(DEPLOYMENTS, {"metadata": {"name": "x", "namespace": "app"}, "spec": spec})
        reference = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "x",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": "x-1", "namespace": "app", "ownerReferences": [reference]}
        await hub.client.create(REPLICA_SETS, {"metadata": metadata, "spec": spec})
        await hub.place("app")
        kinds = [one["kind"] for one in await hub.manifests("cluster-1", "app-work")]
        assert kinds == ["Namespace", "Deployment"]

    on_hub(scenario, members=ONE, settings=PlacementSettings(admit_workloads=True))


# Two placements and one object


def test_143_a_resource_placement_is_told_that_a_cluster_placement_has_the_object() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        hub = fleet.hub.client
        await hub.create(NAMESPACES, {"metadata": {"name": "app"}})
        await hub.create(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": "app"}, "data": {"a": "1"}})
        spec: Obj = {"resourceSelectors": [namespace_selector("app")]}
        await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "app"}, "spec": spec})
        await fleet.hub.advance(10)
        spec = {"resourceSelectors": [config_selector("conf")], "policy": {"placementType": "PickAll"}}
        await hub.create(RESOURCE_PLACEMENTS, {"metadata": {"name": "mine", "namespace": "app"}, "spec": spec})
        await fleet.hub.advance(10)
        second = await fleet.placement("mine", "app")
        applied = find(second, "ResourcePlacementApplied")
        assert applied is not None
        assert (applied["status"], applied["reason"]) == ("False", "ApplyFailed")
        (failed,) = status_of(second)["placementStatuses"][0]["failedPlacements"]
        assert failed["condition"]["reason"] == "FailedToTakeOver"
        assert "already owned by some other sources(s)" in failed["condition"]["message"]
        await hub.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await fleet.hub.advance(400)
        live = await fleet.members["cluster-1"].client.list(CONFIG_MAPS, "app")
        assert [one["metadata"]["name"] for one in live.items if one["metadata"]["name"] == "conf"] == []

    on_fleet(scenario)
