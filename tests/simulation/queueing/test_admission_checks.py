"""Admission checks: any controller may own one; queueing acts on what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corral.configuration.queueing import QueueingConfig, Retention
from corral.core.conditions import condition as make_condition
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, WORKLOADS
from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, condition, fill, flavor, job, local_queue

CHECK = (ADMISSION_CHECKS, {"metadata": {"name": "approve"}, "spec": {"controllerName": "example.com/people"}})
STRATEGY = {"admissionChecks": [{"name": "approve"}]}


async def activate(world: World) -> None:
    check = await world.client.get(ADMISSION_CHECKS, "approve")
    entry = {**make_condition("Active", True, "Ready", "here"), "lastTransitionTime": world.clock.timestamp()}
    await world.client.update(ADMISSION_CHECKS, {**check, "status": {"conditions": [entry]}}, subresource="status")
    await world.settle()


async def say(world: World, state: str, message: str = "", **more: Any) -> None:
    """Write the state of the check as its controller would."""
    workload = await world.workload_of("sample")
    entry = {
        "name": "approve",
        "state": state,
        "message": message,
        "lastTransitionTime": world.clock.timestamp(),
        **more,
    }
    new = {**workload, "status": {**workload["status"], "admissionChecks": [entry]}}
    await world.client.update(WORKLOADS, new, subresource="status")
    await world.settle()


def run(scenario: Callable[[World], Awaitable[None]], config: QueueingConfig | None = None) -> None:
    async def main() -> None:
        async with World(config) as world:
            await fill(world, flavor(), cluster_queue(admissionChecksStrategy=STRATEGY), local_queue(), CHECK)
            await activate(world)
            await fill(world, job())
            await scenario(world)

    run_virtual(main)


def states(workload: Obj) -> list[tuple[str, str]]:
    return [(entry["name"], entry["state"]) for entry in workload["status"].get("admissionChecks", [])]


def test_quota_is_reserved_and_the_job_starts_only_when_the_check_is_ready() -> None:
    async def scenario(world: World) -> None:
        workload = await world.workload_of("sample")
        assert (condition(workload, "QuotaReserved") or ())[0] == "True"
        assert condition(workload, "Admitted") is None
        assert states(workload) == [("approve", "Pending")]
        assert (await world.job("sample"))["spec"]["suspend"] is True
        updates = [{"name": "main", "nodeSelector": {"rack": "7"}, "labels": {"lane": "fast"}}]
        await say(world, "Ready", podSetUpdates=updates)
        workload = await world.workload_of("sample")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
        template = (await world.job("sample"))["spec"]["template"]
        assert template["spec"]["nodeSelector"] == {"rack": "7"}
        assert template["metadata"]["labels"]["lane"] == "fast"

    run(scenario)


def test_retry_evicts_and_waits_as_long_as_the_check_asks() -> None:
    async def scenario(world: World) -> None:
        await say(world, "Ready")
        await say(world, "Retry", "not today", requeueAfterSeconds=60)
        workload = await world.workload_of("sample")
        message = 'Evicted due to AdmissionCheck in Retry state: "approve" (not today)'
        assert condition(workload, "Evicted") == ("True", "AdmissionCheck", message)
        assert condition(workload, "Requeued") == ("False", "AdmissionCheck", message)
        assert states(workload) == [("approve", "Pending")]
        assert (await world.job("sample"))["spec"]["suspend"] is True
        await world.advance(62)
        workload = await world.workload_of("sample")
        assert condition(workload, "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
        assert (condition(workload, "QuotaReserved") or ())[0] == "True"
        await say(world, "Ready")
        assert (await world.job("sample"))["spec"]["suspend"] is False

    run(scenario)


def test_rejection_deactivates() -> None:
    async def scenario(world: World) -> None:
        await say(world, "Rejected", "never")
        workload = await world.workload_of("sample")
        assert workload["spec"]["active"] is False
        evicted = condition(workload, "Evicted")
        assert evicted is not None
        assert evicted[:2] == ("True", "DeactivatedDueToAdmissionCheck")
        events = await world.events_of(workload["metadata"]["name"])
        assert any(reason == "AdmissionCheckRejected" for reason, _ in events)

    run(scenario)


def test_deactivated_workloads_go_with_their_jobs_after_their_retention() -> None:
    async def scenario(world: World) -> None:
        await say(world, "Rejected", "never")
        await world.advance(25)
        assert len(await world.workloads()) == 1
        await world.advance(6)
        assert await world.workloads() == []
        with pytest.raises(NotFound):
            await world.job("sample")
        events = await world.events_of("sample")
        assert ("Deleted", "Deleted job: deactivation retention period expired") in events

    run(scenario, QueueingConfig(retention=Retention(after_deactivated_s=30)))


def test_a_queue_with_an_unknown_check_says_so_and_admits_nothing() -> None:
    async def scenario(world: World) -> None:
        rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": "approve"}, {"name": "ghost"}]}}
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": rules})
        await world.settle()
        queue = await world.client.get(CLUSTER_QUEUES, "cq")
        assert condition(queue, "Active") == (
            "False",
            "AdmissionCheckNotFound",
            "Can't admit new workloads: references missing AdmissionCheck(s): ghost.",
        )
        await fill(world, job("late"))
        late = await world.workload_of("late")
        assert condition(late, "QuotaReserved") == ("False", "Inadmissible", "ClusterQueue cq is inactive")

    run(scenario)
