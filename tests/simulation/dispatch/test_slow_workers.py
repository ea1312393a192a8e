"""A worker that is slow or hangs delays nobody but the jobs it runs itself, and a job never runs twice because of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core import conditions
from corral.core.meta import Obj, name_of, status_of
from corral.decide.dispatch.model import ALL_AT_ONCE, LATE_BINDING
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.simulated import batch_job
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS
from corral.simulate.fleet import SimulatedFleet

THREE = ("worker1", "worker2", "worker3")
LONG = 100_000
SLOW_S = 8.0


def on_fleet(test: Script, dispatcher: str = ALL_AT_ONCE) -> None:
    multikueue = {"workerLostTimeout": "60s", "gcInterval": "15s", "dispatcherName": dispatcher}
    configuration = {"integrations": {"frameworks": ["batch/job"]}, "multiKueue": multikueue}
    run_on_fleet(test, configuration, workers=THREE, manager_cpu="100")


async def until(holds: Callable[[], Awaitable[bool]], limit: float = 120.0) -> float:
    """Seconds until something holds."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not await holds():
        assert loop.time() - started < limit
        await asyncio.sleep(0.05)
    return loop.time() - started


async def cluster_of(fleet: SimulatedFleet, job: str) -> str:
    for workload in (await fleet.manager.client.list(WORKLOADS)).items:
        if name_of(workload).startswith(f"job-{job}-"):
            return str(status_of(workload).get("clusterName") or "")
    return ""


async def copies(fleet: SimulatedFleet, *workers: str) -> int:
    return sum([len((await fleet.workers[name].client.list(WORKLOADS)).items) for name in workers])


@pytest.mark.parametrize("fault", [{"delay": SLOW_S}, {"hung": True}, {"lose_requests": True}], ids=str)
def test_the_others_get_their_copies_and_the_winner_its_job_at_once(fault: Obj) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(**fault)
        await fleet.manager.client.create(JOBS, batch_job("a", 1, LONG))

        async def is_copied() -> bool:
            return await copies(fleet, "worker2", "worker3") > 0

        async def runs() -> bool:
            return bool(status_of(await fleet.manager.client.get(JOBS, "a", "default")).get("active"))

        assert await until(is_copied) < 0.5
        assert await until(runs) < 2.0
        assert await cluster_of(fleet, "a") in ("worker2", "worker3")

    on_fleet(check)


def test_many_jobs_are_done_before_a_hung_worker_is_found_to_be_lost() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(hung=True)
        for number in range(80):
            await fleet.manager.client.create(JOBS, batch_job(f"j{number}", 1, 1))

        async def done() -> bool:
            jobs = (await fleet.manager.client.list(JOBS)).items
            return all(conditions.is_true(job, "Complete") for job in jobs)

        took = await until(done)
        assert took < 15.0, "sixteen at a time, a second each, and the worker is given up after 25 seconds"
        assert conditions.is_true(await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, "worker1"), "Active")

    on_fleet(check)


def test_jobs_bound_to_a_slow_worker_leave_room_for_those_of_others() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name in THREE:
            await fleet.manager.client.patch(MULTI_KUEUE_CLUSTERS, name, "", {"metadata": {"labels": {"name": name}}})
        await asyncio.sleep(1)
        fleet.links["worker1"].set(delay=SLOW_S)
        for number in range(60):
            bound = batch_job(f"s{number}", 1, LONG)
            bound["metadata"]["annotations"] = {"corral.dev/cluster-affinity": "name=worker1"}
            await fleet.manager.client.create(JOBS, bound)
        await asyncio.sleep(0.1)
        free = batch_job("free", 1, LONG)
        free["metadata"]["annotations"] = {"corral.dev/cluster-affinity": "name=worker2"}
        await fleet.manager.client.create(JOBS, free)

        async def runs() -> bool:
            return await cluster_of(fleet, "free") == "worker2"

        assert await until(runs) < 3.0

    on_fleet(check, LATE_BINDING)


def test_late_binding_leaves_a_worker_that_does_not_answer() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(lose_requests=True)
        await fleet.manager.client.create(JOBS, batch_job("a", 1, LONG))

        async def runs() -> bool:
            return bool(await cluster_of(fleet, "a"))

        assert await until(runs) < 8.0
        assert await cluster_of(fleet, "a") in ("worker2", "worker3")
        fleet.links["worker1"].set()
        await asyncio.sleep(120)
        assert await copies(fleet, *THREE) == 1

    on_fleet(check, LATE_BINDING)


@pytest.mark.parametrize("taken_away", ["the cluster leaves the config", "the workload is deleted"])
def test_a_job_that_is_being_removed_from_a_slow_worker_does_not_start_elsewhere_before_it_is_gone(
    taken_away: str,
) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, batch_job("a", 1, LONG))
        await asyncio.sleep(5)
        first = await cluster_of(fleet, "a")
        fleet.links[first].set(delay=SLOW_S)
        others = [name for name in THREE if name != first]
        client = fleet.manager.client
        if taken_away == "the workload is deleted":
            (workload,) = (await client.list(WORKLOADS)).items
            await client.delete(WORKLOADS, name_of(workload), "default")
        else:
            await client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": others}})

        async def moved() -> bool:
            running = {
                name
                for name in THREE
                for pod in (await fleet.workers[name].client.list(PODS)).items
                if status_of(pod).get("phase") == "Running"
            }
            assert len(running) < 2
            return bool(running & set(others))

        assert await until(moved) > SLOW_S

    on_fleet(check)


def test_a_job_queued_before_a_restarted_manager_has_reached_its_workers_is_sent_when_it_has() -> None:
    """Their conditions were Active before and stay so, so nothing but the connection itself tells that they can be asked."""

    async def check(fleet: SimulatedFleet) -> None:
        await asyncio.sleep(5)
        await fleet.manager.crash()
        for name in THREE:
            fleet.links[name].set(delay=1.0)
        await fleet.manager.start()
        await fleet.manager.client.create(JOBS, batch_job("early", cpu=1, seconds=2))
        await asyncio.sleep(0.5)
        [workload] = (await fleet.manager.client.list(WORKLOADS)).items
        assert conditions.is_true(workload, "QuotaReserved")
        assert not status_of(workload).get("nominatedClusterNames")

        async def is_finished() -> bool:
            [job] = (await fleet.manager.client.list(JOBS, "default")).items
            return conditions.is_true(job, "Complete")

        await until(is_finished)

    on_fleet(check)
