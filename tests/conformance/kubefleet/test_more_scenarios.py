"""Upstream's scenarios that cross chapters: new kinds, mixed policies, blocked rollouts per kind, drain, mixed placements."""

from __future__ import annotations

from typing import Any

import pytest
from hub import Hub, config_selector, namespace_selector, on_hub
from test_members_and_evictions import evict
from test_rollout import EXTERNAL, ONE_BY_ONE, run, said, stage, start, strategy, versions
from test_scheduling import label, pick_fixed, pick_n, place, preferred, required, taint

from corral.cli.fleet import CORDON
from corral.configuration.placement import PlacementSettings
from corral.core.errors import Forbidden
from corral.core.meta import Obj, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import (
    CLUSTER_RESOURCE_PLACEMENTS,
    DISRUPTION_BUDGETS,
    ENVELOPES,
    MEMBER_CLUSTERS,
    OVERRIDES,
)
from corral.kinds.fleet.names import member_namespace
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.apps.kinds import DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SERVICES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, ROLES

ONE = ("cluster-1",)
LAMPS = Resource("example.com", "v1", "lamps", "Lamp")


async def install_lamps(hub: Hub) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    await hub.client.create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "lamps.example.com"}, "spec": spec})
    await hub.advance(60)


async def lit(hub: Hub) -> list[Any]:
    return [one["lit"] for one in await hub.manifests("cluster-1", "app-work") if one["kind"] == "Lamp"]


def test_21_and_22_objects_of_a_kind_installed_later_are_followed() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app")
        await install_lamps(hub)
        lamp = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "lamp", "namespace": "app"}}
        await hub.client.create(LAMPS, {**lamp, "lit": True})
        await hub.advance(60)
        assert await lit(hub) == [True]
        await hub.patch(LAMPS, "lamp", {"lit": False}, "app")
        await hub.advance(60)
        assert await lit(hub) == [False]
        await hub.client.delete(LAMPS, "lamp", "app")
        await hub.advance(60)
        assert await lit(hub) == []

    on_hub(scenario, members=ONE)


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


LABELS = {"matchLabels": {"app": "x"}}
POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
ENDING = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
KINDS: dict[str, tuple[Resource, Obj, Obj]] = {
    "Deployment": (DEPLOYMENTS, {"selector": LABELS, "template": POD}, {"spec": {"minReadySeconds": 1}}),
    "DaemonSet": (DAEMON_SETS, {"selector": LABELS, "template": POD}, {"spec": {"minReadySeconds": 1}}),
    "StatefulSet": (
        STATEFUL_SETS,
        {"selector": LABELS, "template": POD, "serviceName": "x"},
        {"spec": {"minReadySeconds": 1}},
    ),
    "Service": (
        SERVICES,
        {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "x"}},
        {"metadata": {"labels": {"changed": "yes"}}},
    ),
    "Job": (JOBS, {"suspend": True, "template": ENDING}, {"spec": {"backoffLimit": 1}}),
}


@pytest.mark.parametrize(("kind", "updated"), [(kind, 3 if kind == "Job" else 1) for kind in KINDS])
def test_77_and_78_what_does_not_come_up_holds_back_the_rest_unless_it_is_a_job(kind: str, updated: int) -> None:
    resource, spec, change = KINDS[kind]

    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.client.create(resource, {"metadata": {"name": "x", "namespace": "app"}, "spec": spec})
        await hub.place("app", strategy=ONE_BY_ONE)
        await hub.advance(60)
        if kind != "Job":
            hub.members.broken.add(("cluster-1", "x"))
        old = await hub.manifests("cluster-3", "app-work")
        await hub.patch(resource, "x", change, "app")
        await hub.advance(120)
        now = [await hub.manifests(f"cluster-{number}", "app-work") for number in (1, 2, 3)]
        assert sum(manifests != old for manifests in now) == updated

    on_hub(scenario, settings=PlacementSettings(admit_workloads=True))


def test_90_a_run_takes_overrides_along_and_reports_diffs() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        rule = {
            "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "canary"}}}]},
            "overrideType": "JSONPatch",
            "jsonPatchOverrides": [{"op": "replace", "path": "/data/a", "value": "canary"}],
        }
        body = {"resourceSelectors": [config_selector("conf")], "policy": {"overrideRules": [rule]}}
        await hub.client.create(OVERRIDES, {"metadata": {"name": "ro", "namespace": "app"}, "spec": body})
        await hub.place("app", strategy={**EXTERNAL, "applyStrategy": {"type": "ReportDiff"}})
        await hub.advance(40)
        await strategy(hub, stage("all", labelSelector={}))
        await run(hub)
        work = await hub.work("cluster-1", "app-work")
        assert work is not None
        assert spec_of(work)["applyStrategy"]["type"] == "ReportDiff"
        await hub.patch(
            CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"strategy": {"applyStrategy": {"type": "ClientSideApply"}}}}
        )
        await run(hub, "second")
        assert await said(hub, "Succeeded", "second") == (
            "True",
            "UpdateRunSucceeded",
            "All stages are completed successfully",
        )
        assert await versions(hub) == {"cluster-1": "1", "cluster-2": "canary", "cluster-3": "1"}
        chosen = {spec_of(one)["targetCluster"]: one for one in await hub.bindings("app")}
        assert spec_of(chosen["cluster-2"])["resourceOverrideSnapshots"]
        assert "resourceOverrideSnapshots" not in spec_of(chosen["cluster-1"])

    on_hub(scenario)


@pytest.mark.parametrize("change", ["nothing", "changed", "deleted"])
def test_92_a_member_that_left_gets_what_a_new_run_brings(change: str) -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, stage("all", labelSelector={}))
        await run(hub)
        await hub.client.delete(MEMBER_CLUSTERS, "cluster-2")
        await hub.advance(10)
        if change == "changed":
            await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        elif change == "deleted":
            await hub.client.delete(CONFIG_MAPS, "conf", "app")
        await hub.join("cluster-2")
        assert (await versions(hub))["cluster-2"] == ""
        await run(hub, "second")
        assert (await said(hub, "Succeeded", "second"))[0] == "True"
        assert set((await versions(hub)).values()) == {{"nothing": "1", "changed": "2", "deleted": ""}[change]}

    on_hub(scenario)


@pytest.mark.parametrize(("guarded", "left"), [((), []), (("a",), ["a"]), (("a", "b"), ["a", "b"])])
def test_141_draining_respects_budgets_and_uncordoning_brings_back(guarded: tuple[str, ...], left: list[str]) -> None:
    async def scenario(hub: Hub) -> None:
        for name in ("a", "b"):
            await hub.namespace(name)
            await hub.place(name)
        for name in guarded:
            budget = {"metadata": {"name": name}, "spec": {"minAvailable": 3}}
            await hub.client.create(DISRUPTION_BUDGETS, budget)
        await hub.patch(MEMBER_CLUSTERS, "cluster-2", {"spec": {"taints": [CORDON]}})
        for name in ("a", "b"):
            await evict(hub, "cluster-2", f"drain-{name}", name)
        await hub.advance(30)
        assert [name for name in ("a", "b") if "cluster-2" in await hub.clusters(name)] == left
        await hub.patch(MEMBER_CLUSTERS, "cluster-2", {"spec": {"taints": []}})
        await hub.advance(10)
        for name in ("a", "b"):
            assert sorted(await hub.clusters(name)) == ["cluster-1", "cluster-2", "cluster-3"]

    on_hub(scenario)


def test_142_a_namespace_and_its_contents_may_be_placed_apart() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app", conf={"a": "1"})
        await hub.place("app", selectors=[namespace_selector("app", "NamespaceOnly")])
        await hub.place("contents", "app", selectors=[config_selector("conf")])
        assert [one["kind"] for one in await hub.manifests("cluster-1", "app-work")] == ["Namespace"]
        assert [one["kind"] for one in await hub.manifests("cluster-1", "app.contents-work")] == ["ConfigMap"]
        assert (await hub.conditions("contents", "app"))["Available"][0] == "True"

    on_hub(scenario)


def test_144_an_envelope_is_unpacked_and_may_not_hold_what_is_cluster_scoped() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in", "namespace": "app"}}
        metadata = {"name": "wrap", "namespace": "app"}
        await hub.client.create(ENVELOPES, {"metadata": metadata, "data": {"in.yaml": inside}})
        hub.members.broken.add(("cluster-1", "in"))
        await hub.place("app")
        entry = status_of(await hub.placement("app"))["placementStatuses"][0]
        (failed,) = entry["failedPlacements"]
        assert (failed["name"], failed["envelope"]["name"]) == ("in", "wrap")
        hub.members.broken.clear()
        await hub.recheck()
        assert (await hub.conditions("app"))["Available"][0] == "True"

        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
        await hub.patch(ENVELOPES, "wrap", {"data": {"role.yaml": role}}, "app")
        await hub.advance(60)
        status, _, _ = (await hub.conditions("app"))["WorkSynchronized"]
        assert status == "False"
        entry = status_of(await hub.placement("app"))["placementStatuses"][0]
        assert "a cluster-scoped object role.yaml (r) has been wrapped" in entry["conditions"][-1]["message"]

    on_hub(scenario, members=ONE)


def test_145_with_workloads_on_the_hub_only_what_users_wrote_travels() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        spec = {"selector": LABELS, "template": POD}
        owner = await hub.client.create(DEPLOYMENTS, {"metadata": {"name": "x", "namespace": "app"}, "spec": spec})
        reference = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "x",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": "x-1", "namespace": "app", "ownerReferences": [reference]}
        await hub.client.create(REPLICA_SETS, {"metadata": metadata, "spec": spec})
        await hub.place("app")
        kinds = [one["kind"] for one in await hub.manifests("cluster-1", "app-work")]
        assert kinds == ["Namespace", "Deployment"]

    on_hub(scenario, members=ONE, settings=PlacementSettings(admit_workloads=True))


def test_148_a_member_may_act_in_its_own_namespace_only() -> None:
    async def scenario(hub: Hub) -> None:
        everywhere = (await hub.client.list(ROLE_BINDINGS)).items
        mine = [
            one
            for one in everywhere
            if any(subject.get("name") == "cluster-1" for subject in one.get("subjects") or ())
        ]
        assert [one["metadata"]["namespace"] for one in mine] == [member_namespace("cluster-1")]
        role = await hub.client.get(ROLES, mine[0]["roleRef"]["name"], member_namespace("cluster-1"))
        # Inside it, everything of the fleet's own groups, and events; nothing else of the core group.
        groups = {group: rule["resources"] for rule in role["rules"] for group in rule["apiGroups"]}
        assert groups.pop("") == ["events"]
        assert set(groups) == {
            "cluster.kubernetes-fleet.io",
            "placement.kubernetes-fleet.io",
            "networking.fleet.azure.com",
        }
        wide = (await hub.client.list(CLUSTER_ROLE_BINDINGS)).items
        assert not [one for one in wide if any(s.get("name") == "cluster-1" for s in one.get("subjects") or ())]

    on_hub(scenario)
