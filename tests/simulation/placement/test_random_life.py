"""The life of a fleet under everything at once: bad links, crashes, restarts of the hub, rival placements, foreign owners, a
member that leaves and comes back. What must always hold is looked at all the time, what must hold in the end at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.soaking import Tally, only_soaking

from corral.core import conditions
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import Obj, owner_ref, spec_of, status_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS, RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from corral.runtime.random import Random
from corral.simulate.cluster import SimulatedCluster

from .fleet import PlacementFleet, on_fleet

SEEDS = 6

LINK_FAULTS = ("cut", "hung", "lose_replies", "lose_requests", "lose_events", "refused")
LIFE = {"corral.dev/run-seconds": "1000000", "corral.dev/start-seconds": "2"}


def web(value: str) -> Obj:
    container = {"name": "c", "image": "nginx", "env": [{"name": "V", "value": value}]}
    template: Obj = {"metadata": {"labels": {"app": "web"}, "annotations": LIFE}, "spec": {"containers": [container]}}
    return {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "strategy": RECREATE, "template": template}


RECREATE = {"type": "Recreate"}


class World:
    """The fleet, what was done to it last, and what must never happen."""

    def __init__(self, fleet: PlacementFleet, random: Random) -> None:
        self.fleet = fleet
        self.random = random
        self.hub = fleet.hub.client
        self.value = 0
        self.crashed: set[str] = set()
        self.settled: set[str] = set()
        """Members that have had the ConfigMap; it must not vanish from them again."""
        self.broken: list[str] = []
        self.worst = 0
        self.when = ""
        self.away: set[str] = set()
        """Members that left, until they have everything again: nobody counts on them."""
        self.up_at: dict[str, int] = {}
        """The generation of the Deployment that was last seen up on a member."""

    async def begin(self) -> None:
        for name in ("app", "owned", "web"):
            await self.hub.create(NAMESPACES, {"metadata": {"name": name}})
        for name in ("app", "owned"):
            await self.hub.create(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": name}, "data": {"v": "0"}})
        await self.hub.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "web"}, "spec": web("0")})
        for member in self.fleet.members.values():
            await self._foreigners(member)
        rolling = {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 1}
        for name in ("app", "web"):
            await self.place(name, name, rolling)
        # Only the ConfigMap: a namespace that is taken over goes with its placement, and everything in it.
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "conf"}
        spec = {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}
        await self.hub.create(RESOURCE_PLACEMENTS, {"metadata": {"name": "owned", "namespace": "owned"}, "spec": spec})
        await asyncio.sleep(60)

    async def _foreigners(self, member: SimulatedCluster) -> None:
        """An object that has nothing to do with the fleet, and one that stands in its way and belongs to somebody."""
        await member.client.create(
            CONFIG_MAPS, {"metadata": {"name": "foreign", "namespace": "default"}, "data": {"mine": "1"}}
        )
        await member.client.create(NAMESPACES, {"metadata": {"name": "owned"}})
        owner = await member.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "somebody", "namespace": "owned"}})
        reference = {**owner_ref(owner, controller=False), "apiVersion": "v1", "kind": "ServiceAccount"}
        metadata = {"name": "conf", "namespace": "owned", "ownerReferences": [reference]}
        await member.client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"v": "theirs"}})

    async def place(self, name: str, namespace: str, rolling: Obj) -> None:
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": namespace}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        body = {"metadata": {"name": name}, "spec": {"resourceSelectors": [selector], "strategy": strategy}}
        try:
            await self.hub.create(CLUSTER_RESOURCE_PLACEMENTS, body)
        except AlreadyExists:
            pass

    # What happens

    async def link_fails(self) -> None:
        name = self.random.choice(sorted(self.fleet.links))
        self.fleet.links[name].set(**{self.random.choice(LINK_FAULTS): True})
        await asyncio.sleep(self.random.uniform(1, 90))
        self.fleet.links[name].set()
        self.fleet.links[name].break_streams()

    async def member_crashes(self) -> None:
        name = self.random.choice(sorted(self.fleet.members))
        self.crashed.add(name)
        await self.fleet.members[name].crash()
        await asyncio.sleep(self.random.uniform(0, 30))
        await self.fleet.members[name].start()
        self.crashed.discard(name)

    async def hub_restarts(self) -> None:
        await self.fleet.restart_hub()
        await asyncio.sleep(self.random.uniform(0, 3))

    async def content_changes(self) -> None:
        self.value += 1
        await self.hub.patch(CONFIG_MAPS, "conf", "app", {"data": {"v": str(self.value)}})
        await self.hub.patch(DEPLOYMENTS, "web", "web", {"spec": web(str(self.value))})
        await asyncio.sleep(self.random.uniform(0, 60))

    async def rival_comes_or_goes(self) -> None:
        try:
            await self.hub.delete(CLUSTER_RESOURCE_PLACEMENTS, "rival")
        except NotFound:
            await self.place("rival", "app", {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 1})
        await asyncio.sleep(self.random.uniform(0, 20))

    async def member_leaves_and_returns(self) -> None:
        name = self.random.choice(sorted(self.fleet.members))
        member = await self.hub.get(MEMBER_CLUSTERS, name)
        self.away.add(name)
        await self.hub.delete(MEMBER_CLUSTERS, name)
        for _ in range(600):
            await asyncio.sleep(2)
            try:
                await self.hub.get(MEMBER_CLUSTERS, name)
            except NotFound:
                break
        await self.hub.create(MEMBER_CLUSTERS, {"metadata": {"name": name}, "spec": spec_of(member)})
        await asyncio.sleep(self.random.uniform(0, 20))

    # What must always hold

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for name, member in self.fleet.members.items():
                await self._look(name, member)
            changing = [name for name, member in self.fleet.members.items() if await self._is_down_by_us(name, member)]
            if len(changing) > self.worst:
                self.worst = len(changing)
                self.when = f"{asyncio.get_running_loop().time():.1f}: {', '.join(changing)}"

    async def _is_down_by_us(self, name: str, member: SimulatedCluster) -> bool:
        """Whether an update has reached a member and was not up yet since then. What a crash takes down is not our doing."""
        found = await _deployment(member)
        if found is None:
            return False
        status, generation = status_of(found), found["metadata"]["generation"]
        up = status.get("availableReplicas") == 1 and status.get("updatedReplicas") == 1
        if up and status.get("observedGeneration") == generation:
            self.up_at[name] = generation
        if name in self.away:
            if await self._is_served(name):
                self.away.discard(name)
            return False
        return bool(self.up_at.get(name) != generation)

    async def _is_served(self, name: str) -> bool:
        """Whether the hub says that a member which joined has what it should have."""
        try:
            joined = conditions.is_true(await self.hub.get(MEMBER_CLUSTERS, name), "Joined")
        except NotFound:
            return False
        entries = status_of(await self.fleet.placement("web")).get("placementStatuses") or []
        mine = [one for one in entries if one.get("clusterName") == name]
        return joined and any(conditions.is_true(one.get("conditions") or [], "Available") for one in mine)

    async def _look(self, name: str, member: SimulatedCluster) -> None:
        if (await _data(member, "default", "foreign")) != {"mine": "1"}:
            self.broken.append(f"{name}: an object that is nobody's business was touched")
        if (await _data(member, "owned", "conf")) != {"v": "theirs"}:
            self.broken.append(f"{name}: an object of somebody else was touched")
        found = await _data(member, "app", "conf")
        if found is not None:
            self.settled.add(name)
        elif name in self.settled:
            self.broken.append(f"{name}: a placed object vanished")

    async def end(self) -> None:
        for link in self.fleet.links.values():
            link.set()
            link.break_streams()
        try:
            await self.hub.delete(CLUSTER_RESOURCE_PLACEMENTS, "rival")
        except NotFound:
            pass
        await asyncio.sleep(700)

    async def assert_converged(self) -> None:
        for name, member in self.fleet.members.items():
            assert (await _data(member, "app", "conf")) == {"v": str(self.value)}, name
            assert await _version(member) == str(self.value), name
        for name in ("app", "web"):
            placement = await self.fleet.placement(name)
            assert conditions.is_true(placement, "ClusterResourcePlacementAvailable"), name
            assert len(status_of(placement)["placementStatuses"]) == 3, name
        blocked = await self.fleet.placement("owned", "owned")
        assert conditions.is_false(blocked, "ResourcePlacementApplied")
        for name in ("app", "web"):
            await self.hub.delete(CLUSTER_RESOURCE_PLACEMENTS, name)
        await self.hub.delete(RESOURCE_PLACEMENTS, "owned", "owned")
        self.settled.clear()
        await asyncio.sleep(400)
        for name, member in self.fleet.members.items():
            assert (await _data(member, "app", "conf")) is None, name
            assert (await _data(member, "owned", "conf")) == {"v": "theirs"}, name
            assert (await _data(member, "default", "foreign")) == {"mine": "1"}, name


async def _data(member: SimulatedCluster, namespace: str, name: str) -> Any:
    try:
        return (await member.client.get(CONFIG_MAPS, name, namespace)).get("data")
    except NotFound:
        return None


async def _deployment(member: SimulatedCluster) -> Obj | None:
    try:
        return await member.client.get(DEPLOYMENTS, "web", "web")
    except ApiError:
        return None


async def _version(member: SimulatedCluster) -> str:
    found = await _deployment(member)
    return "" if found is None else str(spec_of(found)["template"]["spec"]["containers"][0]["env"][0]["value"])


def live(seed: int) -> None:
    """One life. `seed` decides what happens, when and to whom."""

    async def scenario(fleet: PlacementFleet) -> None:
        world = World(fleet, Random(f"life-{seed}"))
        await world.begin()
        watching = asyncio.get_running_loop().create_task(world.watch())
        happenings: list[Callable[[], Awaitable[None]]] = [
            world.link_fails,
            world.link_fails,
            world.member_crashes,
            world.hub_restarts,
            world.content_changes,
            world.content_changes,
            world.rival_comes_or_goes,
            world.member_leaves_and_returns,
        ]
        try:
            world.worst = 0
            for _ in range(6 + int(world.random.uniform(0, 7))):
                await world.random.choice(happenings)()
                assert not watching.done() or watching.exception() is None
            await world.end()
            assert world.broken == []
            assert world.worst <= 1, world.when
            await world.assert_converged()
            assert world.broken == []
        finally:
            watching.cancel()

    on_fleet(scenario)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_fleet_lives_through_everything_at_once(seed: int) -> None:
    live(seed)


@only_soaking("lives of a fleet with placements", first=SEEDS)
def test_a_fleet_lives_many_lives(seeds: range, tally: Tally) -> None:
    for seed in seeds:
        live(seed)
    tally("lives of a fleet with placements", len(seeds))
