"""Staged update runs: how many clusters at a time, approvals, overrides, diffs, members that left."""

from __future__ import annotations

import pytest
from fleet import PlacementFleet, on_fleet
from hub import Hub, config_selector, namespace_selector, on_hub
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

from corral.core.conditions import find
from corral.core.meta import spec_of, status_of
from corral.kinds.fleet import (
    CLUSTER_APPROVAL_REQUESTS,
    CLUSTER_RESOURCE_PLACEMENTS,
    CLUSTER_RESOURCE_SNAPSHOTS,
    CLUSTER_UPDATE_RUNS,
    CLUSTER_UPDATE_STRATEGIES,
    MEMBER_CLUSTERS,
    OVERRIDES,
)
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES


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
