"""Upstream's three published load generators on virtual time, against the decision code alone.

    python bench/queueing/generators.py [baseline|large]

Workloads arrive, run for their time once admitted, and finish; victims of preemption leave at once. Prints how long
the virtual cluster took, how well its quota was used, the mean time to admission per class, and the CPU the decision
code needed. What an API server adds is not in here.
"""

from __future__ import annotations

import heapq
import sys
import time
from dataclasses import dataclass, field

from corral.core.meta import Key
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_workload,
)


@dataclass(frozen=True)
class Class:
    name: str
    count: int
    interval: float
    runtime: float
    priority: int
    cpu: int


@dataclass(frozen=True)
class Generator:
    cohorts: int
    queues: int
    classes: tuple[Class, ...]


GENERATORS = {
    "baseline": Generator(
        5,
        6,
        (
            Class("small", 350, 0.1, 0.2, 50, 1),
            Class("medium", 100, 0.5, 0.5, 100, 5),
            Class("large", 50, 1.2, 1.0, 200, 20),
        ),
    ),
    "large": Generator(
        10,
        100,
        (
            Class("small", 35, 0.06, 0.15, 50, 1),
            Class("medium", 11, 0.3, 0.35, 100, 5),
            Class("large", 4, 0.7, 0.7, 200, 20),
        ),
    ),
}


@dataclass
class Run:
    generator: Generator
    world: QueueingWorld = field(default_factory=QueueingWorld)
    events: list[tuple[float, int, str, Key, Class | None]] = field(default_factory=list)
    kinds: dict[Key, Class] = field(default_factory=dict)
    arrived: dict[Key, float] = field(default_factory=dict)
    waited: dict[str, list[float]] = field(default_factory=dict)
    epochs: dict[Key, int] = field(default_factory=dict)
    busy: float = 0.0
    deciding: float = 0.0
    sequence: int = 0

    def push(self, at: float, what: str, key: Key, kind: Class | None = None) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (at, self.sequence, what, key, kind))

    def build(self) -> None:
        state = self.world.state
        state.upsert_flavor(make_flavor("default"))
        for number in range(self.generator.cohorts * self.generator.queues):
            name = f"cq-{number}"
            groups = {"default": {"cpu": (20, 100)}}
            cohort = f"cohort-{number % self.generator.cohorts}"
            state.upsert_cluster_queue(
                make_cluster_queue(name, groups, cohort=cohort, within="LowerPriority", reclaim="Any")
            )
            state.upsert_local_queue(make_local_queue(f"lq-{number}", name))
            for kind in self.generator.classes:
                for index in range(kind.count):
                    key = Key("default", f"{kind.name}-{number}-{index}")
                    self.push(kind.interval * (index + 1), "arrive", key, kind)

    def run(self) -> float:
        self.build()
        now = 0.0
        while self.events:
            now = self.events[0][0]
            self.world.now = EPOCH + now
            start = time.process_time()
            while self.events and self.events[0][0] <= now:
                _, _, what, key, kind = heapq.heappop(self.events)
                if what == "arrive" and kind is not None:
                    self.arrive(key, kind, now)
                elif self.epochs.get(key) == int(what):
                    self.world.finish(key.name)
                    self.busy += self.kinds[key].cpu * self.kinds[key].runtime
            self.cycle(now)
            self.deciding += time.process_time() - start
        return now

    def arrive(self, key: Key, kind: Class, now: float) -> None:
        self.kinds[key], self.arrived[key] = kind, now
        queue = f"lq-{key.name.split('-')[1]}"
        self.world.put(make_workload(key.name, queue, requests={"cpu": kind.cpu}, priority=kind.priority, created=now))

    def cycle(self, now: float) -> None:
        while True:
            plan = self.world.cycle()
            for admission in plan.admissions:
                key = admission.key
                kind = self.kinds[key]
                self.waited.setdefault(kind.name, []).append(now - self.arrived[key])
                self.epochs[key] = self.epochs.get(key, 0) + 1
                self.push(now + kind.runtime, str(self.epochs[key]), key)
            gone = [victim.key for preemption in plan.preemptions for victim in preemption.victims]
            for key in gone:
                self.epochs[key] = self.epochs.get(key, 0) + 1
            if not self.world.vacate() and not plan.decisions:
                return


def main() -> None:
    for name in sys.argv[1:] or ["baseline"]:
        run = Run(GENERATORS[name])
        wall = run.run()
        generator = run.generator
        capacity = generator.cohorts * generator.queues * 20 * wall
        waits = ", ".join(f"{kind} {sum(times) / len(times):.2f} s" for kind, times in sorted(run.waited.items()))
        print(
            f"{name}: {len(run.kinds)} workloads in {wall:.1f} s of cluster time, use {100 * run.busy / capacity:.0f} %, "
            f"time to admission {waits}; {run.deciding:.1f} s CPU including object handling"
        )


if __name__ == "__main__":
    main()
