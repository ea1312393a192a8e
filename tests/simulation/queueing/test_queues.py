"""Queues that are missing, broken or removed, and what everybody else sees of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from corral.configuration.queueing import QueueingConfig, Retention
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, names
from corral.runtime.virtual import run_virtual

from .world import JOBS, World, cluster_queue, condition, fill, flavor, job, local_queue


def run(scenario: Callable[[World], Awaitable[None]], config: QueueingConfig | None = None) -> None:
    async def main() -> None:
        async with World(config) as world:
            await scenario(world)

    run_virtual(main)


def cohort(name: str, parent: str) -> tuple[Resource, Obj]:
    return COHORTS, {"metadata": {"name": name}, "spec": {"parentName": parent}}


def test_everything_may_arrive_in_any_order() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        workload = await world.workload_of("sample")
        assert condition(workload, "QuotaReserved") == ("False", "Inadmissible", "LocalQueue lq doesn't exist")
        await fill(world, local_queue())
        workload = await world.workload_of("sample")
        assert condition(workload, "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue cq doesn't exist")
        local = await world.client.get(LOCAL_QUEUES, "lq", "default")
        assert condition(local, "Active") == (
            "False",
            "ClusterQueueDoesNotExist",
            "Can't submit new workloads to clusterQueue",
        )
        await fill(world, cluster_queue())
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        assert condition(queue, "Active") == (
            "False",
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): default.",
        )
        await fill(world, flavor())
        await world.advance(2)
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        assert condition(queue, "Active") == ("True", "Ready", "Can admit new workloads")
        assert (await world.job("sample"))["spec"]["suspend"] is False

    run(scenario)


def test_broken_neighbours_stop_nobody() -> None:
    async def scenario(world: World) -> None:
        await fill(
            world,
            flavor(),
            cluster_queue("good"),
            cluster_queue("ghost-flavor", flavors=("ghost",)),
            cluster_queue("cyclic", cohortName="a"),
            cohort("a", "b"),
            cohort("b", "a"),
            local_queue("lq", "good"),
            local_queue("bad1", "ghost-flavor"),
            local_queue("bad2", "cyclic"),
            local_queue("bad3", "nowhere"),
        )
        for queue in ("bad1", "bad2", "bad3", "lq"):
            await fill(world, job(f"in-{queue}", queue=queue))
        running = [
            name
            for name in ("in-bad1", "in-bad2", "in-bad3", "in-lq")
            if not (await world.job(name))["spec"]["suspend"]
        ]
        assert running == ["in-lq"]

    run(scenario)


def test_status_counts_what_is_queued_reserved_and_admitted() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(cpu="2"), local_queue(), job("a"), job("b"), job("c"))
        await world.advance(2)
        queue = (await world.client.get(CLUSTER_QUEUES, "cq"))["status"]
        assert (queue["pendingWorkloads"], queue["reservingWorkloads"], queue["admittedWorkloads"]) == (1, 2, 2)
        assert queue["flavorsUsage"] == [
            {"name": "default", "resources": [{"name": "cpu", "total": "2", "borrowed": "0"}]}
        ]
        local = (await world.client.get(LOCAL_QUEUES, "lq", "default"))["status"]
        assert (local["pendingWorkloads"], local["admittedWorkloads"]) == (1, 2)
        assert local["flavorsReservation"] == [{"name": "default", "resources": [{"name": "cpu", "total": "2"}]}]

    run(scenario)


def test_a_cluster_queue_in_use_is_kept_until_it_is_empty() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(), local_queue(), job())
        await world.client.delete(CLUSTER_QUEUES, "cq")
        await world.settle()
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        assert condition(queue, "Active") == (
            "False",
            "Terminating",
            "Can't admit new workloads; clusterQueue is terminating",
        )
        await world.client.delete(RESOURCE_FLAVORS, "default")
        await world.settle()
        assert (await world.client.get(RESOURCE_FLAVORS, "default"))["metadata"]["deletionTimestamp"]
        await world.finish_job("sample")
        await world.advance(2)
        with pytest.raises(NotFound):
            await world.client.get(CLUSTER_QUEUES, "cq")
        await world.settle()
        with pytest.raises(NotFound):
            await world.client.get(RESOURCE_FLAVORS, "default")

    run(scenario)


def test_jobs_without_a_queue_use_the_default_one() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(), local_queue("default"))
        created = await world.client.create(*job(queue=""))
        assert created["metadata"]["labels"][names.QUEUE_NAME] == "default"
        assert created["spec"]["suspend"] is True
        await world.settle()
        assert (await world.job("sample"))["spec"]["suspend"] is False

    run(scenario)


def test_jobs_without_any_queue_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        created = await world.client.create(*job(queue=""))
        assert not created["spec"].get("suspend")
        await world.settle()
        assert await world.workloads() == []

    run(scenario)


def test_the_queue_name_may_be_an_annotation() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(), local_queue())
        await fill(world, job(queue="", annotations={names.QUEUE_NAME: "lq"}))
        assert (await world.workload_of("sample"))["spec"]["queueName"] == "lq"
        assert (await world.job("sample"))["spec"]["suspend"] is False

    run(scenario)


def test_finished_workloads_go_after_their_retention() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(), local_queue(), job())
        await world.finish_job("sample")
        assert len(await world.workloads()) == 1
        await world.advance(61)
        assert await world.workloads() == []

    run(scenario, QueueingConfig(retention=Retention(after_finished_s=60)))


def test_deleting_a_job_frees_its_quota_at_once() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(cpu="1"), local_queue(), job("first"))
        await fill(world, job("second"))
        assert (await world.job("second"))["spec"]["suspend"] is True
        await world.client.delete(JOBS, "first", "default", propagation="Background")
        await world.advance(2)
        assert (await world.job("second"))["spec"]["suspend"] is False
        assert len(await world.workloads()) == 1

    run(scenario)


def test_a_changed_suspended_job_updates_its_workload() -> None:
    async def scenario(world: World) -> None:
        await fill(world, flavor(), cluster_queue(cpu="1"), local_queue(), job(cpu="1", parallelism=2))
        workload = await world.workload_of("sample")
        assert (condition(workload, "QuotaReserved") or ())[0] == "False"
        await world.client.patch(JOBS, "sample", "default", {"spec": {"parallelism": 1}})
        await world.settle()
        workload = await world.workload_of("sample")
        assert [entry["count"] for entry in workload["spec"]["podSets"]] == [1]
        assert (condition(workload, "QuotaReserved") or ())[0] == "True"

    run(scenario)
