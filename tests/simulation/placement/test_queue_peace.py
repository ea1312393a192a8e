"""What the hub does for queued jobs beyond upstream: wishes passed on, progress shown, jobs moved, templates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from corral.configuration.placement import PlacementSettings
from corral.core import conditions as conditions_of
from corral.core.errors import NotFound
from corral.core.meta import Obj, annotations_of, name_of, spec_of, status_of, with_annotations
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES
from corral.runtime.virtual import run_virtual

from .fleet import PlacementFleet, on_fleet
from .test_whole_guide import apply_jobs, apply_queues, conditions, find, reported

ABANDON = {"deleteStrategy": {"propagationPolicy": "Abandon"}}


async def place_settings(fleet: PlacementFleet, strategy: Obj) -> None:
    hub = fleet.hub.client
    await hub.create(NAMESPACES, {"metadata": {"name": "app"}})
    await hub.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "app"}, "data": {"a": "1"}})
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
    policy = {"placementType": "PickFixed", "clusterNames": ["cluster-1", "cluster-2"]}
    spec = {"resourceSelectors": [selector], "policy": policy, "strategy": strategy}
    await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "app"}, "spec": spec})
    await asyncio.sleep(30)


async def has_settings(fleet: PlacementFleet, cluster: str) -> bool:
    try:
        await fleet.members[cluster].client.get(CONFIG_MAPS, "settings", "app")
    except NotFound:
        return False
    return True


@pytest.mark.parametrize(("strategy", "stays"), [(ABANDON, True), ({}, False)])
def test_what_an_abandoning_placement_placed_outlives_it(strategy: Obj, stays: bool) -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await place_settings(fleet, strategy)
        assert await has_settings(fleet, "cluster-1")
        await fleet.hub.client.delete(CLUSTER_RESOURCE_PLACEMENTS, "app")
        await asyncio.sleep(120)
        assert await has_settings(fleet, "cluster-1") is stays
        assert (await fleet.hub.client.list(WORKS)).items == []

    on_fleet(scenario)


def test_an_abandoning_placement_that_gives_up_a_cluster_cleans_up_there() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await place_settings(fleet, ABANDON)
        policy = {"spec": {"policy": {"clusterNames": ["cluster-1"]}}}
        await fleet.hub.client.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", "", policy)
        await asyncio.sleep(180)
        assert await has_settings(fleet, "cluster-1")
        assert not await has_settings(fleet, "cluster-2")

    on_fleet(scenario)


def test_wishes_of_a_placement_reach_its_works_and_are_taken_back() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await place_settings(fleet, {"reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}})
        hub = fleet.hub.client
        notes: dict[str, str | None] = {
            "corral.dev/queue-friendly": "true",
            "corral.dev/ignore-differences": "/data/a",
        }
        await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", "", {"metadata": {"annotations": notes}})
        await asyncio.sleep(5)
        work = await hub.get(WORKS, "app-work", "fleet-member-cluster-1")
        assert spec_of(work)["reportBackStrategy"] == {"type": "Mirror", "destination": "WorkAPI"}
        assert {name: annotations_of(work).get(name) for name in notes} == notes
        member = fleet.members["cluster-1"].client
        await member.patch(CONFIG_MAPS, "settings", "app", {"data": {"a": "theirs"}})
        await asyncio.sleep(1800)
        assert (await member.get(CONFIG_MAPS, "settings", "app"))["data"] == {"a": "theirs"}

        gone = {"metadata": {"annotations": dict.fromkeys(notes)}}
        await hub.patch(CLUSTER_RESOURCE_PLACEMENTS, "app", "", gone)
        await asyncio.sleep(1800)
        work = await hub.get(WORKS, "app-work", "fleet-member-cluster-1")
        assert not set(notes) & set(annotations_of(work))
        assert (await member.get(CONFIG_MAPS, "settings", "app"))["data"] == {"a": "1"}

    on_fleet(scenario)


def test_a_placement_asks_for_peace_on_behalf_of_its_jobs() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        await fleet.apply(5)
        await fleet.apply(6)
        await fleet.apply(8)
        friendly = {"corral.dev/queue-friendly": "true"}
        for number in (9, 10):
            await fleet.apply(number, lambda obj: with_annotations(obj, friendly))
        await asyncio.sleep(15)
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        assert ("ResourcePlacementAvailable", "True", "ResourceAvailable") in conditions(status)
        assert ("corral.dev/JobsFinished", "False", "Running") in conditions(status)
        assert (await reported(fleet))["status"]["active"] == 3

    on_fleet(scenario)


async def stop_queue(fleet: PlacementFleet, *clusters: str) -> None:
    leave = {"metadata": {"annotations": {"corral.dev/ignore-differences": "/spec/stopPolicy"}}}
    await fleet.hub.client.patch(CLUSTER_RESOURCE_PLACEMENTS, "sample-kueue", "", leave)
    await asyncio.sleep(1)
    for cluster in clusters:
        client = fleet.members[cluster].client
        await client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"stopPolicy": "Hold"}})


def test_a_job_that_waits_too_long_is_moved_to_a_cluster_it_has_not_tried() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        await stop_queue(fleet, "cluster-3")
        await apply_jobs(fleet, **{"corral.dev/queue-friendly": "true"})
        await asyncio.sleep(30)
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        assert [one["clusterName"] for one in status["placementStatuses"]] == ["cluster-3"]
        assert ("corral.dev/JobsStarted", "False", "Pending") in conditions(status)
        await asyncio.sleep(60)
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        (one,) = status["placementStatuses"]
        assert one["clusterName"] != "cluster-3"
        assert conditions_of.is_true(status["conditions"], "corral.dev/JobsStarted")
        assert await find(fleet, "cluster-3", "mock-workload") is None
        assert "JobsMoved" in await fleet.events("job1-placement")

    on_fleet(scenario, hub=PlacementSettings(pending_limit=60.0))


def test_a_job_that_no_cluster_takes_stays_where_it_was_tried_last() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        await stop_queue(fleet, *fleet.members)
        await apply_jobs(fleet, **{"corral.dev/queue-friendly": "true"})
        await asyncio.sleep(600)
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        assert len(status["placementStatuses"]) == 1
        assert (await fleet.events("job1-placement")).count("JobsMoved") <= 2
        there = [cluster for cluster in fleet.members if await find(fleet, cluster, "mock-workload")]
        assert len(there) == 1

    on_fleet(scenario, hub=PlacementSettings(pending_limit=60.0))


def streamed(name: str, labels: Mapping[str, str]) -> Obj:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": "compute-jobs", "labels": dict(labels)}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def test_jobs_that_name_a_template_get_placements_of_their_own() -> None:
    async def main() -> None:
        async with PlacementFleet() as fleet:
            await apply_queues(fleet)
            hub = fleet.hub.client
            selector = {"group": "batch", "version": "v1", "kind": "Job", "name": "any"}
            policy = {"placementType": "PickN", "numberOfClusters": 1}
            notes = {"corral.dev/template": "true", "corral.dev/queue-friendly": "true"}
            metadata = {"name": "stream", "namespace": "compute-jobs", "annotations": notes}
            spec = {"resourceSelectors": [selector], "policy": policy}
            await hub.create(RESOURCE_PLACEMENTS, {"metadata": metadata, "spec": spec})
            for number in range(3):
                await hub.create(JOBS, streamed(f"job-{number}", {"corral.dev/placement-template": "stream"}))
            await hub.create(JOBS, streamed("other", {}))
            await asyncio.sleep(10)
            found = (await hub.list(RESOURCE_PLACEMENTS, "compute-jobs")).items
            assert [name_of(one) for one in found] == ["stream", "stream-job-0", "stream-job-1", "stream-job-2"]
            assert status_of(found[0]) == {}
            for one in found[1:]:
                assert conditions_of.is_true(one, "ResourcePlacementApplied")
                assert annotations_of(one)["corral.dev/queue-friendly"] == "true"

            wider = {"spec": {"policy": {"numberOfClusters": 2}}}
            await hub.patch(RESOURCE_PLACEMENTS, "stream", "compute-jobs", wider)
            await hub.delete(JOBS, "job-0", "compute-jobs")
            await asyncio.sleep(120)
            found = (await hub.list(RESOURCE_PLACEMENTS, "compute-jobs")).items
            assert [name_of(one) for one in found] == ["stream", "stream-job-1", "stream-job-2"]
            assert len(status_of(found[1])["placementStatuses"]) == 2
            there = [cluster for cluster in fleet.members if await find(fleet, cluster, "job-0")]
            assert there == []

    run_virtual(main)
