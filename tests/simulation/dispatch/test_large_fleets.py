"""A manager with more workers than upstream allows."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.dispatching import run_on_fleet
from tests.simulation.dispatch.configured_fleet import job

from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.meta import Key, Obj, key_of, status_of
from corral.decide.dispatch.model import LATE_BINDING
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_forty_workers_take_jobs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name in ("a", "b", "c"):
            await fleet.manager.client.create(JOBS, job(name, cpu="5"))
        await asyncio.sleep(10)
        chosen = [status_of(held)["clusterName"] for held in (await fleet.manager.client.list(WORKLOADS)).items]
        assert len(set(chosen)) == len(chosen) == 3

    run_on_fleet(check, workers=[f"worker{number}" for number in range(1, 41)])


def test_a_look_at_a_job_asks_only_the_workers_that_have_something_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    workload = Remote.workload

    def noted(self: Remote, key: Key) -> Obj | None:
        asked[self.name] += 1
        return workload(self, key)

    async def check(fleet: SimulatedFleet) -> None:
        monkeypatch.setattr(Remote, "workload", noted)
        await fleet.manager.client.create(JOBS, job("a", cpu="5", seconds=30))
        await asyncio.sleep(10)
        (held,) = (await fleet.manager.client.list(WORKLOADS)).items
        assert list(asked) == [status_of(held)["clusterName"]]

    configuration = {"multiKueue": {"dispatcherName": LATE_BINDING}}
    run_on_fleet(check, workers=[f"worker{number}" for number in range(1, 11)], configuration=configuration)


def test_nothing_is_kept_of_a_job_that_has_left_its_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", cpu="5"))
        await asyncio.sleep(1)
        key = key_of((await fleet.manager.client.list(WORKLOADS)).items[0])
        remotes = fleet.manager.remotes
        assert remotes is not None
        assert [remote.name for remote in remotes.holding(key)] == ["worker1"]
        await fleet.manager.client.delete(JOBS, "a", "default", propagation="Background")
        await asyncio.sleep(10)
        assert remotes.holding(key) == []

    run_on_fleet(check, workers=["worker1", "worker2"])
