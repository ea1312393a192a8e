"""Admission one workload at a time: the next one waits until the pods of the last are ready, or given up on.

Ids are those of the upstream scenario list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from corral.configuration.queueing import QueueingConfig, WaitForPodsReady
from corral.core.meta import Obj
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS
from corral.runtime.virtual import run_virtual

from .test_metrics import scrape
from .world import JOBS, World, cluster_queue, condition, fill, flavor, job, local_queue

WAITING = ("False", "Waiting", "waiting for all admitted workloads to be in PodsReady condition")
QUEUES = [
    flavor(),
    *(cluster_queue(f"{name}-cq", "5", cohortName="all") for name in ("prod", "dev")),
    *(local_queue(name, f"{name}-cq") for name in ("prod", "dev")),
]
PROD, DEV = job("prod", queue="prod", cpu="2"), job("dev", queue="dev", cpu="2")


def run(scenario: Callable[[World], Awaitable[None]], *, block: bool = True, timeout: float = 600) -> None:
    waiting = WaitForPodsReady(timeout_s=timeout, recovery_timeout_s=timeout, block_admission=block, backoff_base_s=60)

    async def main() -> None:
        async with World(QueueingConfig(wait_for_pods_ready=waiting)) as world:
            await fill(world, *QUEUES)
            await scenario(world)

    run_virtual(main)


async def reserved(world: World, name: str) -> bool:
    return (condition(await world.workload_of(name), "QuotaReserved") or ("",))[0] == "True"


async def one_runs_and_one_waits(world: World) -> None:
    await fill(world, PROD)
    await world.advance(1)
    await fill(world, DEV)
    assert await reserved(world, "prod")
    assert condition(await world.workload_of("dev"), "QuotaReserved") == WAITING
    assert (await world.job("dev"))["spec"]["suspend"] is True


async def report_ready(world: World, name: str) -> None:
    await world.set_job_status(
        name,
        {
            "startTime": world.clock.timestamp(),
            "active": 1,
            "ready": 1,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        },
    )


async def become_ready(world: World) -> None:
    """The job tells that its pods are ready."""
    await report_ready(world, "prod")
    assert (condition(await world.workload_of("prod"), "PodsReady") or ())[:2] == ("True", "Started")


async def be_deleted(world: World) -> None:
    await world.client.delete(JOBS, "prod", "default", propagation="Background")


UNBLOCKED = {
    "IPO-01 its pods are ready": become_ready,
    "IPO-03 it is deleted": be_deleted,
}


@pytest.mark.parametrize("name", UNBLOCKED)
def test_the_next_is_admitted_once(name: str) -> None:
    async def scenario(world: World) -> None:
        await one_runs_and_one_waits(world)
        await world.advance(300)
        assert not await reserved(world, "dev")
        await UNBLOCKED[name](world)
        await world.settle()
        assert await reserved(world, "dev")
        assert (await world.job("dev"))["spec"]["suspend"] is False

    run(scenario)


async def queue_status(world: World, name: str) -> Obj:
    status: Obj = (await world.client.get(CLUSTER_QUEUES, name))["status"]
    counts = {kind: status.get(f"{kind}Workloads", 0) for kind in ("pending", "reserving", "admitted")}
    used = status["flavorsReservation"][0]["resources"][0]["total"]
    return {**counts, "cpu": used}


def test_the_next_is_admitted_once_the_first_is_given_up_on() -> None:
    """IPO-07."""

    async def scenario(world: World) -> None:
        await one_runs_and_one_waits(world)
        await world.advance(5)
        assert await queue_status(world, "prod-cq") == {"pending": 0, "reserving": 1, "admitted": 1, "cpu": "2"}
        await world.advance(5)
        first = await world.workload_of("prod")
        assert (condition(first, "Evicted") or ())[:2] == ("True", "PodsReadyTimeout")
        assert "admission" not in first["status"]
        assert await reserved(world, "dev")
        await world.advance(2)
        assert await queue_status(world, "prod-cq") == {"pending": 1, "reserving": 0, "admitted": 0, "cpu": "0"}
        assert (await queue_status(world, "dev-cq"))["reserving"] == 1

    run(scenario, timeout=10)


@pytest.mark.parametrize("pods", ["running", "gone"])
def test_what_is_evicted_blocks_until_its_pods_are_gone(pods: str) -> None:
    async def scenario(world: World) -> None:
        await fill(world, PROD)
        await world.set_job_status(
            "prod", {"startTime": world.clock.timestamp(), "active": 1, "ready": 0, "uncountedTerminatedPods": {}}
        )
        await fill(world, DEV)
        await world.advance(12)
        first = await world.workload_of("prod")
        assert (condition(first, "Evicted") or ())[:2] == ("True", "PodsReadyTimeout")
        assert not await reserved(world, "dev")
        if pods == "gone":
            stopped = await world.job("prod")
            status = {name: value for name, value in stopped["status"].items() if name != "startTime"}
            await world.client.update(JOBS, {**stopped, "status": {**status, "active": 0}}, subresource="status")
            await world.settle()
        assert await reserved(world, "dev") is (pods == "gone")

    run(scenario, timeout=10)


def test_how_long_pods_were_ready_before_an_eviction_is_measured() -> None:
    """IPO-02."""

    async def scenario(world: World) -> None:
        await fill(world, PROD)
        await report_ready(world, "prod")
        await world.advance(40)
        name = (await world.workload_of("prod"))["metadata"]["name"]
        await world.client.patch(WORKLOADS, name, "default", {"spec": {"active": False}})
        await world.settle()
        labels = {"cluster_queue": "prod-cq", "reason": "Deactivated", "underlying_cause": ""}
        assert scrape(world, "kueue_pods_ready_to_evicted_time_seconds_count", **labels) == {(): 1}
        assert scrape(world, "kueue_pods_ready_to_evicted_time_seconds_sum", **labels) == {(): 40}

    run(scenario)


@pytest.mark.parametrize("block", [False, True])
def test_two_of_one_cycle(block: bool) -> None:
    """IPO-10, and IPO-04 when admission blocks."""

    async def scenario(world: World) -> None:
        await fill(world, job("prod", queue="prod", cpu="11"))
        await world.advance(1)
        await fill(world, job("dev", queue="dev", cpu="11"))
        assert not await reserved(world, "prod")
        assert not await reserved(world, "dev")
        await fill(world, cluster_queue("more", "25", cohortName="all"))
        assert await reserved(world, "prod")
        assert await reserved(world, "dev") is not block
        if block:
            assert condition(await world.workload_of("dev"), "QuotaReserved") == WAITING

    run(scenario, block=block)
