"""Upstream's scenarios 76 to 94 on the hub: how updates reach clusters, by themselves or stage by stage."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub

from corral.configuration.placement import PlacementSettings
from corral.core.conditions import find
from corral.core.errors import Invalid
from corral.core.meta import Obj, spec_of, status_of
from corral.kinds.fleet import (
    CLUSTER_APPROVAL_REQUESTS,
    CLUSTER_RESOURCE_PLACEMENTS,
    CLUSTER_UPDATE_RUNS,
    CLUSTER_UPDATE_STRATEGIES,
    MEMBER_CLUSTERS,
)
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

ONE_BY_ONE = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 5}}
EXTERNAL = {"type": "External"}


async def change(hub: Hub, value: str, name: str = "app") -> None:
    await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": value}}, name)
    await hub.advance(31)


async def versions(hub: Hub, name: str = "app") -> dict[str, str]:
    """What each cluster's Work carries."""
    found = {}
    for cluster in ("cluster-1", "cluster-2", "cluster-3"):
        manifests = await hub.manifests(cluster, f"{name}-work")
        found[cluster] = next((one["data"]["a"] for one in manifests if one["kind"] == "ConfigMap"), "")
    return found


async def start(hub: Hub, **spec: object) -> None:
    await hub.namespace("app", conf={"a": "1"})
    await hub.place("app", **spec)
    await hub.advance(40)


def test_76_a_cluster_that_does_not_come_up_holds_the_others_back() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=ONE_BY_ONE)
        hub.members.broken.add(("cluster-1", "conf"))
        await change(hub, "bad")
        assert await versions(hub) == {"cluster-1": "bad", "cluster-2": "1", "cluster-3": "1"}
        assert (await hub.conditions("app"))["RolloutStarted"] == (
            "False",
            "RolloutNotStartedYet",
            "The rollout is being blocked by the rollout strategy in 2 cluster(s)",
        )
        second = status_of(await hub.placement("app"))["placementStatuses"][1]
        assert second["conditions"][-1]["message"] == "The rollout is being blocked by the rollout strategy"

    on_hub(scenario)


def test_79_what_cannot_be_tracked_counts_after_a_while() -> None:
    async def scenario(hub: Hub) -> None:
        from corral.jobs.batch_job.kind import CRON_JOBS

        await hub.namespace("app", conf={"a": "1"})
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
        job = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
        await hub.client.create(CRON_JOBS, {"metadata": {"name": "nightly", "namespace": "app"}, "spec": job})
        strategy = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 20}}
        await hub.place("app", strategy=strategy)
        await hub.advance(60)
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await hub.advance(16)
        assert await versions(hub) == {"cluster-1": "2", "cluster-2": "1", "cluster-3": "1"}
        await hub.advance(21)
        assert await versions(hub) == {"cluster-1": "2", "cluster-2": "2", "cluster-3": "1"}
        await hub.advance(21)
        assert set((await versions(hub)).values()) == {"2"}

    on_hub(scenario)


def test_80_a_repair_goes_to_the_broken_cluster_first() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=ONE_BY_ONE)
        hub.members.broken.add(("cluster-1", "conf"))
        await change(hub, "bad")
        hub.members.broken.clear()
        hub.members.applied.clear()
        await change(hub, "good")
        assert set((await versions(hub)).values()) == {"good"}
        assert hub.members.applied[0][1] == "cluster-1"

    on_hub(scenario)


def test_81_percentages_round_up() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy={"rollingUpdate": {"maxUnavailable": "34%", "maxSurge": 0}})
        hub.members.deaf.update({"cluster-1", "cluster-2", "cluster-3"})
        await change(hub, "2")
        assert await versions(hub) == {"cluster-1": "2", "cluster-2": "2", "cluster-3": "1"}

    on_hub(scenario)


def test_no_budget_means_no_update() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}})
        await change(hub, "2")
        assert set((await versions(hub)).values()) == {"1"}
        assert (await hub.conditions("app"))["RolloutStarted"][2].endswith("in 3 cluster(s)")
        assert status_of(await hub.placement("app"))["observedResourceIndex"] == "1"

    on_hub(scenario)


def test_82_an_apply_strategy_reaches_all_bindings_at_once() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=ONE_BY_ONE)
        await hub.patch(
            CLUSTER_RESOURCE_PLACEMENTS,
            "app",
            {"spec": {"strategy": {"applyStrategy": {"whenToApply": "IfNotDrifted"}}}},
        )
        await hub.settle()
        for cluster in ("cluster-1", "cluster-2", "cluster-3"):
            work = await hub.work(cluster, "app-work")
            assert work is not None
            assert spec_of(work)["applyStrategy"]["whenToApply"] == "IfNotDrifted"
        assert (await hub.conditions("app"))["Available"][0] == "True"

    on_hub(scenario)


# Stages


def stage(name: str, **more: object) -> Obj:
    return {"name": name, **more}


CANARY = stage("canary", labelSelector={"matchLabels": {"env": "canary"}})
PROD = stage("prod", labelSelector={"matchLabels": {"env": "prod"}}, maxConcurrency=2)


async def strategy(hub: Hub, *stages: Obj, name: str = "plan") -> None:
    await hub.client.create(CLUSTER_UPDATE_STRATEGIES, {"metadata": {"name": name}, "spec": {"stages": list(stages)}})


async def run(hub: Hub, name: str = "run", state: str = "Run", plan: str = "plan", **more: str) -> Obj:
    spec = {"placementName": "app", "stagedRolloutStrategyName": plan, "state": state, **more}
    await hub.client.create(CLUSTER_UPDATE_RUNS, {"metadata": {"name": name}, "spec": spec})
    await hub.settle()
    return await hub.client.get(CLUSTER_UPDATE_RUNS, name)


async def said(hub: Hub, kind: str, name: str = "run") -> tuple[str, str, str]:
    entry = find(await hub.client.get(CLUSTER_UPDATE_RUNS, name), kind)
    return (entry["status"], entry["reason"], entry["message"]) if entry else ("", "", "")


async def approve(hub: Hub, name: str) -> None:
    request = await hub.client.get(CLUSTER_APPROVAL_REQUESTS, name)
    entry = {
        "type": "Approved",
        "status": "True",
        "reason": "lgtm",
        "message": "ok",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    await hub.client.update(
        CLUSTER_APPROVAL_REQUESTS, {**request, "status": {"conditions": [entry]}}, subresource="status"
    )
    await hub.settle()


def test_83_nothing_is_rolled_out_before_a_run() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        assert set((await versions(hub)).values()) == {""}
        status, reason, message = (await hub.conditions("app"))["RolloutStarted"]
        assert (status, reason) == ("Unknown", "RolloutControlledByExternalController")
        assert message == (
            "Rollout is controlled by an external controller and no resource snapshot name is observed across clusters."
            " To determine rollout status, check the ClusterStagedUpdateRun resources with spec.placementName matching"
            " this placement"
        )
        assert "selectedResources" not in status_of(await hub.placement("app"))

    on_hub(scenario)


def test_84_external_is_for_good() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub)
        await hub.patch(
            CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"strategy": {"type": "External", "rollingUpdate": None}}}
        )
        with pytest.raises(Invalid, match="cannot change rollout strategy type from 'External' to other types"):
            await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"strategy": {"type": "RollingUpdate"}}})

    on_hub(scenario)


def test_85_a_run_rolls_out_and_an_older_index_rolls_back() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, CANARY, PROD)
        await run(hub)
        assert await said(hub, "Succeeded") == (
            "True",
            "UpdateRunSucceeded",
            "All stages are completed successfully",
        )
        assert set((await versions(hub)).values()) == {"1"}
        assert (await hub.conditions("app"))["Available"][0] == "True"
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await run(hub, "second")
        # What the user sees on the hub when the run is made is what it rolls out.
        assert set((await versions(hub)).values()) == {"2"}
        await run(hub, "back", resourceSnapshotIndex="0")
        assert set((await versions(hub)).values()) == {"1"}
        assert status_of(await hub.placement("app"))["observedResourceIndex"] == "0"

    on_hub(scenario)


def test_86_sorting_labels_and_concurrency_order_a_stage() -> None:
    async def scenario(hub: Hub) -> None:
        await hub.patch(MEMBER_CLUSTERS, "cluster-3", {"metadata": {"labels": {"order": "0"}}})
        await start(hub, strategy=EXTERNAL)
        hub.members.deaf.update({"cluster-1", "cluster-2", "cluster-3"})
        await strategy(hub, stage("all", labelSelector={}, sortingLabelKey="order", maxConcurrency="70%"))
        found = await run(hub)
        (only,) = status_of(found)["stagesStatus"]
        assert [one["clusterName"] for one in only["clusters"]] == ["cluster-3", "cluster-2", "cluster-1"]
        assert await versions(hub) == {"cluster-1": "", "cluster-2": "1", "cluster-3": "1"}

    on_hub(scenario)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([CANARY], "some clusters are not placed in any stage, total 2, showing up to 10: cluster-1, cluster-3"),
        ([CANARY, stage("two", labelSelector={})], "cluster `cluster-2` appears in more than one stages"),
        (
            [stage("all", labelSelector={}, sortingLabelKey="order")],
            'the sorting label `order:` on cluster `cluster-3` is not valid: strconv.Atoi: parsing "": invalid syntax',
        ),
    ],
)
def test_87_a_strategy_that_does_not_fit_fails_at_once(stages: list[Obj], message: str) -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, *stages)
        await run(hub)
        assert await said(hub, "Initialized") == (
            "False",
            "UpdateRunInitializedFailed",
            "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a"
            f" client error: {message}",
        )

    on_hub(scenario)


def test_88_approvals_and_waits_stand_between_stages() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        after = [{"type": "TimedWait", "waitTime": "5s"}, {"type": "Approval"}]
        await strategy(hub, {**CANARY, "afterStageTasks": after}, {**PROD, "beforeStageTasks": [{"type": "Approval"}]})
        await run(hub)
        assert await versions(hub) == {"cluster-1": "", "cluster-2": "1", "cluster-3": ""}
        assert (await said(hub, "Progressing"))[1:] == (
            "UpdateRunWaiting",
            "The updateRun is waiting for after-stage tasks in stage canary to complete",
        )
        await approve(hub, "run-after-canary")
        accepted = find(await hub.client.get(CLUSTER_APPROVAL_REQUESTS, "run-after-canary"), "ApprovalAccepted")
        assert accepted is not None
        assert accepted["status"] == "True"
        await hub.advance(6)
        assert (await said(hub, "Progressing"))[2] == (
            "The updateRun is waiting for before-stage tasks in stage prod to complete"
        )
        await approve(hub, "run-before-prod")
        assert set((await versions(hub)).values()) == {"1"}
        assert (await said(hub, "Succeeded"))[0] == "True"

    on_hub(scenario)


def test_89_a_run_is_stopped_and_goes_on() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, stage("all", labelSelector={}))
        found = await run(hub, state="Initialize")
        assert "Progressing" not in [one["type"] for one in status_of(found)["conditions"]]
        with pytest.raises(Invalid):
            await hub.patch(CLUSTER_UPDATE_RUNS, "run", {"spec": {"state": "Stop"}})
        hub.members.deaf.update({"cluster-1", "cluster-2", "cluster-3"})
        await hub.patch(CLUSTER_UPDATE_RUNS, "run", {"spec": {"state": "Run"}})
        await hub.settle()
        await hub.patch(CLUSTER_UPDATE_RUNS, "run", {"spec": {"state": "Stop"}})
        await hub.settle()
        assert (await said(hub, "Progressing"))[:2] == ("Unknown", "UpdateRunStopping")
        hub.members.deaf.clear()
        await hub.recheck()
        assert (await said(hub, "Progressing"))[1:] == ("UpdateRunStopped", "The update run has been stopped")
        assert await versions(hub) == {"cluster-1": "1", "cluster-2": "", "cluster-3": ""}
        with pytest.raises(Invalid):
            await hub.patch(CLUSTER_UPDATE_RUNS, "run", {"spec": {"state": "Initialize"}})
        await hub.patch(CLUSTER_UPDATE_RUNS, "run", {"spec": {"state": "Run"}})
        await hub.settle()
        assert (await said(hub, "Succeeded"))[0] == "True"

    on_hub(scenario)


def test_91_the_last_stage_removes_clusters_that_were_dropped() -> None:
    async def scenario(hub: Hub) -> None:
        policy = {"placementType": "PickFixed", "clusterNames": ["cluster-1", "cluster-2"]}
        await start(hub, strategy=EXTERNAL, policy=policy)
        await strategy(hub, stage("all", labelSelector={}))
        await run(hub)
        change = {"spec": {"policy": {"clusterNames": ["cluster-2"]}}}
        await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", change)
        await hub.settle()
        assert (await versions(hub))["cluster-1"] == "1"
        await run(hub, "second")
        assert await versions(hub) == {"cluster-1": "", "cluster-2": "1", "cluster-3": ""}
        assert (await said(hub, "Succeeded", "second"))[0] == "True"

    on_hub(scenario)


def test_93_a_run_that_another_one_overtakes_fails() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, stage("all", labelSelector={}))
        hub.members.deaf.update({"cluster-1", "cluster-2", "cluster-3"})
        await run(hub)
        await hub.patch(CONFIG_MAPS, "conf", {"data": {"a": "2"}}, "app")
        await run(hub, "second")
        status, reason, message = await said(hub, "Succeeded")
        assert (status, reason) == ("False", "UpdateRunFailed")
        assert message.endswith("preempted")

    on_hub(scenario)


def test_94_a_cluster_that_does_not_finish_makes_the_run_stuck() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, stage("all", labelSelector={}))
        hub.members.broken.add(("cluster-1", "conf"))
        await run(hub)
        assert (await said(hub, "Progressing"))[1] == "UpdateRunProgressing"
        await hub.advance(301)
        assert await said(hub, "Progressing") == (
            "False",
            "UpdateRunStuck",
            "The updateRun is stuck waiting for cluster-1 cluster(s) in stage all to finish updating, please check"
            " placement status for potential errors",
        )

    on_hub(scenario)


@pytest.mark.parametrize("settings", [PlacementSettings(), PlacementSettings.upstream()], ids=["default", "upstream"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_approval_of_a_stage_without_clusters_is_asked_for_and_waited_for(
    when: str, settings: PlacementSettings
) -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        gate = stage("nobody", labelSelector={"matchLabels": {"env": "none"}})
        gate[f"{when}StageTasks"] = [{"type": "Approval"}]
        await strategy(hub, gate, stage("all", labelSelector={}, maxConcurrency=3))
        await run(hub)
        await hub.advance(60)
        assert await said(hub, "Progressing") == (
            "False",
            "UpdateRunWaiting",
            f"The updateRun is waiting for {when}-stage tasks in stage nobody to complete",
        )
        assert set((await versions(hub)).values()) == {""}
        await approve(hub, f"run-{when}-nobody")
        await hub.advance(60)
        assert (await said(hub, "Succeeded"))[0] == "True"
        assert set((await versions(hub)).values()) == {"1"}

    on_hub(scenario, settings=settings)


def test_a_stage_without_clusters_waits_as_long_as_its_strategy_says() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        gate = stage("nobody", labelSelector={"matchLabels": {"env": "none"}})
        gate["afterStageTasks"] = [{"type": "TimedWait", "waitTime": "10m"}]
        await strategy(hub, gate, stage("all", labelSelector={}, maxConcurrency=3))
        await run(hub)
        await hub.advance(500)
        assert set((await versions(hub)).values()) == {""}
        await hub.advance(120)
        assert set((await versions(hub)).values()) == {"1"}

    on_hub(scenario)


def test_a_run_that_takes_its_time_ends_when_the_clusters_it_removes_are_gone() -> None:
    async def scenario(hub: Hub) -> None:
        policy = {"placementType": "PickFixed", "clusterNames": ["cluster-1", "cluster-2"]}
        await start(hub, strategy=EXTERNAL, policy=policy)
        await strategy(hub, stage("all", labelSelector={}))
        await run(hub)
        await hub.advance(120)
        await hub.patch(
            CLUSTER_RESOURCE_PLACEMENTS, "app", {"spec": {"policy": {**policy, "clusterNames": ["cluster-2"]}}}
        )
        await hub.settle()
        await run(hub, "second")
        await hub.advance(120)
        assert await versions(hub) == {"cluster-1": "", "cluster-2": "1", "cluster-3": ""}
        assert (await said(hub, "Succeeded", "second"))[0] == "True"

    on_hub(scenario, settings=PlacementSettings.upstream())


def test_a_run_that_takes_its_time_stops_when_the_clusters_under_way_are_done() -> None:
    async def scenario(hub: Hub) -> None:
        await start(hub, strategy=EXTERNAL)
        await strategy(hub, stage("all", labelSelector={}))
        everywhere = {"cluster-1", "cluster-2", "cluster-3"}
        hub.members.deaf |= everywhere
        await run(hub)
        await hub.patch(CLUSTER_UPDATE_RUNS, "run", {"spec": {"state": "Stop"}})
        await hub.advance(30)
        assert (await said(hub, "Progressing"))[1] == "UpdateRunStopping"
        hub.members.deaf -= everywhere
        await hub.recheck()
        await hub.advance(30)
        assert (await said(hub, "Progressing"))[1] == "UpdateRunStopped"

    on_hub(scenario, settings=PlacementSettings.upstream())
