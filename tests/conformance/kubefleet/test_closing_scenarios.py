"""What upstream's scenarios ask for beside their main path: several constraints, caps, numbers, the second kind of override."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from fleet import PlacementFleet, on_fleet
from hub import Hub, config_selector, namespace_selector, on_hub
from test_overrides import EVERYWHERE, cluster_override, data, on, override, replace, rule
from test_rollout import (
    EXTERNAL,
    ONE_BY_ONE,
    approve,
    change,
    run,
    said,
    stage,
    start,
    strategy,
    versions,
)
from test_scheduling import decisions, label, pick_n, place, prop, required

from corral.cli import fleet as cli
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.guard_rail import GuardRail
from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.conditions import condition, find
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, spec_of, status_of
from corral.core.resource import Resource
from corral.decide.placement.clusters import Cluster
from corral.decide.placement.scheduling import Classes, Question, schedule
from corral.kinds.fleet import (
    CLUSTER_APPROVAL_REQUESTS,
    CLUSTER_PROFILES,
    CLUSTER_RESOURCE_PLACEMENTS,
    CLUSTER_RESOURCE_SNAPSHOTS,
    CLUSTER_UPDATE_RUNS,
    CLUSTER_UPDATE_STRATEGIES,
    ENVELOPES,
    MEMBER_CLUSTERS,
    PLACEMENT_STATUSES,
    RESOURCE_PLACEMENTS,
    WORKS,
)
from corral.kinds.fleet.names import PROFILE_CLEANUP, member_namespace
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.server.verbs.options import WriteOptions

ONE = ("cluster-1",)
FOUR = ("cluster-1", "cluster-2", "cluster-3", "cluster-0")


async def labels(hub: Hub, name: str, **values: str | None) -> None:
    await hub.patch(MEMBER_CLUSTERS, name, {"metadata": {"labels": values}})
    await hub.settle()


def test_26_the_mirrored_status_goes_with_its_placement() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.place("app", statusReportingScope="NamespaceAccessible")
        assert await hub.client.get(PLACEMENT_STATUSES, "app", "app")
        await hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await hub.advance(5)
        with pytest.raises(NotFound):
            await hub.client.get(PLACEMENT_STATUSES, "app", "app")

    on_hub(scenario, members=ONE)


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


def test_80_a_history_that_shrinks_keeps_what_is_in_use() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=ONE_BY_ONE, revisionHistoryLimit=3)
        hub.members.broken.add(("cluster-1", "conf"))
        await change(hub, "2")
        await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"revisionHistoryLimit": 1}})
        await change(hub, "3")
        await change(hub, "4")
        kept = {one["metadata"]["name"] for one in (await hub.client.list(CLUSTER_RESOURCE_SNAPSHOTS)).items}
        assert {"app-0-snapshot", "app-3-snapshot"} <= kept  # two clusters still run the first
        assert "app-1-snapshot" not in kept
        hub.members.broken.clear()
        await hub.recheck()
        await hub.advance(20)
        assert set((await versions(hub)).values()) == {"4"}
        await change(hub, "5")
        kept = sorted(one["metadata"]["name"] for one in (await hub.client.list(CLUSTER_RESOURCE_SNAPSHOTS)).items)
        assert len(kept) <= 2
        assert "app-4-snapshot" in kept

    on_hub(scenario)


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (2, 2), ("50%", 1), ("100%", 3)])
def test_86_so_many_clusters_at_a_time(limit: int | str, expected: int) -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        hub.members.deaf.update({"cluster-1", "cluster-2", "cluster-3"})
        await strategy(hub, stage("all", labelSelector={}, maxConcurrency=limit))
        await run(hub)
        assert list((await versions(hub)).values()).count("1") == expected

    on_hub(scenario)


def test_88_an_approval_that_was_accepted_cannot_be_taken_back() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        after = [{"type": "TimedWait", "waitTime": "30s"}, {"type": "Approval"}]
        await strategy(hub, stage("all", labelSelector={}, maxConcurrency="100%", afterStageTasks=after))
        await run(hub)
        await approve(hub, "run-after-all")
        request = await hub.client.get(CLUSTER_APPROVAL_REQUESTS, "run-after-all")
        taken = [
            {**one, "status": "False", "reason": "sorry"} if one["type"] == "Approved" else one
            for one in status_of(request)["conditions"]
        ]
        await hub.client.update(
            CLUSTER_APPROVAL_REQUESTS, {**request, "status": {"conditions": taken}}, subresource="status"
        )
        await hub.advance(40)
        assert await said(hub, "Succeeded") == ("True", "UpdateRunSucceeded", "All stages are completed successfully")

    on_hub(scenario)


def test_90_a_run_that_reports_diffs_ends_when_all_have_reported() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        hub = fleet.hub.client
        await hub.create(NAMESPACES, {"metadata": {"name": "app"}})
        await hub.create(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": "app"}, "data": {"a": "1"}})
        member = fleet.members["cluster-1"].client
        await member.create(NAMESPACES, {"metadata": {"name": "app"}})
        await member.create(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": "app"}, "data": {"a": "other"}})
        spec = {
            "resourceSelectors": [namespace_selector("app")],
            "strategy": {"type": "External", "applyStrategy": {"type": "ReportDiff"}},
        }
        await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "app"}, "spec": spec})
        stages = [stage("all", labelSelector={}, maxConcurrency="100%")]
        await hub.create(CLUSTER_UPDATE_STRATEGIES, {"metadata": {"name": "plan"}, "spec": {"stages": stages}})
        await fleet.hub.advance(5)
        body = {"placementName": "app", "stagedRolloutStrategyName": "plan", "state": "Run"}
        await hub.create(CLUSTER_UPDATE_RUNS, {"metadata": {"name": "run"}, "spec": body})
        await fleet.hub.advance(30)
        ended = find(await hub.get(CLUSTER_UPDATE_RUNS, "run"), "Succeeded")
        assert ended is not None
        assert ended["status"] == "True"
        entries = status_of(await fleet.placement("app"))["placementStatuses"]
        first = next(one for one in entries if one["clusterName"] == "cluster-1")
        found = {one["name"]: one["observedDiffs"] for one in first["diffedPlacements"]}
        assert found["conf"] == [{"path": "/data/a", "valueInHub": "1", "valueInMember": "other"}]
        assert (await member.get(CONFIG_MAPS, "conf", "app"))["data"] == {"a": "other"}

    on_fleet(scenario)


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


# The inventory


def test_136_cluster_profiles_mirror_members() -> None:
    async def scenario(hub: Hub) -> None:
        found = (await hub.client.list(CLUSTER_PROFILES, "fleet-system")).items
        assert [one["metadata"]["name"] for one in found] == ["cluster-1", "cluster-2", "cluster-3"]
        assert found[0]["metadata"]["labels"] == {"x-k8s.io/cluster-manager": "KubeFleet"}
        assert found[0]["spec"] == {"clusterManager": {"name": "KubeFleet"}, "displayName": "cluster-1"}
        assert find(found[0], "ControlPlaneHealthy")["reason"] == "MemberClusterAPIServerHealthy"  # type: ignore[index]
        member = await hub.client.get(MEMBER_CLUSTERS, "cluster-1")
        assert PROFILE_CLEANUP in member["metadata"]["finalizers"]

        await hub.patch(CLUSTER_PROFILES, "cluster-1", {"spec": {"displayName": "somebody"}}, "fleet-system")
        await hub.client.delete(CLUSTER_PROFILES, "cluster-2", "fleet-system")
        await hub.settle()
        assert (await hub.client.get(CLUSTER_PROFILES, "cluster-1", "fleet-system"))["spec"] == found[0]["spec"]
        assert await hub.client.get(CLUSTER_PROFILES, "cluster-2", "fleet-system")

        await hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await hub.advance(20)
        with pytest.raises(NotFound):
            await hub.client.get(CLUSTER_PROFILES, "cluster-2", "fleet-system")
        with pytest.raises(NotFound):
            await hub.client.get(MEMBER_CLUSTERS, "cluster-2")

    on_hub(scenario)


def test_136_a_silent_member_is_unhealthy_in_the_inventory() -> None:
    async def scenario(hub: Hub) -> None:
        hub.members.silent.add("cluster-1")
        await hub.advance(250)
        healthy = find(await hub.client.get(CLUSTER_PROFILES, "cluster-1", "fleet-system"), "ControlPlaneHealthy")
        assert healthy is not None
        assert (healthy["status"], healthy["reason"]) == ("False", "MemberAgentHeartbeatLost")
        hub.members.silent.clear()
        hub.members.healthy["cluster-1"] = False
        await hub.beat("cluster-1")
        healthy = find(await hub.client.get(CLUSTER_PROFILES, "cluster-1", "fleet-system"), "ControlPlaneHealthy")
        assert healthy is not None
        assert (healthy["status"], healthy["reason"]) == ("False", "MemberClusterAPIServerUnhealthy")

    on_hub(scenario, members=ONE)


# The drain command


class SomeHub:
    """What the command sees of a hub: a member, bindings, and evictions that are answered at once."""

    def __init__(self, outcomes: dict[str, Any]) -> None:
        self.member: Obj = {"metadata": {"name": "c", "resourceVersion": "1"}, "spec": {"taints": []}}
        self.outcomes = outcomes
        self.evictions: dict[str, Obj] = {}

    def get(self, resource: Any, name: str, namespace: str = "") -> Obj:
        return self.member if resource == MEMBER_CLUSTERS else self.evictions[name]

    def list(self, resource: Any) -> Obj:
        label = "kubernetes-fleet.io/parent-CRP"
        return {
            "items": [{"metadata": {"labels": {label: one}}, "spec": {"targetCluster": "c"}} for one in self.outcomes]
        }

    def patch(self, resource: Any, name: str, namespace: str, patch: Obj) -> None:
        self.member = {**self.member, "spec": {**self.member["spec"], **patch["spec"]}}

    def create(self, resource: Any, body: Obj) -> None:
        outcome = self.outcomes[body["spec"]["placementName"]]
        if isinstance(outcome, Exception):
            raise outcome
        self.evictions[body["metadata"]["name"]] = {**body, "status": {"conditions": [outcome]}}


GONE = condition("Valid", False, "X", "Failed to find scheduler decision for placement in cluster targeted by eviction")
DONE = condition("Executed", True, "X", "Eviction is allowed")
KEPT = condition("Executed", False, "X", "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget")


@pytest.mark.parametrize(
    ("outcomes", "code", "said_too"),
    [
        ({"a": DONE, "b": GONE}, 0, "drain was successful for cluster c"),
        ({"a": DONE, "b": KEPT}, 1, "placement b stays: Eviction is blocked"),
        ({"a": Forbidden("policy type PickFixed is not supported")}, 1, "placement a stays: policy type PickFixed"),
    ],
)
def test_141_the_drain_command(
    monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, Any], code: int, said_too: str
) -> None:
    hub = SomeHub(outcomes)
    monkeypatch.setattr(cli, "client_of", lambda *arguments: hub)
    result = CliRunner().invoke(cli.fleet, ["drain", "c", "--timeout", "1"])
    assert result.exit_code == code, result.output
    assert "Successfully cordoned member cluster c by adding cordon taint" in result.output
    assert said_too in result.output
    assert hub.member["spec"]["taints"] == [cli.CORDON]
    result = CliRunner().invoke(cli.fleet, ["uncordon", "c"])
    assert hub.member["spec"]["taints"] == []
    assert "Successfully uncordoned member cluster c" in result.output


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


def test_144_a_generated_name_in_an_envelope_is_refused_by_the_member() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        hub = fleet.hub.client
        await hub.create(NAMESPACES, {"metadata": {"name": "app"}})
        inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "in-", "namespace": "app"}}
        await hub.create(ENVELOPES, {"metadata": {"name": "wrap", "namespace": "app"}, "data": {"in.yaml": inside}})
        spec = {"resourceSelectors": [namespace_selector("app")]}
        await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "app"}, "spec": spec})
        await fleet.hub.advance(10)
        (failed,) = status_of(await fleet.placement("app"))["placementStatuses"][0]["failedPlacements"]
        assert failed["envelope"]["name"] == "wrap"
        assert failed["condition"]["reason"] == "FoundGenerateName"
        assert "objects with only generate name are not supported" in failed["condition"]["message"]

    on_fleet(scenario)


# The guard rail

ANN = UserInfo("ann", ("system:authenticated",))
LIE = {"status": {"resourceUsage": {"available": {"cpu": "1000"}}}}
MEMBER = UserInfo("system:serviceaccount:fleet-system:cluster-1", ("system:authenticated",))


def test_148_the_guard_rail() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        api = hub.cluster.api
        here, there = member_namespace("cluster-1"), member_namespace("cluster-2")

        async def touch(user: UserInfo, namespace: str) -> None:
            patch = {"metadata": {"annotations": {"touched": "by"}}}
            await api.patch(user, WORKS, namespace, "app-work", "merge", patch, WriteOptions())

        await touch(MEMBER, here)
        with pytest.raises(Forbidden) as refused:
            await touch(MEMBER, there)
        assert str(refused.value) == (
            'admission webhook "fleet.fleetmembernamespacedresources.guardrail.validating" denied the request: user:'
            " 'system:serviceaccount:fleet-system:cluster-1' in 'groups: [system:authenticated]' is not allowed to"
            f" UPDATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: {there}/app-work"
        )
        with pytest.raises(Forbidden, match=r"namespace\.guardrail"):
            await api.create(ANN, NAMESPACES, "", {"metadata": {"name": "kube-mine"}}, WriteOptions())
        await api.create(ANN, NAMESPACES, "", {"metadata": {"name": "mine"}}, WriteOptions())
        # Anybody may taint a member; only the system may say how it is.
        taints = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
        await api.patch(ANN, MEMBER_CLUSTERS, "", "cluster-1", "merge", taints, WriteOptions())
        with pytest.raises(Forbidden, match=r"membercluster\.guardrail"):
            await api.patch(ANN, MEMBER_CLUSTERS, "", "cluster-1", "merge", LIE, WriteOptions(), "status")
        mark = {"metadata": {"annotations": {"fleet.azure.com/x": "y"}}}
        with pytest.raises(Forbidden, match="add a fleet pre-fixed annotation"):
            await api.patch(ANN, MEMBER_CLUSTERS, "", "cluster-1", "merge", mark, WriteOptions())
        await touch(UserInfo("friend", ("system:authenticated",)), there)

    on_hub(scenario, settings=PlacementSettings(guard_rail=True, allowed_users=("friend",)))


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(UserInfo("root", ("system:masters",)), id="an administrator"),
        pytest.param(UserInfo("friend", ("system:authenticated",)), id="an allowed user"),
        pytest.param(UserInfo("ann", ("system:authenticated",)), id="anybody"),
        pytest.param(UserInfo("system:kube-controller-manager"), id="the system"),
    ],
)
def test_148_nobody_may_turn_a_member_into_one_of_the_provider_or_back(user: UserInfo) -> None:
    async def scenario(hub: Hub) -> None:
        api = hub.cluster.api

        async def mark(name: str, value: str | None) -> None:
            patch = {"metadata": {"annotations": {"fleet.azure.com/x": value}}}
            await api.patch(user, MEMBER_CLUSTERS, "", name, "merge", patch, WriteOptions())

        root = UserInfo("root", ("system:masters",))
        identity = {"kind": "User", "name": "theirs"}
        marked = {"metadata": {"name": "theirs", "annotations": {"fleet.azure.com/x": "y"}}}
        await api.create(root, MEMBER_CLUSTERS, "", {**marked, "spec": {"identity": identity}}, WriteOptions())
        with pytest.raises(Forbidden, match="no user is allowed to add a fleet pre-fixed annotation"):
            await mark("cluster-1", "y")
        with pytest.raises(Forbidden, match="no user is allowed to remove all fleet pre-fixed annotations"):
            await mark("theirs", None)

    on_hub(scenario, members=ONE, settings=PlacementSettings(guard_rail=True, allowed_users=("friend",)))


@pytest.mark.parametrize(
    "kind", ["InternalServiceExport", "InternalServiceImport", "EndpointSliceExport", "EndpointSliceImport"]
)
def test_148_a_member_may_write_its_services_in_its_own_namespace_only(kind: str) -> None:
    resource = Resource("networking.fleet.azure.com", "v1alpha1", f"{kind.lower()}s", kind)

    async def scenario(hub: Hub) -> None:
        guard = GuardRail(hub.client)
        own, other = member_namespace("cluster-1"), member_namespace("cluster-2")

        async def create(user: UserInfo, namespace: str) -> None:
            body: Obj = {"metadata": {"name": "web", "namespace": namespace}}
            request = AdmissionRequest("CREATE", resource, "", namespace, "web", user, body, None)
            assert guard.handles(request)
            await guard.validate(request)

        await create(MEMBER, own)
        for user, namespace in ((MEMBER, other), (MEMBER, "fleet-system"), (ANN, own)):
            with pytest.raises(Forbidden, match=r"namespacedresources\.guardrail"):
                await create(user, namespace)

    on_hub(scenario)


def test_148_without_it_the_role_is_all_there_is() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        assert spec_of(await hub.client.get(MEMBER_CLUSTERS, "cluster-1"))
        await hub.cluster.api.create(ANN, NAMESPACES, "", {"metadata": {"name": "kube-mine"}}, WriteOptions())

    on_hub(scenario, members=ONE)


def test_labels_may_be_required_and_numbers_too() -> None:
    async def scenario(hub: Hub) -> None:
        both = {**label(region="east"), **prop("kubernetes-fleet.io/node-count", "Gt", "2")}
        assert await place(hub, pick_n(3, affinity=required(both))) == ["cluster-2"]

    on_hub(scenario)
