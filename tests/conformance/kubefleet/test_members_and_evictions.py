"""Upstream's scenarios 133 to 147 on the hub: members come and go, placements are evicted within budgets."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub

from corral.core.conditions import find
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, finalizers_of, status_of, without_finalizer
from corral.decide.placement.bindings import binding_of
from corral.decide.placement.eviction import judge
from corral.kinds.fleet import (
    CLUSTER_BINDINGS,
    CLUSTER_RESOURCE_PLACEMENTS,
    DISRUPTION_BUDGETS,
    EVICTIONS,
    INTERNAL_MEMBER_CLUSTERS,
    MEMBER_CLUSTERS,
)
from corral.kinds.fleet.names import MEMBER_FINALIZER, member_namespace
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES


def test_133_a_member_gets_its_place_on_the_hub() -> None:
    async def scenario(hub: Hub) -> None:
        member = await hub.client.get(MEMBER_CLUSTERS, "cluster-1")
        namespace = member_namespace("cluster-1")
        assert await hub.client.get(NAMESPACES, namespace)
        assert await hub.client.get(ROLES, "fleet-role-cluster-1", namespace)
        binding = await hub.client.get(ROLE_BINDINGS, "fleet-rolebinding-cluster-1", namespace)
        assert binding["subjects"][0]["name"] == "cluster-1"
        assert [one["type"] for one in status_of(member)["conditions"]] == ["ReadyToJoin", "Joined"]
        assert [reason for reason, _ in await hub.events("cluster-1")] == [
            "NamespaceCreated",
            "RoleCreated",
            "RoleBindingCreated",
            "InternalMemberClusterCreated",
            "MemberClusterReadyToJoin",
            "MemberClusterJoinStateUnknown",
            "MemberClusterJoined",
        ]

    on_hub(scenario, members=("cluster-1",))


def test_134_a_member_that_leaves_is_dropped_from_placements() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.place("app")
        await hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await hub.advance(5)
        assert await hub.clusters("app") == ["cluster-1", "cluster-3"]
        with pytest.raises(NotFound):
            await hub.client.get(MEMBER_CLUSTERS, "cluster-2")
        with pytest.raises(NotFound):
            await hub.client.get(NAMESPACES, member_namespace("cluster-2"))
        await hub.join("cluster-2")
        assert sorted(await hub.clusters("app")) == ["cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)


def test_135_a_dead_agent_is_not_waited_for_without_end() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.place("app")
        hub.members.silent.add("cluster-2")
        await hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await hub.advance(840)
        internal = await hub.client.get(INTERNAL_MEMBER_CLUSTERS, "cluster-2", member_namespace("cluster-2"))
        assert internal["spec"]["state"] == "Leave"
        await hub.advance(70)
        with pytest.raises(NotFound):
            await hub.client.get(MEMBER_CLUSTERS, "cluster-2")
        assert await hub.clusters("app") == ["cluster-1", "cluster-3"]

    on_hub(scenario)


# Evictions


async def evict(hub: Hub, cluster: str, name: str = "e", placement: str = "app") -> dict[str, tuple[str, str]]:
    spec = {"placementName": placement, "clusterName": cluster}
    await hub.client.create(EVICTIONS, {"metadata": {"name": name}, "spec": spec})
    await hub.settle()
    eviction = await hub.client.get(EVICTIONS, name)
    return {one["type"]: (one["status"], one["message"]) for one in status_of(eviction)["conditions"]}


async def start(hub: Hub, policy: Obj | None = None, budget: Obj | None = None) -> None:
    """A placement and its budget, which is made first: nothing can be said against it yet."""
    await hub.namespace("app", conf={"a": "1"})
    if budget:
        await hub.client.create(DISRUPTION_BUDGETS, {"metadata": {"name": "app"}, "spec": budget})
    await hub.place("app", **({"policy": policy} if policy else {}))
    await hub.settle()


def test_138_an_evicted_placement_goes_elsewhere_when_the_cluster_is_tainted() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, {"placementType": "PickN", "numberOfClusters": 1})
        taints = [{"key": "drain", "value": "", "effect": "NoSchedule"}]
        await hub.patch(MEMBER_CLUSTERS, "cluster-3", {"spec": {"taints": taints}})
        found = await evict(hub, "cluster-3")
        assert found["Executed"] == (
            "True",
            "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified",
        )
        assert await hub.clusters("app") == ["cluster-2"]

    on_hub(scenario)


def test_138_an_untainted_cluster_is_picked_again() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, {"placementType": "PickN", "numberOfClusters": 1})
        (before,) = await hub.bindings("app")
        await evict(hub, "cluster-3")
        await hub.advance(6)
        (after,) = await hub.bindings("app")
        assert before["metadata"]["uid"] != after["metadata"]["uid"]
        assert await hub.clusters("app") == ["cluster-3"]

    on_hub(scenario)


PICK_3: Obj = {"placementType": "PickN", "numberOfClusters": 3}
PICK_ALL: Obj = {"placementType": "PickAll"}
MISCONFIGURED = "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget"
ALLOWED = "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3"
BLOCKED = "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 3"


@pytest.mark.parametrize(
    ("policy", "budget", "expected"),
    [
        (PICK_3, {"maxUnavailable": 1}, ALLOWED),
        (PICK_3, {"maxUnavailable": 0}, BLOCKED),
        (PICK_3, {"maxUnavailable": "10%"}, ALLOWED),
        (PICK_3, {"minAvailable": 2}, ALLOWED),
        (PICK_3, {"minAvailable": 3}, BLOCKED),
        (PICK_3, {"minAvailable": "60%"}, ALLOWED),
        (PICK_3, {"minAvailable": "70%"}, BLOCKED),
        (PICK_ALL, {"minAvailable": 2}, ALLOWED),
        (PICK_ALL, {"minAvailable": 3}, BLOCKED),
        (PICK_ALL, {"minAvailable": "10%"}, MISCONFIGURED),
        (PICK_ALL, {"maxUnavailable": 1}, MISCONFIGURED),
    ],
)
def test_139_budgets_allow_and_block(policy: Obj, budget: Obj, expected: str) -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, policy, budget)
        _, message = (await evict(hub, "cluster-1"))["Executed"]
        assert message.startswith(expected)

    on_hub(scenario)


def test_140_evictions_that_make_no_sense_are_invalid() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, {"placementType": "PickN", "numberOfClusters": 1})
        assert (await evict(hub, "cluster-1", "a"))["Valid"] == (
            "False",
            "Failed to find scheduler decision for placement in cluster targeted by eviction",
        )
        assert (await evict(hub, "cluster-1", "b", "nobody"))["Valid"] == (
            "False",
            "Failed to find ClusterResourcePlacement targeted by eviction",
        )
        await hub.namespace("fixed")
        await hub.place("fixed", policy={"placementType": "PickFixed", "clusterNames": ["cluster-1"]})
        with pytest.raises(Forbidden, match="placement policy type PickFixed is not supported"):
            await evict(hub, "cluster-1", "c", "fixed")

    on_hub(scenario)


@pytest.mark.parametrize(
    ("bindings", "policy", "expected"),
    [
        (2, {"placementType": "PickAll"}, "Found more than one scheduler decision for placement in cluster targeted"),
        (1, {"placementType": "PickFixed"}, "Found ClusterResourcePlacement with PickFixed placement type targeted"),
    ],
)
def test_140_what_got_past_admission_is_invalid(bindings: int, policy: Obj, expected: str) -> None:
    eviction = {"metadata": {"generation": 1}, "spec": {"placementName": "app", "clusterName": "cluster-1"}}
    placement = {"metadata": {"name": "app"}, "spec": {"policy": policy}}
    spec = {"targetCluster": "cluster-1"}
    here = [binding_of({"metadata": {"name": str(n)}, "spec": spec}) for n in range(bindings)]
    verdict = judge(eviction, placement, here, None)
    assert verdict.evict is None
    assert verdict.conditions[0]["status"] == "False"
    assert verdict.conditions[0]["message"].startswith(expected)


@pytest.mark.parametrize("budget", [{"maxUnavailable": 1}, {"minAvailable": "10%"}])
def test_139_a_budget_that_means_nothing_for_its_placement_is_refused(budget: Obj) -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, PICK_ALL)
        with pytest.raises(Forbidden, match="placement policy type PickAll is not supported with"):
            await hub.client.create(DISRUPTION_BUDGETS, {"metadata": {"name": "app"}, "spec": budget})

    on_hub(scenario)


def test_a_failed_placement_may_always_be_evicted() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.failing.add(("cluster-3", "conf"))
        await start(hub, PICK_3, {"maxUnavailable": 0})
        assert (await evict(hub, "cluster-3"))["Executed"] == ("True", "Eviction is allowed, placement has failed")

    on_hub(scenario)


def test_deleting_a_placement_takes_everything_with_it() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub)
        await hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await hub.settle()
        with pytest.raises(NotFound):
            await hub.placement("app")
        assert (await hub.client.list(CLUSTER_BINDINGS)).items == []
        assert await hub.work("cluster-1", "app-work") is None
        assert ("PlacementCleanupFinalizerRemoved" in [reason for reason, _ in await hub.events("app")]) is True

    on_hub(scenario)


def test_146_and_147_versions_are_one_object_and_defaults_are_filled_in() -> None:
    async def scenario(hub: Hub) -> None:
        policy = {**PICK_3, "tolerations": [{"key": "a"}], "topologySpreadConstraints": [{"topologyKey": "region"}]}
        await hub.namespace("app")
        await hub.place("app", policy=policy)
        found = await hub.client.get(CLUSTER_RESOURCE_PLACEMENTS.at("v1"), "app")
        assert found["apiVersion"] == "placement.kubernetes-fleet.io/v1"
        assert found["spec"]["policy"]["tolerations"] == [{"key": "a", "operator": "Equal"}]
        assert found["spec"]["policy"]["topologySpreadConstraints"] == [
            {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ]
        assert found["spec"]["strategy"]["rollingUpdate"] == {
            "maxUnavailable": "25%",
            "maxSurge": "25%",
            "unavailablePeriodSeconds": 60,
        }
        assert find(found, "ClusterResourcePlacementScheduled") is not None

    on_hub(scenario)


def test_a_member_whose_finalizer_was_taken_off_is_gone_when_it_is_deleted() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.silent.add("cluster-1")
        await hub.edit(MEMBER_CLUSTERS, "cluster-1", lambda one: without_finalizer(one, MEMBER_FINALIZER))
        await hub.settle()
        assert MEMBER_FINALIZER not in finalizers_of(await hub.client.get(MEMBER_CLUSTERS, "cluster-1"))
        await hub.client.delete(MEMBER_CLUSTERS, "cluster-1")
        await hub.settle()
        with pytest.raises(NotFound):
            await hub.client.get(MEMBER_CLUSTERS, "cluster-1")

    on_hub(scenario)
