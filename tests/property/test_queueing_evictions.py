"""Preemption evicts no more than it has to: in storms of random arrivals every victim is needed, and nobody goes on being evicted for
the same workload before that one was admitted. Once more may happen: where a third one, more important, took the room and lost it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.meta import Key
from corral.decide.queueing.cycle.plan import Preempt
from corral.decide.queueing.model.values import FlavorResource
from corral.testing.queueing import QueueingWorld, make_cluster_queue, make_flavor, make_local_queue, make_workload

CPU = FlavorResource("default", "cpu")
arrivals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 6), st.integers(2, 9)), min_size=6, max_size=24
)
"""Queue, priority, cores, and after how many steps it finishes once admitted."""


class Storm:
    """Queues of one cohort, and workloads that arrive one in a step and run for their time."""

    def __init__(self) -> None:
        self.world = QueueingWorld()
        self.state = self.world.state
        self.state.upsert_flavor(make_flavor("default"))
        for number in range(3):
            quota = {"default": {"cpu": (4, 8)}}
            queue = make_cluster_queue(f"q{number}", quota, cohort="co", within="LowerPriority", reclaim="Any")
            self.state.upsert_cluster_queue(queue)
            self.state.upsert_local_queue(make_local_queue(f"lq{number}", f"q{number}"))
        self.evicted_for: Counter[tuple[Key, Key]] = Counter()
        """How often whom for whom, since that one was last admitted."""
        self.ends: dict[Key, int] = {}

    def arrive(self, name: str, queue: int, priority: int, cores: int, at: int) -> None:
        requests = {"cpu": cores}
        self.world.put(make_workload(name, f"lq{queue}", requests=requests, priority=priority, created=float(at)))

    def decide(self, step: int, runs: dict[Key, int]) -> None:
        """Cycles until nothing happens any more, with victims that leave in between."""
        for _ in range(60):
            plan = self.world.cycle()
            for admission in plan.admissions:
                self.ends[admission.key] = step + runs[admission.key]
                for pair in [pair for pair in self.evicted_for if pair[1] == admission.key]:
                    del self.evicted_for[pair]
            for preemption in plan.preemptions:
                self.check(preemption)
            left = self.world.vacate()
            for key in left:
                self.ends.pop(key, None)
            if not plan.decisions and not left:
                return
        raise AssertionError("evictions do not come to an end")

    def check(self, preemption: Preempt) -> None:
        world = self.state.world
        queue = world.queues[preemption.cluster_queue].node
        wanted = {CPU: sum(amounts["cpu"] for _, amounts in preemption.requests)}
        held = [world.reservations[victim.key] for victim in preemption.victims]
        for other in held:
            other.queue.node.remove(other.usage)
        # Where it can, a search ends with a queue within its own quota: whoever takes quota back may not borrow for that itself.
        borrows = queue.is_borrowing(CPU, wanted[CPU])
        for other in held:
            other.queue.node.add(other.usage)
        for victim in preemption.victims:
            pair = victim.key, preemption.key
            self.evicted_for[pair] += not victim.ongoing
            assert self.evicted_for[pair] <= 2, "evicted again and again for one who is not admitted"
        for needed in held:
            others = [other for other in held if other is not needed]
            for other in others:
                other.queue.node.remove(other.usage)
            enough = queue.fits(wanted) and (borrows or not queue.is_borrowing(CPU, wanted[CPU]))
            assert not enough, f"{needed.info.key} need not have left"
            for other in others:
                other.queue.node.add(other.usage)


@settings(max_examples=120, deadline=None)
@given(arrivals)
def test_nobody_is_evicted_in_vain(plan: list[tuple[int, int, int, int]]) -> None:
    storm, runs = Storm(), dict[Key, int]()
    for step, (queue, priority, cores, length) in enumerate(plan):
        key = Key("default", f"w{step}")
        runs[key] = length
        for ended in [one for one, at in storm.ends.items() if at <= step]:
            del storm.ends[ended]
            storm.world.finish(ended.name)
        storm.arrive(key.name, queue, priority, cores, step)
        storm.decide(step, runs)
