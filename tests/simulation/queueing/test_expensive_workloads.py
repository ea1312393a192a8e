"""Whoever is expensive to decide about is set aside, and told so; everybody else is decided about meanwhile."""

from __future__ import annotations

import pytest

from corral.core import conditions
from corral.core.budget import MAX_PAUSE_S, PAUSE_S, SET_ASIDE, SHARE, STEP_S, STRIKES
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.nomination import Nominator
from corral.inspect.explain import Evidence, explain
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, names
from corral.runtime import controller
from corral.runtime.virtual import run_virtual

from .world import JOBS, World, cluster_queue, fill, flavor, job, local_queue

COST = 3 * STEP_S
PAUSE = max(PAUSE_S, SHARE * COST)


class Processor:
    """Time that passes while places are looked for: long for those that ask for a lot, a moment for others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spent = 0.0
        self.looked: list[str] = []
        assign = Nominator._assign

        def assign_dearly(nominator: Nominator, entry: Entry, nominated: object) -> None:
            self.looked.append(entry.info.key.name)
            self.spent += COST if entry.info.pod_sets[0].requests["cpu"] > 50_000 else STEP_S / 1000
            assign(nominator, entry, nominated)  # type: ignore[arg-type]

        monkeypatch.setattr(Nominator, "_assign", assign_dearly)
        monkeypatch.setattr(controller, "cpu_of", lambda clock: self)

    def __call__(self) -> float:
        return self.spent

    @property
    def dear(self) -> int:
        """How often an expensive one was looked at."""
        return sum("dear" in name for name in self.looked)


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_an_expensive_workload_is_set_aside_whatever_changes_and_others_are_admitted(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = Processor(monkeypatch)

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(queueingStrategy=strategy), local_queue(), job("dear", cpu="100"))
            for number in range(100):
                await fill(world, job(f"cheap-{number}", cpu="1"))
                await world.advance(1)
                admitted = conditions.is_true(await world.workload_of(f"cheap-{number}"), names.ADMITTED)
                assert admitted or number < STRIKES, "the first of a strict queue holds others up until it is set aside"
                await world.finish_job(f"cheap-{number}")
            assert STRIKES < cpu.dear <= STRIKES + 3
            workload = await world.workload_of("dear")
            told = conditions.find(workload, names.QUOTA_RESERVED)
            assert told is not None
            assert (told["status"], told["reason"]) == ("False", SET_ASIDE)
            assert told["message"].startswith(
                f"Looking for a place took {COST:.1f} seconds of computing, again and again"
            )
            assert SET_ASIDE in [reason for reason, _ in await world.events_of(workload["metadata"]["name"])]
            queues = await world.client.get(LOCAL_QUEUES, "lq", "default"), await world.client.get(CLUSTER_QUEUES, "cq")
            assert told["message"] in explain(workload, Evidence(*queues)).headline
            await world.client.delete(JOBS, "dear", "default")

    run_virtual(main)


def test_many_of_one_kind_pay_together_and_are_tried_again_when_the_time_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = Processor(monkeypatch)

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            await fill(world, *[job(f"dear-{number}", cpu="100") for number in range(30)])
            for number in range(10):
                await fill(world, job(f"cheap-{number}", cpu="1"))
                await world.advance(1)
                await world.finish_job(f"cheap-{number}")
            assert cpu.dear == STRIKES
            reasons = {
                (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("reason")
                for workload in await world.workloads()
                if "dear" in workload["metadata"]["name"]
            }
            assert reasons == {SET_ASIDE}
            await world.advance(PAUSE)
            assert cpu.dear == STRIKES + 1
            await world.advance(2 * MAX_PAUSE_S)
            assert STRIKES + 2 <= cpu.dear <= STRIKES + 8
            _, larger = cluster_queue(cpu="200")
            await world.client.patch(CLUSTER_QUEUES, "cq", "", larger)
            monkeypatch.undo()
            await world.advance(MAX_PAUSE_S)
            admitted = [one for one in await world.workloads() if conditions.is_true(one, names.ADMITTED)]
            assert sum("dear" in one["metadata"]["name"] for one in admitted) == 2

    run_virtual(main)


def test_a_plan_stops_when_it_has_taken_its_time_and_goes_on_after_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = Processor(monkeypatch)

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(cpu="1000"), local_queue())
            plans: list[float] = []
            decide = world.queueing.state.plan_cycle

            def plan_cycle(now: float) -> object:
                before = cpu.spent
                plan = decide(now)
                plans.append(cpu.spent - before)
                return plan

            world.queueing.state.plan_cycle = plan_cycle  # type: ignore[method-assign, assignment]
            await fill(world, *[job(f"cheap-{number}", cpu="1") for number in range(500)])
            await world.advance(1)
            assert all(conditions.is_true(one, names.ADMITTED) for one in await world.workloads())
            assert max(plans) <= 0.11

    run_virtual(main)
