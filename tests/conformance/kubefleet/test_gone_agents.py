"""A member's agent is gone, so its heartbeats stop, while placements are made, edited and deleted: what the others notice of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from hub import Hub, on_hub

from corral.configuration.placement import PlacementSettings, placement_settings
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, is_deleting, status_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS
from corral.kinds.fleet.names import member_namespace
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

GONE = "cluster-1"
ALL = ["cluster-1", "cluster-2", "cluster-3"]
LONG = 320.0
"""Longer than a silent cluster is still chosen."""
GIVEN_UP = 900.0
"""How long a member that was told to leave may take to answer."""
NOT_CONNECTED = "cluster is not connected to the fleet: no recent heartbeat signals (last received 5."
Scenario = Callable[[Hub], Awaitable[None]]
each_mode = pytest.mark.parametrize(
    "settings", [None, placement_settings({"placement": {"upstream": True}})], ids=["shipped", "upstream"]
)


async def lose(hub: Hub) -> None:
    hub.members.silent.add(GONE)


async def return_(hub: Hub) -> None:
    hub.members.silent.clear()
    hub.members.agents.queue.add(Key(member_namespace(GONE), GONE))
    await hub.recheck()
    await hub.advance(60)


async def versions(hub: Hub) -> list[str]:
    """What the Works of the three clusters carry."""
    found = []
    for cluster in ALL:
        manifests = await hub.manifests(cluster, "app-work")
        found.append(next((one["data"]["a"] for one in manifests if one["kind"] == "ConfigMap"), ""))
    return found


async def set_policy(hub: Hub, policy: Obj) -> None:
    await hub.edit(CLUSTER_RESOURCE_PLACEMENTS, "app", lambda one: {**one, "spec": {**one["spec"], "policy": policy}})
    await hub.settle()


async def entry(hub: Hub, cluster: str) -> dict[str, tuple[str, str]]:
    """What a placement says about one cluster."""
    entries = status_of(await hub.placement("app"))["placementStatuses"]
    (found,) = [one for one in entries if one.get("clusterName") == cluster]
    return {one["type"]: (one["status"], one["reason"]) for one in found["conditions"]}


@each_mode
def test_a_placement_made_in_the_first_five_minutes_waits_for_the_gone_agent(
    settings: PlacementSettings | None,
) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await lose(hub)
        await hub.advance(LONG - 60)
        await hub.place("app")
        await hub.advance(30)
        assert await hub.clusters("app") == ALL
        assert (await entry(hub, GONE))["Applied"] == ("False", "ApplyInProgress")
        assert (await entry(hub, "cluster-2"))["Available"][0] == "True"
        assert (await hub.conditions("app"))["Applied"][:2] == ("False", "ApplyFailed")
        assert not [
            one for one in status_of(await hub.placement("app"))["placementStatuses"] if one.get("failedPlacements")
        ]
        await return_(hub)
        assert (await hub.conditions("app"))["Available"][0] == "True"

    on_hub(scenario, settings=settings)


@each_mode
def test_an_edit_is_held_back_for_all_where_the_gone_agent_has_the_budget(settings: PlacementSettings | None) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await hub.advance(60)
        await lose(hub)
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await hub.advance(120)
        assert await versions(hub) == ["2", "1", "1"]
        blocked = "The rollout is being blocked by the rollout strategy in 2 cluster(s)"
        assert (await hub.conditions("app"))["RolloutStarted"] == ("False", "RolloutNotStartedYet", blocked)
        await return_(hub)
        assert await versions(hub) == ["2", "2", "2"]
        assert (await hub.conditions("app"))["Available"][0] == "True"

    on_hub(scenario, settings=settings)


@each_mode
def test_an_edit_reaches_the_others_where_the_budget_leaves_room(settings: PlacementSettings | None) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", strategy={"rollingUpdate": {"maxUnavailable": 2}})
        await hub.advance(60)
        await lose(hub)
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await hub.advance(120)
        assert await versions(hub) == ["2", "2", "2"]
        assert (await entry(hub, GONE))["Applied"][0] != "True"
        assert [(await entry(hub, cluster))["Available"][0] for cluster in ALL[1:]] == ["True", "True"]

    on_hub(scenario, settings=settings)


@each_mode
@pytest.mark.parametrize(
    ("policy", "chosen", "said"),
    [
        (None, ALL[1:], ""),
        ({"placementType": "PickN", "numberOfClusters": 3}, ["cluster-3", "cluster-2"], NOT_CONNECTED),
        (
            {"placementType": "PickFixed", "clusterNames": ALL},
            ALL[1:],
            f'Cluster "{GONE}" is not eligible for resource placement yet: {NOT_CONNECTED}',
        ),
    ],
    ids=["all", "three", "by name"],
)
def test_after_five_minutes_new_placements_leave_the_cluster_out_and_old_ones_keep_it(
    policy: Obj | None, chosen: list[str], said: str, settings: PlacementSettings | None
) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("old")
        await hub.place("old")
        await lose(hub)
        await hub.advance(LONG)
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", **({} if policy is None else {"policy": policy}))
        assert sorted(await hub.clusters("app")) == sorted(chosen)
        assert await hub.clusters("old") == ALL
        others = [one for one in status_of(await hub.placement("app"))["placementStatuses"] if "clusterName" not in one]
        messages = [one["conditions"][0]["message"] for one in others]
        assert all(said in message for message in messages)
        assert len(messages) == (1 if said else 0)
        await return_(hub)
        assert sorted(await hub.clusters("app")) == ALL

    on_hub(scenario, settings=settings)


@each_mode
def test_a_policy_that_drops_the_cluster_is_not_held_up_by_its_work(settings: PlacementSettings | None) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", policy={"placementType": "PickFixed", "clusterNames": ALL[:2]})
        await hub.advance(60)
        await lose(hub)
        await hub.advance(LONG)
        await set_policy(hub, {"placementType": "PickFixed", "clusterNames": ALL[1:]})
        await hub.advance(60)
        assert await hub.clusters("app") == ALL[1:]
        assert (await hub.conditions("app"))["Available"][0] == "True"
        left = await hub.work(GONE, "app-work")
        assert left is not None
        assert is_deleting(left)
        await return_(hub)
        assert await hub.work(GONE, "app-work") is None

    on_hub(scenario, settings=settings)


@each_mode
def test_a_deleted_placement_goes_and_what_the_gone_agent_has_of_it_waits(settings: PlacementSettings | None) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await hub.advance(60)
        await lose(hub)
        await hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await hub.advance(60)
        with pytest.raises(NotFound):
            await hub.placement("app")
        works = {cluster: await hub.work(cluster, "app-work") for cluster in ALL}
        assert [cluster for cluster, work in works.items() if work is not None] == [GONE]
        await return_(hub)
        assert await hub.work(GONE, "app-work") is None
        assert await hub.bindings("app") == []

    on_hub(scenario, settings=settings)


@each_mode
def test_another_cluster_is_picked_once_a_gone_member_that_has_to_leave_is_given_up(
    settings: PlacementSettings | None,
) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", policy={"placementType": "PickN", "numberOfClusters": 1})
        (chosen,) = await hub.clusters("app")
        hub.members.silent.add(chosen)
        await hub.advance(LONG)
        assert await hub.clusters("app") == [chosen]
        await hub.client.delete(MEMBER_CLUSTERS, chosen)
        await hub.advance(GIVEN_UP - 60)
        assert await hub.clusters("app") == [chosen]
        await hub.advance(120)
        (after,) = await hub.clusters("app")
        assert after != chosen
        assert (await hub.conditions("app"))["Available"][0] == "True"

    on_hub(scenario, settings=settings)
