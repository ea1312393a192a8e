"""Scheduling constraints in combination and over time: fixed names, affinity with spread, taints, capacity, caps."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub
from test_scheduling import decisions, label, pick_fixed, pick_n, place, preferred, prop, required, taint

from corral.core.conditions import condition
from corral.core.errors import Forbidden
from corral.core.meta import Obj
from corral.decide.placement.clusters import Cluster
from corral.decide.placement.scheduling import Classes, Question, schedule
from corral.kinds.fleet import (
    CLUSTER_RESOURCE_PLACEMENTS,
    MEMBER_CLUSTERS,
)


def test_42_fixed_names_scale_but_not_from_none() -> None:
    async def scenario(hub: Hub) -> None:
        # The recorded hub refuses an empty list, so nothing can scale from there.
        with pytest.raises(Forbidden, match="cluster names cannot be empty for policy type PickFixed"):
            await place(hub, pick_fixed())
        await hub.place("app", policy=pick_fixed("nobody"))
        assert await hub.clusters("app") == []
        for names in (["cluster-2"], ["cluster-1", "cluster-2", "cluster-3"]):
            await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"policy": {"clusterNames": names}}})
            await hub.settle()
            assert sorted(await hub.clusters("app")) == names

    on_hub(scenario)


SPREAD = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
EAST, PROD, CANARY = label(region="east"), label(env="prod"), label(env="canary")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(pick_n(3, affinity=required(label(region="east", env="prod"))), ["cluster-1"], id="53-one-term"),
        pytest.param(
            pick_n(3, affinity=required(CANARY, label(region="west"))), ["cluster-2", "cluster-3"], id="53-or"
        ),
        pytest.param(
            pick_n(2, affinity=required(PROD), topologySpreadConstraints=SPREAD),
            ["cluster-1", "cluster-3"],
            id="57-required-and-spread",
        ),
        pytest.param(
            pick_n(2, affinity=preferred((50, CANARY)), topologySpreadConstraints=SPREAD),
            ["cluster-2", "cluster-3"],
            id="57-preferred-and-spread",
        ),
        pytest.param(
            pick_n(
                2,
                affinity={
                    "clusterAffinity": {
                        **required(EAST)["clusterAffinity"],
                        **preferred((10, PROD))["clusterAffinity"],
                    }
                },
                topologySpreadConstraints=[{**SPREAD[0], "whenUnsatisfiable": "ScheduleAnyway"}],
            ),
            ["cluster-1", "cluster-2"],
            id="57-mixed",
        ),
    ],
)
def test_53_and_57_affinity_and_spread_together(policy: Obj, expected: list[str]) -> None:
    async def scenario(hub: Hub) -> None:
        assert sorted(await place(hub, policy)) == expected

    on_hub(scenario)


@pytest.mark.parametrize(("tolerations", "expected"), [([{"key": "gpu", "operator": "Exists"}], 2), ([], 1)])
def test_74_a_spread_whose_only_cluster_is_tainted_needs_a_toleration(tolerations: list[Obj], expected: int) -> None:
    async def scenario(hub: Hub) -> None:
        await taint(hub, "cluster-3", ("gpu", "yes"))
        picked = await place(hub, pick_n(2, topologySpreadConstraints=SPREAD, tolerations=tolerations))
        assert len(picked) == expected
        assert ("cluster-3" in picked) is bool(tolerations)

    on_hub(scenario)


FOUR = ("cluster-1", "cluster-2", "cluster-3", "cluster-0")


async def labels(hub: Hub, name: str, **values: str | None) -> None:
    await hub.patch(MEMBER_CLUSTERS, name, {"metadata": {"labels": values}})
    await hub.settle()


def test_55_two_hard_spreads_hold_together() -> None:
    async def scenario(hub: Hub) -> None:
        # east/a, east/b, west/a and west/a: a second west would skew no region but the second "a" skews the zones.
        for name, region, zone in (
            ("cluster-0", "west", "a"),
            ("cluster-1", "east", "a"),
            ("cluster-2", "east", "b"),
            ("cluster-3", "west", "a"),
        ):
            await labels(hub, name, region=region, zone=zone)
        spread = [
            {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for key in ("region", "zone")
        ]
        picked = await place(hub, pick_n(4, topologySpreadConstraints=spread))
        zones = {"cluster-0": "a", "cluster-1": "a", "cluster-2": "b", "cluster-3": "a"}
        assert len(picked) == 3
        assert sorted(zones[one] for one in picked) == ["a", "a", "b"]
        (reason,) = [one["reason"] for one in await decisions(hub, "app") if not one["selected"]]
        assert reason == 'ClusterUnschedulable, violated doNotSchedule topology spread constraint "zone" (max skew 1)'

    on_hub(scenario, members=FOUR)


def test_65_a_thousand_decisions_are_the_most() -> None:
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": "2026-01-01T00:00:00Z",
        "conditions": [condition("Joined", True, "J", ""), condition("Healthy", True, "H", "")],
    }
    clusters = [Cluster(f"m{n:04}", {}, (), {}, {}, False, agent, None) for n in range(1100)]
    now = 1767225600.0
    every = schedule(Question({"placementType": "PickAll"}, 0, clusters, Classes(), now))
    assert len(every.create) == 1100
    assert len(every.decisions) == 1000
    most = schedule(Question(pick_n(995), 995, clusters, Classes(), now))
    assert [one["selected"] for one in most.decisions].count(False) == 5
    assert len(most.decisions) == 1000


def test_67_capacity_that_grows_serves_who_is_in_need() -> None:
    async def scenario(hub: Hub) -> None:
        big = required(prop("resources.kubernetes-fleet.io/total-cpu", "Ge", "20"))
        assert await place(hub, pick_n(1, affinity=big)) == []
        hub.members.capacity["cluster-2"] = ("24", "48Gi", "6")
        await hub.beat("cluster-2")
        assert await hub.clusters("app") == ["cluster-2"]

    on_hub(scenario)


def test_67_a_member_that_becomes_healthy_serves_who_is_in_need() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.healthy["cluster-1"] = False
        await hub.advance(400)
        assert sorted(await place(hub, pick_n(3))) == ["cluster-2", "cluster-3"]
        hub.members.healthy["cluster-1"] = True
        await hub.beat("cluster-1")
        assert sorted(await hub.clusters("app")) == ["cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)


def test_69_a_pick_that_comes_to_break_a_spread_stays() -> None:
    async def scenario(hub: Hub) -> None:
        spread = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
        assert sorted(await place(hub, pick_n(2, topologySpreadConstraints=spread))) == ["cluster-2", "cluster-3"]
        await labels(hub, "cluster-3", region="east")
        await hub.advance(60)
        assert sorted(await hub.clusters("app")) == ["cluster-2", "cluster-3"]

    on_hub(scenario)


def test_labels_may_be_required_and_numbers_too() -> None:
    async def scenario(hub: Hub) -> None:
        both = {**label(region="east"), **prop("kubernetes-fleet.io/node-count", "Gt", "2")}
        assert await place(hub, pick_n(3, affinity=required(both))) == ["cluster-2"]

    on_hub(scenario)
