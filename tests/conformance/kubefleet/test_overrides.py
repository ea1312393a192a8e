"""Upstream's scenarios 123 to 132: overrides, which change what single clusters get."""

from __future__ import annotations

import pytest
from hub import Hub, config_selector, on_hub

from corral.core.errors import Forbidden
from corral.core.meta import Obj, status_of
from corral.kinds.fleet import CLUSTER_OVERRIDES, OVERRIDES

EVERYWHERE: Obj = {"clusterSelectorTerms": []}


def on(**labels: str) -> Obj:
    return {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}


def rule(selector: Obj, *patches: Obj, kind: str = "JSONPatch") -> Obj:
    found: Obj = {"clusterSelector": selector, "overrideType": kind}
    return {**found, "jsonPatchOverrides": list(patches)} if patches else found


def replace(path: str, value: object) -> Obj:
    return {"op": "replace", "path": path, "value": value}


async def override(hub: Hub, *rules: Obj, name: str = "ro", target: str = "conf", **more: Obj) -> None:
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": target}
    spec = {"resourceSelectors": [selector], "policy": {"overrideRules": list(rules)}, **more}
    await hub.client.create(OVERRIDES, {"metadata": {"name": name, "namespace": "app"}, "spec": spec})
    await hub.settle()


async def cluster_override(hub: Hub, *rules: Obj, name: str = "cro", **more: Obj) -> None:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
    spec = {"clusterResourceSelectors": [selector], "policy": {"overrideRules": list(rules)}, **more}
    await hub.client.create(CLUSTER_OVERRIDES, {"metadata": {"name": name}, "spec": spec})
    await hub.settle()


async def data(hub: Hub, work: str = "app-work") -> dict[str, str]:
    found = {}
    for cluster in ("cluster-1", "cluster-2", "cluster-3"):
        manifests = await hub.manifests(cluster, work)
        found[cluster] = next((one["data"]["a"] for one in manifests if one["kind"] == "ConfigMap"), "")
    return found


async def start(hub: Hub) -> None:
    await hub.namespace("app", conf={"a": "1"})
    await hub.place("app")


def test_123_rules_per_cluster_and_all_that_match_apply() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await override(
            hub,
            rule(EVERYWHERE, replace("/data/a", "all")),
            rule(on(region="east"), replace("/data/a", "east")),
            rule(on(env="canary"), replace("/data/a", "canary")),
        )
        await hub.place("app")
        assert await data(hub) == {"cluster-1": "east", "cluster-2": "canary", "cluster-3": "all"}
        assert (await hub.conditions("app"))["Overridden"] == (
            "True",
            "OverriddenSucceeded",
            "The selected resources are successfully overridden in 3 cluster(s)",
        )
        first = status_of(await hub.placement("app"))["placementStatuses"][0]
        assert first["applicableResourceOverrides"] == [{"name": "ro-0", "namespace": "app"}]

    on_hub(scenario)


def test_124_and_131_an_override_of_another_placement_is_ignored() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await override(hub, rule(EVERYWHERE, replace("/data/a", "2")), placement={"name": "other"})
        await hub.place("app")
        assert set((await data(hub)).values()) == {"1"}
        await hub.place("app", "app", [config_selector("conf")])
        mine = {"name": "app", "scope": "Namespaced"}
        await hub.client.delete(OVERRIDES, "ro", "app")
        await hub.settle()
        await override(hub, rule(EVERYWHERE, replace("/data/a", "3")), name="mine", placement=mine)
        assert set((await data(hub, "app.app-work")).values()) == {"3"}
        assert set((await data(hub)).values()) == {"1"}

    on_hub(scenario)


def test_125_a_path_that_is_not_there_fails_the_placement() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await override(hub, rule(EVERYWHERE, replace("/data/none", "2")))
        await hub.place("app")
        assert (await hub.conditions("app"))["Overridden"][:2] == ("False", "OverriddenFailed")
        entry = status_of(await hub.placement("app"))["placementStatuses"][0]["conditions"][-1]
        assert entry["message"] == (
            "Failed to apply the override rules on the resources: replace operation does not apply: doc is missing key:"
            " /data/none: missing value"
        )

    on_hub(scenario)


def test_126_and_128_an_object_is_kept_from_one_cluster() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub)
        await override(hub, rule(on(**{"kubernetes-fleet.io/member-name": "cluster-3"}), kind="Delete"))
        assert await data(hub) == {"cluster-1": "1", "cluster-2": "1", "cluster-3": ""}
        await hub.client.delete(OVERRIDES, "ro", "app")
        await hub.settle()
        assert (await data(hub))["cluster-3"] == "1"

    on_hub(scenario)


def test_127_and_129_the_namespaced_override_wins() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        add = {"op": "add", "path": "/metadata/labels", "value": {"from": "cro"}}
        await cluster_override(hub, rule(on(region="west"), add))
        late = {"op": "add", "path": "/metadata/labels", "value": {"from": "ro"}}
        await override(hub, rule(EVERYWHERE, late))
        await hub.place("app")
        namespace, config = await hub.manifests("cluster-3", "app-work")
        assert namespace["metadata"]["labels"] == {"from": "cro"}
        assert config["metadata"]["labels"] == {"from": "ro"}

    on_hub(scenario)


def test_130_values_know_the_cluster() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        value = "${MEMBER-CLUSTER-NAME}/${MEMBER-CLUSTER-LABEL-KEY-order}"
        await override(hub, rule(EVERYWHERE, replace("/data/a", value)))
        await hub.place("app")
        assert await data(hub) == {"cluster-1": "cluster-1/2", "cluster-2": "cluster-2/1", "cluster-3": ""}
        last = status_of(await hub.placement("app"))["placementStatuses"][2]["conditions"][-1]
        assert last["message"].endswith("label key order not found on cluster cluster-3")

    on_hub(scenario)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (replace("/kind", "x"), "cannot override typeMeta fields"),
        (replace("/metadata/name", "x"), "cannot override metadata fields except annotations and labels"),
        (replace("/status/a", "x"), "cannot override status fields"),
        (replace("data", "x"), "path must start with /"),
        (replace("/data//a", "x"), "path cannot contain empty string"),
        ({"op": "remove", "path": "/data/a", "value": "x"}, "remove operation cannot have value"),
    ],
)
def test_132_what_an_override_may_not_say(patch: Obj, text: str) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        with pytest.raises(Forbidden, match=text):
            await override(hub, rule(EVERYWHERE, patch))

    on_hub(scenario, members=())


def test_132_an_object_may_be_in_one_override_only() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await override(hub, rule(EVERYWHERE, replace("/data/a", "1")))
        with pytest.raises(Forbidden, match="the resource has been selected by both second and ro"):
            await override(hub, rule(EVERYWHERE, replace("/data/a", "2")), name="second")

    on_hub(scenario, members=())


def test_132_a_hundred_overrides_are_enough() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        for number in range(100):
            await override(hub, rule(EVERYWHERE, replace("/data/a", "1")), name=f"ro{number}", target=f"c{number}")
        with pytest.raises(Forbidden, match="resourceOverride limit has been reached"):
            await override(hub, rule(EVERYWHERE, replace("/data/a", "1")), name="last", target="last")

    on_hub(scenario, members=())
