"""A hub and members under faults: partitions, crashes, lost replies, foreign owners. All converges, nothing foreign is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.soaking import Tally, only_soaking

from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, spec_of, status_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.runtime.random import Random
from corral.simulate.cluster import SimulatedCluster

from .fleet import PlacementFleet, on_fleet

SEEDS = 4
FAULTS = ("cut", "hung", "lose_replies", "refused")


async def place_namespace(fleet: PlacementFleet, name: str, **strategy: Any) -> None:
    client = fleet.hub.client
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
    spec: Obj = {"resourceSelectors": [selector], "strategy": {"type": "RollingUpdate", **strategy}}
    await client.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": name}, "spec": spec})


async def make_config(fleet: PlacementFleet, namespace: str, value: str) -> None:
    client = fleet.hub.client
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": namespace}, "data": {"v": value}})


async def value_on(member: SimulatedCluster, namespace: str) -> str | None:
    try:
        found = await member.client.get(CONFIG_MAPS, "conf", namespace)
    except NotFound:
        return None
    return str((found.get("data") or {}).get("v"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_any_faults_every_member_has_the_latest_and_the_placement_says_so(seed: int) -> None:
    suffer(seed)


@only_soaking("seeds of placement faults on a fleet", first=SEEDS)
def test_after_very_many_faults_every_member_has_the_latest(seeds: range, tally: Tally) -> None:
    for seed in seeds:
        suffer(seed)
    tally("seeds of placement faults on a fleet", len(seeds))


def suffer(seed: int) -> None:
    """Eight changes, each while one member is cut off, silent or down; at the end everybody has the last of them."""

    async def scenario(fleet: PlacementFleet) -> None:
        random = Random(seed)
        foreign = {"metadata": {"name": "foreign", "namespace": "default"}, "data": {"mine": "1"}}
        for member in fleet.members.values():
            await member.client.create(CONFIG_MAPS, foreign)
        await make_config(fleet, "app", "0")
        rolling = {"rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1}}
        await place_namespace(fleet, "app", **rolling)
        for step in range(1, 9):
            name = random.choice(sorted(fleet.members))
            fault = random.choice((*FAULTS, "crash"))
            if fault == "crash":
                await fleet.members[name].crash()
                await asyncio.sleep(random.uniform(0, 5))
                await fleet.members[name].start()
            else:
                fleet.links[name].set(**{fault: True})
            await fleet.hub.client.patch(CONFIG_MAPS, "conf", "app", {"data": {"v": str(step)}})
            await asyncio.sleep(random.uniform(1, 60))
            fleet.links[name].set()
            fleet.links[name].break_streams()
        await asyncio.sleep(400)
        for member in fleet.members.values():
            assert await value_on(member, "app") == "8"
            kept = await member.client.get(CONFIG_MAPS, "foreign", "default")
            assert kept["data"] == {"mine": "1"}
        placement = await fleet.placement("app")
        assert conditions.is_true(placement, "ClusterResourcePlacementAvailable")
        assert len(status_of(placement)["placementStatuses"]) == 3

    on_fleet(scenario)


def test_a_rolling_update_never_takes_down_more_than_it_may_even_when_a_member_crashes() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        client = fleet.hub.client
        await client.create(NAMESPACES, {"metadata": {"name": "web"}})
        life = {"corral.dev/run-seconds": "100000", "corral.dev/start-seconds": "3"}
        template: Obj = {
            "metadata": {"labels": {"app": "web"}, "annotations": life},
            "spec": {"containers": [{"name": "c", "image": "nginx", "env": [{"name": "V", "value": "0"}]}]},
        }
        body: Obj = {
            "metadata": {"name": "web", "namespace": "web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"type": "Recreate"}},
        }
        body["spec"]["template"] = template
        await client.create(DEPLOYMENTS, body)
        await place_namespace(fleet, "web", rollingUpdate={"maxUnavailable": 1, "maxSurge": 0})
        await asyncio.sleep(60)
        assert conditions.is_true(await fleet.placement("web"), "ClusterResourcePlacementAvailable")

        for value in ("1", "2"):
            change = {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {**template["spec"]["containers"][0], "env": [{"name": "V", "value": value}]}
                            ]
                        }
                    }
                }
            }
            await client.patch(DEPLOYMENTS, "web", "web", change)
        crashed = False
        for second in range(400):
            await asyncio.sleep(0.5)
            ahead = [name for name, member in fleet.members.items() if await is_new_and_not_ready(member)]
            assert len(ahead) <= 1
            if ahead and not crashed:
                crashed = True
                await fleet.members[ahead[0]].crash()
                await asyncio.sleep(20)
                await fleet.members[ahead[0]].start()
            if second > 150 and all([await has_value(member, "2") for member in fleet.members.values()]):
                break
        assert crashed
        for member in fleet.members.values():
            assert await has_value(member, "2")

    on_fleet(scenario)


async def deployment(member: SimulatedCluster) -> Obj:
    return await member.client.get(DEPLOYMENTS, "web", "web")


async def has_value(member: SimulatedCluster, value: str) -> bool:
    container = spec_of(await deployment(member))["template"]["spec"]["containers"][0]
    return bool(container["env"][0]["value"] == value)


async def is_new_and_not_ready(member: SimulatedCluster) -> bool:
    """Whether the update has reached a member and its pods are not up yet."""
    found = await deployment(member)
    status = status_of(found)
    observed = status.get("observedGeneration") == found["metadata"]["generation"]
    return not (observed and status.get("availableReplicas") == 1 and status.get("updatedReplicas") == 1)


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.1, 0.5])
def test_a_hub_that_restarts_in_the_middle_of_a_rollout_finishes_it(delay: float) -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await make_config(fleet, "app", "0")
        await place_namespace(fleet, "app")
        await asyncio.sleep(delay)
        await fleet.restart_hub()
        await asyncio.sleep(20)
        await fleet.hub.client.patch(CONFIG_MAPS, "conf", "app", {"data": {"v": "1"}})
        await asyncio.sleep(15 + delay)
        await fleet.restart_hub()
        await asyncio.sleep(120)
        for member in fleet.members.values():
            assert await value_on(member, "app") == "1"
        placement = await fleet.placement("app")
        assert conditions.is_true(placement, "ClusterResourcePlacementAvailable")
        assert status_of(placement)["observedResourceIndex"] == "1"

    on_fleet(scenario)


def test_two_placements_of_one_namespace_do_not_fight() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await make_config(fleet, "app", "1")
        await place_namespace(fleet, "app")
        await asyncio.sleep(3)
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
        second = {"metadata": {"name": "second"}, "spec": {"resourceSelectors": [selector]}}
        await fleet.hub.client.create(CLUSTER_RESOURCE_PLACEMENTS, second)
        await asyncio.sleep(60)
        assert conditions.is_true(await fleet.placement("app"), "ClusterResourcePlacementAvailable")
        assert conditions.is_false(await fleet.placement("second"), "ClusterResourcePlacementApplied")
        await fleet.hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "second")
        await asyncio.sleep(30)
        for member in fleet.members.values():
            assert await value_on(member, "app") == "1"
        await fleet.hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await asyncio.sleep(30)
        for member in fleet.members.values():
            assert await value_on(member, "app") is None

    on_fleet(scenario)


def test_a_member_that_leaves_keeps_everything_and_finds_it_again() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await make_config(fleet, "app", "1")
        await place_namespace(fleet, "app")
        await asyncio.sleep(3)
        member = await fleet.hub.client.get(MEMBER_CLUSTERS, "cluster-2")
        await fleet.hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await fleet.hub.client.get(MEMBER_CLUSTERS, "cluster-2")
        assert await value_on(fleet.members["cluster-2"], "app") == "1"
        statuses = status_of(await fleet.placement("app"))["placementStatuses"]
        assert [one["clusterName"] for one in statuses] == ["cluster-1", "cluster-3"]
        again = {"metadata": {"name": "cluster-2"}, "spec": spec_of(member)}
        await fleet.hub.client.create(MEMBER_CLUSTERS, again)
        await asyncio.sleep(60)
        placement = await fleet.placement("app")
        assert conditions.is_true(placement, "ClusterResourcePlacementAvailable")
        assert len(status_of(placement)["placementStatuses"]) == 3

    on_fleet(scenario)


def test_a_member_that_returns_while_it_waited_for_an_update_holds_nobody_up() -> None:
    """Its binding still names the old snapshot, its Works are gone, and the budget is spent elsewhere at that moment."""

    async def scenario(fleet: PlacementFleet) -> None:
        await make_config(fleet, "app", "0")
        await place_namespace(fleet, "app", rollingUpdate={"maxUnavailable": 1, "maxSurge": 0})
        await asyncio.sleep(40)
        fleet.links["cluster-1"].set(cut=True)
        await fleet.hub.client.patch(CONFIG_MAPS, "conf", "app", {"data": {"v": "1"}})
        await asyncio.sleep(30)  # cluster-1 is first in line and does not answer, cluster-2 has to wait
        member = await fleet.hub.client.get(MEMBER_CLUSTERS, "cluster-2")
        await fleet.hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await asyncio.sleep(10)
        again = {"metadata": {"name": "cluster-2"}, "spec": spec_of(member)}
        await fleet.hub.client.create(MEMBER_CLUSTERS, again)
        await asyncio.sleep(10)
        fleet.links["cluster-1"].set()
        fleet.links["cluster-1"].break_streams()
        await asyncio.sleep(120)
        for one in fleet.members.values():
            assert await value_on(one, "app") == "1"
        assert conditions.is_true(await fleet.placement("app"), "ClusterResourcePlacementAvailable")

    on_fleet(scenario)
