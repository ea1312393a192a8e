"""Workloads that lose their quota: preemption, stopped queues, deactivation, time limits, readiness deadlines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from corral.configuration.queueing import QueueingConfig, WaitForPodsReady
from corral.core.meta import Obj
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, condition, fill, flavor, job, local_queue

LOW = (WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": 10})
HIGH = (WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})


def run(scenario: Callable[[World], Awaitable[None]], config: QueueingConfig | None = None) -> None:
    async def main() -> None:
        async with World(config) as world:
            await fill(world, flavor(nodeLabels={"pool": "a"}), local_queue())
            await scenario(world)

    run_virtual(main)


async def patch_workload(world: World, name: str, spec: Obj) -> None:
    workload = await world.workload_of(name)
    await world.client.patch(WORKLOADS, workload["metadata"]["name"], "default", {"spec": spec})
    await world.settle()


def test_higher_priority_preempts_and_the_victim_waits_for_its_turn() -> None:
    async def scenario(world: World) -> None:
        await fill(world, LOW, HIGH, cluster_queue(cpu="4", preemption={"withinClusterQueue": "LowerPriority"}))
        await fill(world, job("low", cpu="3", labels={"kueue.x-k8s.io/priority-class": "low"}))
        assert (await world.job("low"))["spec"]["suspend"] is False
        await fill(world, job("high", cpu="3", labels={"kueue.x-k8s.io/priority-class": "high"}))
        low, high = await world.workload_of("low"), await world.workload_of("high")
        assert condition(high, "Admitted") == ("True", "Admitted", "The workload is admitted")
        evicted = condition(low, "Evicted")
        assert evicted is not None
        assert evicted[:2] == ("True", "Preempted")
        assert condition(low, "Preempted") == ("True", "InClusterQueue", evicted[2])
        assert condition(low, "Requeued") == ("True", "Preempted", evicted[2])
        quota = condition(low, "QuotaReserved")
        assert quota is not None
        assert quota[:2] == ("False", "Pending")
        assert condition(low, "Admitted") == ("False", "NoReservation", "The workload has no reservation")
        stopped = await world.job("low")
        assert stopped["spec"]["suspend"] is True
        assert "nodeSelector" not in stopped["spec"]["template"]["spec"]
        await world.finish_job("high")
        await world.advance(2)
        low = await world.workload_of("low")
        assert condition(low, "Admitted") == ("True", "Admitted", "The workload is admitted")
        assert condition(low, "Evicted") == ("False", "QuotaReserved", f"Previously: {evicted[2]}")
        assert (await world.job("low"))["spec"]["suspend"] is False

    run(scenario)


def test_draining_a_cluster_queue_evicts_and_restarting_it_readmits() -> None:
    async def scenario(world: World) -> None:
        await fill(world, cluster_queue(), job())
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.settle()
        workload = await world.workload_of("sample")
        assert condition(workload, "Evicted") == ("True", "ClusterQueueStopped", "The ClusterQueue is stopped")
        assert condition(workload, "Requeued") == ("False", "ClusterQueueStopped", "The ClusterQueue is stopped")
        assert (await world.job("sample"))["spec"]["suspend"] is True
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        assert condition(queue, "Active") == ("False", "Stopped", "Can't admit new workloads: is stopped.")
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "None"}})
        await world.advance(2)
        workload = await world.workload_of("sample")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
        assert condition(workload, "Requeued") == (
            "True",
            "ClusterQueueRestarted",
            "The ClusterQueue was restarted after being stopped",
        )

    run(scenario)


def test_holding_a_local_queue_keeps_what_runs_and_admits_nothing_new() -> None:
    async def scenario(world: World) -> None:
        await fill(world, cluster_queue(), job("first"))
        await world.client.patch(LOCAL_QUEUES, "lq", "default", {"spec": {"stopPolicy": "Hold"}})
        await world.settle()
        await fill(world, job("second"))
        assert condition(await world.workload_of("first"), "Admitted") is not None
        assert (await world.job("first"))["spec"]["suspend"] is False
        second = await world.workload_of("second")
        assert condition(second, "QuotaReserved") == ("False", "Inadmissible", "LocalQueue lq is inactive")

    run(scenario)


def test_deactivating_stops_and_reactivating_starts_again() -> None:
    async def scenario(world: World) -> None:
        await fill(world, cluster_queue(), job())
        await patch_workload(world, "sample", {"active": False})
        workload = await world.workload_of("sample")
        assert condition(workload, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
        assert condition(workload, "QuotaReserved") == ("False", "Pending", "The workload is deactivated")
        assert condition(workload, "Requeued") == ("False", "Deactivated", "The workload is deactivated")
        assert workload["status"]["schedulingStats"]["evictions"] == [
            {"reason": "Deactivated", "underlyingCause": "", "count": 1}
        ]
        await patch_workload(world, "sample", {"active": True})
        workload = await world.workload_of("sample")
        assert condition(workload, "Requeued") == ("True", "Reactivated", "The workload was reactivated")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")

    run(scenario)


def test_maximum_execution_time_deactivates() -> None:
    async def scenario(world: World) -> None:
        await fill(world, cluster_queue(), job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "30"}))
        await world.advance(29)
        assert condition(await world.workload_of("sample"), "Evicted") is None
        await world.advance(3)
        workload = await world.workload_of("sample")
        message = "The workload is deactivated due to exceeding the maximum execution time"
        assert condition(workload, "Evicted") == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded", message)
        assert workload["spec"]["active"] is False
        assert condition(workload, "DeactivationTarget") is None

    run(scenario)


def test_pods_that_never_get_ready_are_requeued_with_back_off_until_the_limit() -> None:
    async def scenario(world: World) -> None:
        await fill(world, cluster_queue(), job())
        await world.advance(11)
        workload = await world.workload_of("sample")
        name = workload["metadata"]["name"]
        assert condition(workload, "Evicted") == (
            "True",
            "PodsReadyTimeout",
            f"Exceeded the PodsReady timeout default/{name}",
        )
        assert workload["status"]["requeueState"]["count"] == 1
        assert condition(workload, "Requeued") is not None
        await world.advance(21)
        workload = await world.workload_of("sample")
        assert condition(workload, "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
        await world.advance(11)
        workload = await world.workload_of("sample")
        assert workload["spec"]["active"] is False
        assert condition(workload, "Evicted") == (
            "True",
            "DeactivatedDueToRequeuingLimitExceeded",
            "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
        )

    waiting = WaitForPodsReady(timeout_s=10, recovery_timeout_s=10, backoff_base_s=20, backoff_limit=1)
    run(scenario, QueueingConfig(wait_for_pods_ready=waiting))
