"""What a plan decides is written in its order where it concerns one Workload."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from corral.controllers.queueing.context import QueueingContext
from corral.core.meta import Key, Obj, status_of
from corral.decide.queueing.cycle.plan import CyclePlan, Evict, Preempt, Victim
from corral.kinds.kueue import names
from corral.runtime.virtual import run_virtual

from .world import World, cluster_queue, fill, flavor, job, local_queue


def then(plan: CyclePlan, kind: str) -> CyclePlan:
    """The plan, in a later round of which its admitted Workload has to leave again."""
    (admitted,) = plan.admissions
    key = admitted.key
    if kind == "eviction":
        later: Evict | Preempt = Evict(key, names.BY_CLUSTER_QUEUE_STOPPED, "stopped")
    else:
        victim = Victim(key, "", "cq", "InCohortReclamation", "preempted", "preempted", "preempted")
        later = Preempt(Key("default", "other"), "cq", (victim,), "waits", "waits")
    return msgspec.structs.replace(plan, decisions=(*plan.decisions, later))


@pytest.mark.parametrize("kind", ["eviction", "preemption"])
def test_a_workload_that_is_admitted_and_evicted_by_one_plan_is_evicted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = QueueingContext.write_status

    async def write_slowly(context: QueueingContext, workload: Obj, *, narrow: bool = False) -> Obj:
        for _ in range(5):  # others go on while a server makes up its answer
            await asyncio.sleep(0)
        return await write(context, workload, narrow=narrow)

    monkeypatch.setattr(QueueingContext, "write_status", write_slowly)

    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            state = world.queueing.state
            decide, changed = state.plan_cycle, []

            def plan_cycle(now: float) -> CyclePlan:
                plan = decide(now)
                if not changed and any(plan.admissions):
                    plan = then(plan, kind)
                    changed.append(plan)
                return plan

            state.plan_cycle = plan_cycle  # type: ignore[method-assign]
            await fill(world, job("a"))
            await world.advance(5)
            assert changed
            (workload,) = await world.workloads()
            assert [entry["count"] for entry in status_of(workload)["schedulingStats"]["evictions"]] == [1]

    run_virtual(main)


def test_decisions_about_different_workloads_are_written_together() -> None:
    def evict(name: str) -> Evict:
        return Evict(Key("default", name), "", "")

    victims = tuple(Victim(Key("default", name), "", "", "", "", "", "") for name in ("a", "b"))
    preempt = Preempt(Key("default", "c"), "", victims, "", "")
    plan = CyclePlan(decisions=(evict("a"), evict("d"), preempt, evict("b"), evict("e"), evict("c")))
    assert plan.stages() == [[evict("a"), evict("d"), evict("e")], [preempt], [evict("b"), evict("c")]]
    assert CyclePlan().stages() == []
