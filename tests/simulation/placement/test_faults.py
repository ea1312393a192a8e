"""Faults on the hub's side: controllers restarted at any moment, silent and slow members. What must hold is checked always."""

from __future__ import annotations

import asyncio

import pytest
from tests.soaking import Tally, only_soaking

from corral.core.conditions import find
from corral.core.meta import Obj, generation_of, name_of
from corral.kinds.fleet import CLUSTER_BINDINGS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.controller import Manager
from corral.runtime.random import Random

from .hub import Hub, on_hub

SEEDS = 6

MEMBERS = tuple(f"m{number}" for number in range(6))


async def restart(hub: Hub) -> None:
    """Kill the hub's controllers, and the scripted members with them, and start them again on what is stored."""
    await hub.cluster.manager.stop()
    hub.cluster.manager = Manager(hub.client, hub.cluster.clock, hub.cluster.random)
    hub._set_up(hub.cluster.manager)
    hub.members.setup(hub.cluster.manager)
    await hub.cluster.manager.start()


class Watchman:
    """Sees every Work at every moment, and counts those that are being changed."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.under_way: dict[str, bool] = {}
        self.worst = 0
        self.armed = False

    def see(self, old: Obj | None, new: Obj | None) -> None:
        work = new if new is not None else old
        assert work is not None
        cluster = work["metadata"]["namespace"]
        available = find(new, "Available") if new is not None else None
        current = available is not None and available.get("observedGeneration", 0) >= generation_of(work)
        self.under_way[cluster] = not (current and available is not None and available["status"] == "True")
        if self.armed:
            self.worst = max(self.worst, sum(self.under_way.values()))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_never_more_than_the_budget_is_down_and_everything_converges(seed: int) -> None:
    roll_out(seed)


@only_soaking("seeds of placement faults on a hub", first=SEEDS)
def test_never_more_than_the_budget_is_down_for_many_seeds(seeds: range, tally: Tally) -> None:
    for seed in seeds:
        roll_out(seed)
    tally("seeds of placement faults on a hub", len(seeds))


def roll_out(seed: int) -> None:
    """Changes while the hub restarts and members fall silent, with an eye on how many are down at once."""
    random = Random(f"faults-{seed}")

    async def scenario(hub: Hub) -> None:
        watchman = Watchman(limit=2)
        observer = Manager(hub.client, hub.cluster.clock, hub.cluster.random)
        observer.informer(WORKS).on_change(watchman.see)
        await observer.start()
        await hub.namespace("app", conf={"a": "0"})
        strategy = {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0, "unavailablePeriodSeconds": 1}}
        await hub.place("app", strategy=strategy)
        await hub.advance(40)
        watchman.armed = True
        for step in range(8):
            match random.integer(0, 3):
                case 0:
                    await restart(hub)
                case 1:
                    hub.members.deaf.add(random.choice(MEMBERS))
                case 2 if hub.members.deaf:
                    hub.members.deaf.clear()
                    await hub.recheck()
                case _:
                    await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": str(step)}}, "app")
            await asyncio.sleep(random.uniform(0.0, 25.0))
        hub.members.deaf.clear()
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "last"}}, "app")
        await restart(hub)
        await hub.recheck()
        await hub.advance(120)
        await hub.recheck()
        await observer.stop()
        assert watchman.worst <= watchman.limit
        assert (await hub.conditions("app"))["Available"][0] == "True"
        for member in MEMBERS:
            manifests = await hub.manifests(member, "app-work")
            assert manifests[1]["data"] == {"a": "last"}

    on_hub(scenario, members=MEMBERS)


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.004, 0.011, 0.03, 0.07])
def test_a_restart_while_a_placement_is_made_loses_and_doubles_nothing(delay: float) -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
        from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS

        body = {"metadata": {"name": "app"}, "spec": {"resourceSelectors": [selector]}}
        await hub.client.create(CLUSTER_RESOURCE_PLACEMENTS, body)
        await asyncio.sleep(delay)
        await restart(hub)
        await hub.advance(5)
        bindings = (await hub.client.list(CLUSTER_BINDINGS)).items
        assert sorted(one["spec"]["targetCluster"] for one in bindings) == sorted(MEMBERS)
        works = (await hub.client.list(WORKS)).items
        assert [name_of(one) for one in works] == ["app-work"] * len(MEMBERS)
        assert (await hub.conditions("app"))["Available"][0] == "True"

    on_hub(scenario, members=MEMBERS)
