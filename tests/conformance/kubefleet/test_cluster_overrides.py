"""Overrides of cluster scoped objects, alone and beside those of namespaced ones."""

from __future__ import annotations

from hub import Hub, config_selector, namespace_selector, on_hub
from test_overrides import EVERYWHERE, cluster_override, data, on, override, replace, rule

from corral.core.meta import status_of

# Overrides of the other kind


def test_124_a_cluster_override_of_another_placement_is_ignored() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        add = {"op": "add", "path": "/metadata/labels", "value": {"x": "1"}}
        await cluster_override(hub, rule(EVERYWHERE, add), placement={"name": "other"})
        await hub.place("app")
        (namespace, _) = await hub.manifests("cluster-1", "app-work")
        assert "x" not in namespace["metadata"].get("labels", {})
        assert (await hub.conditions("app"))["Overridden"][1] == "NoOverrideSpecified"

    on_hub(scenario)


def test_126_a_cluster_override_keeps_a_namespace_from_one_cluster() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await cluster_override(hub, rule(on(region="west"), kind="Delete"))
        await hub.place("app")
        assert await hub.manifests("cluster-3", "app-work") == []
        assert await data(hub) == {"cluster-1": "1", "cluster-2": "1", "cluster-3": ""}
        assert (await hub.conditions("app"))["Overridden"][1] == "OverriddenSucceeded"

    on_hub(scenario)


def test_127_overrides_of_both_kinds_with_the_namespace_only() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        add = {"op": "add", "path": "/metadata/labels", "value": {"from": "cro"}}
        await cluster_override(hub, rule(EVERYWHERE, add))
        await override(hub, rule(EVERYWHERE, replace("/data/a", "2")))
        await hub.place("app", selectors=[namespace_selector("app", "NamespaceOnly")])
        (namespace,) = await hub.manifests("cluster-1", "app-work")
        assert namespace["metadata"]["labels"] == {"from": "cro"}
        entry = status_of(await hub.placement("app"))["placementStatuses"][0]
        assert entry["applicableClusterResourceOverrides"] == ["cro-0"]
        assert "applicableResourceOverrides" not in entry
        await hub.place("inside", "app", [config_selector("conf")])
        assert set((await data(hub, "app.inside-work")).values()) == {"2"}

    on_hub(scenario)
