"""Upstream's scenarios 28 to 75: which clusters a placement gets, and what makes that change."""

from __future__ import annotations

from typing import Any

import pytest
from hub import Hub, config_selector, on_hub

from corral.core.errors import Forbidden
from corral.core.meta import Key, Obj, status_of
from corral.kinds.fleet import CLUSTER_POLICY_SNAPSHOTS, CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS
from corral.kinds.fleet.names import member_namespace

CPU = "resources.kubernetes-fleet.io/available-cpu"
MEMORY = "resources.kubernetes-fleet.io/available-memory"
NODES = "kubernetes-fleet.io/node-count"


def required(*terms: Obj) -> Obj:
    return {
        "clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": list(terms)}}
    }


def preferred(*terms: tuple[int, Obj]) -> Obj:
    entries = [{"weight": weight, "preference": term} for weight, term in terms]
    return {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": entries}}


def label(**labels: str) -> Obj:
    return {"labelSelector": {"matchLabels": labels}}


def prop(name: str, operator: str, value: str) -> Obj:
    return {"propertySelector": {"matchExpressions": [{"name": name, "operator": operator, "values": [value]}]}}


def by(name: str, order: str = "Descending") -> Obj:
    return {"propertySorter": {"name": name, "sortOrder": order}}


def pick_n(number: int, **more: Any) -> Obj:
    return {"placementType": "PickN", "numberOfClusters": number, **more}


def pick_fixed(*names: str) -> Obj:
    return {"placementType": "PickFixed", "clusterNames": list(names)}


async def decisions(hub: Hub, placement: str, index: int = 0) -> list[Obj]:
    snapshot = await hub.client.get(CLUSTER_POLICY_SNAPSHOTS, f"{placement}-{index}")
    found: list[Obj] = status_of(snapshot).get("targetClusters") or []
    return found


async def scores(hub: Hub, placement: str, index: int = 0) -> dict[str, tuple[int, int]]:
    return {
        one["clusterName"]: (one["clusterScore"]["affinityScore"], one["clusterScore"]["priorityScore"])
        for one in await decisions(hub, placement, index)
        if "clusterScore" in one
    }


async def place(hub: Hub, policy: Obj | None, name: str = "app") -> list[str]:
    await hub.namespace(name)
    await hub.place(name, **({} if policy is None else {"policy": policy}))
    return await hub.clusters(name)


async def change_policy(hub: Hub, policy: Obj, name: str = "app") -> list[str]:
    def edit(placement: Obj) -> Obj:
        return {**placement, "spec": {**placement["spec"], "policy": policy}}

    await hub.edit(CLUSTER_RESOURCE_PLACEMENTS, name, edit)
    await hub.settle()
    return await hub.clusters(name)


async def taint(hub: Hub, cluster: str, *taints: tuple[str, str]) -> None:
    entries = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in taints]
    await hub.patch(MEMBER_CLUSTERS, cluster, {"spec": {"taints": entries}})
    await hub.settle()


async def labelled(hub: Hub, cluster: str, **labels: str | None) -> None:
    await hub.patch(MEMBER_CLUSTERS, cluster, {"metadata": {"labels": labels}})
    await hub.settle()


# PickAll and PickFixed


def test_28_no_policy_picks_every_healthy_cluster() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.healthy["cluster-2"] = False
        await hub.beat("cluster-2")
        await hub.advance(310)
        assert await place(hub, None) == ["cluster-1", "cluster-3"]
        filtered = [one for one in await decisions(hub, "app") if not one["selected"]]
        assert filtered[0]["reason"].startswith(
            "ClusterUnschedulable, cluster is not connected to the fleet: unhealthy for a prolonged period of time"
        )

    on_hub(scenario)


def test_29_a_cluster_that_joins_later_is_picked() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, {"placementType": "PickAll"}) == ["cluster-1", "cluster-2", "cluster-3"]
        await hub.join("cluster-4")
        assert await hub.clusters("app") == ["cluster-4", "cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)


def test_30_a_picked_cluster_that_turns_unhealthy_stays() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, None)
        hub.members.healthy["cluster-2"] = False
        await hub.advance(400)
        assert "cluster-2" in await hub.clusters("app")

    on_hub(scenario)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([label(region="east", env="prod")], ["cluster-1"], id="31-one-term"),
        pytest.param(
            [label(region="west"), label(env="canary")], ["cluster-2", "cluster-3"], id="32-terms-are-alternatives"
        ),
        pytest.param([label(region="moon")], [], id="34-nothing-matches"),
        pytest.param([prop(NODES, "Ge", "2")], ["cluster-1", "cluster-2"], id="35-node-count"),
        pytest.param(
            [prop("resources.kubernetes-fleet.io/total-cpu", "Gt", "12")], ["cluster-3"], id="35-cpu-capacity"
        ),
        pytest.param([prop("kubernetes.azure.com/per-cpu-core-cost", "Lt", "1")], [], id="36-missing-property"),
        pytest.param([{**label(env="prod"), **prop(NODES, "Lt", "2")}], ["cluster-3"], id="37-label-and-property"),
    ],
)
def test_required_affinity(terms: list[Obj], expected: list[str]) -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, {"placementType": "PickAll", "affinity": required(*terms)}) == expected
        conditions = await hub.conditions("app")
        assert conditions["Scheduled"][2] == (
            f"found all cluster needed as specified by the scheduling policy, found {len(expected)} cluster(s)"
        )
        assert (list(conditions) == ["Scheduled"]) == (not expected)

    on_hub(scenario)


def test_33_an_edited_affinity_drops_the_old_cluster_and_adds_the_new() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, {"placementType": "PickAll", "affinity": required(label(env="canary"))})
        assert await change_policy(hub, {"placementType": "PickAll", "affinity": required(label(region="west"))}) == [
            "cluster-3"
        ]
        await hub.settle()
        assert await hub.work("cluster-2", "app-work") is None
        assert await hub.work("cluster-3", "app-work") is not None

    on_hub(scenario)


def test_38_a_property_that_grows_makes_a_cluster_match() -> None:
    async def scenario(hub: Hub) -> None:
        affinity = required(prop(NODES, "Ge", "5"))
        assert await place(hub, {"placementType": "PickAll", "affinity": affinity}) == []
        hub.members.capacity["cluster-1"] = ("20", "80Gi", "5")
        await hub.beat("cluster-1")
        assert await hub.clusters("app") == ["cluster-1"]

    on_hub(scenario)


def test_39_fixed_names_are_scheduled_without_scores() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_fixed("cluster-3", "cluster-1")) == ["cluster-3", "cluster-1"]
        first = (await decisions(hub, "app"))[0]
        assert first == {
            "clusterName": "cluster-3",
            "selected": True,
            "reason": 'Successfully scheduled resources for placement in "cluster-3": picked by scheduling policy',
        }

    on_hub(scenario)


def test_40_missing_and_unhealthy_names_are_said_one_by_one() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.silent.add("cluster-2")
        await hub.advance(320)
        assert await place(hub, pick_fixed("cluster-1", "cluster-2", "cluster-9")) == ["cluster-1"]
        conditions = await hub.conditions("app")
        assert conditions["Scheduled"][:2] == ("False", "SchedulingPolicyUnfulfilled")
        entries = status_of(await hub.placement("app"))["placementStatuses"]
        texts = [one["conditions"][0]["message"] for one in entries if "clusterName" not in one]
        assert texts[0].startswith('Cluster "cluster-2" is not eligible for resource placement yet: ')
        assert texts[1] == 'Specified cluster "cluster-9" is not found'

    on_hub(scenario)


def test_41_names_come_and_go() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, pick_fixed("cluster-1", "cluster-2"))
        assert await change_policy(hub, pick_fixed("cluster-2", "cluster-3")) == ["cluster-2", "cluster-3"]
        await hub.settle()
        assert await hub.work("cluster-1", "app-work") is None

    on_hub(scenario)


def test_43_a_stuck_cluster_does_not_hold_up_the_next() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, pick_fixed("cluster-1"))
        hub.members.stuck.add("cluster-1")
        assert await change_policy(hub, pick_fixed("cluster-2")) == ["cluster-2"]
        assert (await hub.conditions("app"))["Available"][0] == "True"
        assert await hub.work("cluster-1", "app-work") is not None

    on_hub(scenario)


def test_44_to_47_namespaces_matter_to_resource_placements_only() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.namespaces.update({"cluster-1": {"app": ""}, "cluster-2": {"other": ""}, "cluster-3": {}})
        for name in ("cluster-1", "cluster-2", "cluster-3"):
            await hub.beat(name)
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("all", "app", [config_selector("conf")])
        assert await hub.clusters("all", "app") == ["cluster-1"]
        await hub.place("two", "app", [config_selector("conf")], policy=pick_n(2))
        assert (await hub.conditions("two", "app"))["Scheduled"][:2] == ("False", "SchedulingPolicyUnfulfilled")
        await hub.place("app")
        assert await hub.clusters("app") == ["cluster-1", "cluster-2", "cluster-3"]
        hub.members.namespaces["cluster-2"] = {"app": ""}
        await hub.beat("cluster-2")
        assert await hub.clusters("all", "app") == ["cluster-2", "cluster-1"]
        assert (await hub.conditions("two", "app"))["Scheduled"][0] == "True"

    on_hub(scenario)


# PickN


def test_48_without_preferences_the_largest_name_wins() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(1)) == ["cluster-3"]

    on_hub(scenario)


def test_49_and_50_scaling_keeps_what_it_can() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, pick_n(1))
        assert await change_policy(hub, pick_n(3)) == ["cluster-2", "cluster-1", "cluster-3"]
        assert sorted(await change_policy(hub, pick_n(2))) == ["cluster-2", "cluster-3"]
        assert len(await hub.bindings("app")) == 2

    on_hub(scenario)


def test_51_and_52_more_than_there_are_and_none_at_all() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(5)) == ["cluster-3", "cluster-2", "cluster-1"]
        assert (await hub.conditions("app"))["Scheduled"][2] == (
            "could not find all clusters needed as specified by the scheduling policy, found 3 cluster(s) instead"
        )
        assert await place(hub, pick_n(0), "none") == []
        assert list(await hub.conditions("none")) == ["Scheduled"]
        assert await hub.events("none") == []  # as recorded: nothing was rolled out

    on_hub(scenario)


SCORES = [
    pytest.param(preferred((20, label(region="east")), (15, label(env="prod"))), "cluster-1", 35, id="54-summed"),
    pytest.param(preferred((-40, label(region="east"))), "cluster-3", 0, id="54-negative-weight"),
    pytest.param(preferred((50, by(CPU))), "cluster-3", 50, id="59-descending"),
    pytest.param(preferred((50, by(CPU, "Ascending"))), "cluster-1", 50, id="59-ascending"),
    pytest.param(preferred((50, by("nobody.has/this"))), "cluster-3", 0, id="61-missing-everywhere"),
    pytest.param(preferred((40, by(CPU)), (30, by(MEMORY))), "cluster-3", 70, id="62-two-sorters"),
    pytest.param(preferred((40, {**label(region="east"), **by(CPU)})), "cluster-2", 20, id="63-label-and-sorter"),
    pytest.param(preferred((33, by(NODES))), "cluster-2", 33, id="64-largest-of-all"),
]


@pytest.mark.parametrize(("affinity", "winner", "score"), SCORES)
def test_preferred_affinity(affinity: Obj, winner: str, score: int) -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(1, affinity=affinity)) == [winner]
        assert (await scores(hub, "app"))[winner] == (score, 0)

    on_hub(scenario)


def test_60_equal_values_score_nothing_and_the_name_decides() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(1, affinity=preferred((50, by(CPU))))) == ["b"]
        assert await scores(hub, "app") == {"b": (0, 0), "a": (0, 0)}

    on_hub(scenario, members=("a", "b"))


def test_64_halves_round_away_from_zero_over_the_whole_fleet() -> None:
    async def scenario(hub: Hub) -> None:
        affinity = {
            "clusterAffinity": {
                **required(label(env="prod"))["clusterAffinity"],
                **preferred((33, by(NODES)))["clusterAffinity"],
            }
        }
        assert await place(hub, pick_n(1, affinity=affinity)) == ["cluster-1"]
        # Two nodes lie half way between one and three, though the cluster with three cannot be chosen.
        assert await scores(hub, "app") == {"cluster-1": (17, 0), "cluster-3": (0, 0)}

    on_hub(scenario)


def test_55_a_hard_spread_leaves_out_what_would_skew() -> None:
    async def scenario(hub: Hub) -> None:
        await labelled(hub, "cluster-0", region="east")
        spread = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
        picked = await place(hub, pick_n(4, topologySpreadConstraints=spread))
        assert sorted(picked) == ["cluster-1", "cluster-2", "cluster-3"]
        filtered = [one["reason"] for one in await decisions(hub, "app") if not one["selected"]]
        assert filtered == [
            'ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)'
        ]
        assert await scores(hub, "app") == {"cluster-3": (0, -1), "cluster-2": (0, 1), "cluster-1": (0, -1)}

    on_hub(scenario, members=("cluster-1", "cluster-2", "cluster-3", "cluster-0"))


def test_56_a_soft_spread_only_costs() -> None:
    async def scenario(hub: Hub) -> None:
        await labelled(hub, "cluster-0", region="east")
        spread = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]
        await place(hub, pick_n(4, topologySpreadConstraints=spread))
        found = await scores(hub, "app")
        assert found["cluster-3"] == (0, -1)
        assert len([one for one in found.values() if one[1] == -1000]) == 1

    on_hub(scenario, members=("cluster-1", "cluster-2", "cluster-3", "cluster-0"))


def test_58_an_edited_policy_prefers_where_it_is() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, pick_n(2))
        assert await hub.clusters("app") == ["cluster-3", "cluster-2"]
        moved = await change_policy(hub, pick_n(2, affinity=preferred((50, label(region="east")))))
        assert sorted(moved) == ["cluster-1", "cluster-2"]
        assert moved[0] == "cluster-1"

    on_hub(scenario)


def test_65_only_twenty_unpicked_clusters_are_listed() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, pick_n(1))
        assert len(await decisions(hub, "app")) == 21

    on_hub(scenario, members=[f"m{number:02}" for number in range(25)])


def test_66_and_67_only_a_placement_in_need_takes_what_comes() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, pick_n(1), "content")
        await place(hub, pick_n(4), "hungry")
        await hub.join("cluster-9")
        assert await hub.clusters("content") == ["cluster-3"]
        assert (await hub.clusters("hungry"))[0] == "cluster-9"
        assert (await hub.conditions("hungry"))["Scheduled"][0] == "True"

    on_hub(scenario)


def test_67_a_label_makes_a_cluster_eligible() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(1, affinity=required(label(tier="gold")))) == []
        await labelled(hub, "cluster-1", tier="gold")
        assert await hub.clusters("app") == ["cluster-1"]
        await labelled(hub, "cluster-1", tier=None)
        assert await hub.clusters("app") == ["cluster-1"]

    on_hub(scenario)


def test_68_a_picked_cluster_that_leaves_is_replaced() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(1)) == ["cluster-3"]
        await hub.client.delete(MEMBER_CLUSTERS, "cluster-3")
        await hub.advance(10)
        assert await hub.clusters("app") == ["cluster-2"]

    on_hub(scenario)


def test_69_a_picked_cluster_that_stops_answering_stays() -> None:
    async def scenario(hub: Hub) -> None:
        assert await place(hub, pick_n(1)) == ["cluster-3"]
        hub.members.silent.add("cluster-3")
        await hub.advance(600)
        assert await hub.clusters("app") == ["cluster-3"]

    on_hub(scenario)


# Taints


def test_70_to_72_taints_keep_placements_away_unless_tolerated() -> None:
    async def scenario(hub: Hub) -> None:
        await taint(hub, "cluster-2", ("team", "a"))
        assert await place(hub, pick_fixed("cluster-2"), "fixed") == ["cluster-2"]
        assert await place(hub, {"placementType": "PickAll"}, "all") == ["cluster-1", "cluster-3"]
        reasons = [one["reason"] for one in await decisions(hub, "all") if not one["selected"]]
        assert reasons == ["ClusterUnschedulable, taint &{Key:team Value:a Effect:NoSchedule} cannot be tolerated"]
        tolerations = [{"key": "team", "operator": "Equal", "value": "a"}]
        assert "cluster-2" in await change_policy(hub, {"placementType": "PickAll", "tolerations": tolerations}, "all")
        assert await place(hub, {"placementType": "PickAll"}, "later") == ["cluster-1", "cluster-3"]
        await taint(hub, "cluster-2")
        assert await hub.clusters("later") == ["cluster-2", "cluster-1", "cluster-3"]

    on_hub(scenario)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "team", "operator": "Equal", "value": "b"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "team", "value": "a", "effect": "NoSchedule"}, True),
    ],
)
def test_how_a_toleration_matches(toleration: Obj, tolerated: bool) -> None:
    async def scenario(hub: Hub) -> None:
        await taint(hub, "cluster-2", ("team", "a"))
        picked = await place(hub, {"placementType": "PickAll", "tolerations": [toleration]})
        assert ("cluster-2" in picked) == tolerated

    on_hub(scenario)


def test_73_a_taint_on_a_picked_cluster_moves_nothing() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, None)
        await taint(hub, "cluster-2", ("team", "a"))
        assert await hub.clusters("app") == ["cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)


def test_75_a_toleration_may_not_be_taken_back() -> None:
    async def scenario(hub: Hub) -> None:
        await place(hub, {"placementType": "PickAll", "tolerations": [{"operator": "Exists"}]})
        with pytest.raises(Forbidden, match="only additions to tolerations are allowed"):
            await change_policy(hub, {"placementType": "PickAll"})

    on_hub(scenario)


def test_137_a_silent_cluster_is_not_chosen_any_more_after_five_minutes() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.silent.add("cluster-1")
        await hub.advance(280)
        assert await place(hub, None, "soon") == ["cluster-1", "cluster-2", "cluster-3"]
        await hub.advance(60)
        assert await place(hub, None, "late") == ["cluster-2", "cluster-3"]
        hub.members.silent.clear()
        hub.members.agents.queue.add(Key(member_namespace("cluster-1"), "cluster-1"))
        await hub.settle()
        assert await hub.clusters("late") == ["cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)
