"""Many queues whose heads wait for the same quota: as it comes and goes they are not written for every step, and in the end each says
what is true."""

from __future__ import annotations

from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.testing.queueing import make_cluster_queue, make_flavor, make_local_queue, make_workload
from corral.workload import lifecycle

from .world import World, condition

QUEUES, STEPS = 60, 10


def test_those_who_wait_under_load_are_told_the_last_state_and_not_every_step() -> None:
    async def main() -> None:
        async with World() as world:
            await world.client.create(RESOURCE_FLAVORS, make_flavor("default"))
            for number in range(QUEUES):
                quota = {"default": {"cpu": (1, STEPS)}}
                await world.client.create(CLUSTER_QUEUES, make_cluster_queue(f"q{number}", quota, cohort="co"))
                await world.client.create(LOCAL_QUEUES, make_local_queue(f"lq{number}", f"q{number}"))
            await world.settle()
            holders = [f"holder{number}" for number in range(QUEUES)]
            for number, name in enumerate(holders):
                made = make_workload(name, f"lq{number}", requests={"cpu": 1}, priority=10)
                await world.client.create(WORKLOADS, {part: made[part] for part in ("metadata", "spec")})
            await world.advance(5)
            for number in range(QUEUES):
                made = make_workload(f"big{number}", f"lq{number}", requests={"cpu": STEPS + 1})
                await world.client.create(WORKLOADS, {part: made[part] for part in ("metadata", "spec")})
            await world.advance(5)
            before = world.store.revision
            for name in holders[:STEPS]:
                held = await world.client.get(WORKLOADS, name, "default")
                done = lifecycle.finish(held, "Succeeded", "", world.clock.timestamp())
                await world.client.update(WORKLOADS, done, subresource="status")
                await world.advance(0.01)
            steps = world.store.revision - before
            await world.advance(60)
            for number in range(QUEUES):
                workload = await world.client.get(WORKLOADS, f"big{number}", "default")
                said = condition(workload, "QuotaReserved")
                verdict = next(iter(world.queueing.state.world.pending[f"q{number}"].items.values())).verdict
                assert said is not None
                assert verdict is not None
                assert said[2] == verdict.message
            assert steps < QUEUES * STEPS / 2, f"{steps} writes"

    run_virtual(main)
