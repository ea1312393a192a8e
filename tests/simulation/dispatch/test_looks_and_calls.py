"""How often a dispatched job is looked at, and what its workers are asked that the manager knows."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.dispatching import run_on_fleet
from tests.simulation.dispatch.configured_fleet import job

from corral.controllers.dispatch import workloads
from corral.controllers.dispatch.runs import remote_job
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.conditions import is_true
from corral.core.meta import Key, Obj
from corral.core.resource import Resource
from corral.decide.dispatch import model
from corral.decide.dispatch.machine import next_step
from corral.jobs.batch_job.kind import JOBS
from corral.simulate.fleet import SimulatedFleet


async def _run_one(fleet: SimulatedFleet) -> None:
    await fleet.manager.client.create(JOBS, job("a", seconds=5))
    await asyncio.sleep(20)
    assert is_true(await fleet.manager.client.get(JOBS, "a", "default"), "Complete")


@pytest.mark.parametrize("dispatcher", [model.ALL_AT_ONCE, model.LATE_BINDING])
def test_what_the_dispatcher_wrote_itself_makes_it_look_no_second_time(
    dispatcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: Counter[str] = Counter()

    def noted(view: model.DispatchView) -> model.DispatchStep:
        step = next_step(view)
        steps[type(step).__name__] += 1
        return step

    monkeypatch.setattr(workloads, "next_step", noted)
    run_on_fleet(_run_one, {"multiKueue": {"dispatcherName": dispatcher}})
    assert (steps["Nominate"], steps["Start"], steps["Finish"], steps["CleanUp"]) == (1, 1, 1, 1)
    assert steps["Mirror"] <= 4


def test_workers_are_not_asked_for_jobs_that_are_seen_to_have_ended_or_were_never_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, Key]] = []
    read = remote_job._read

    async def noted(remote: Remote, resource: Resource, key: Key) -> Obj | None:
        asked.append((remote.name, key))
        return await read(remote, resource, key)

    monkeypatch.setattr(remote_job, "_read", noted)
    run_on_fleet(_run_one)
    assert asked == []
