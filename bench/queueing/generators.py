"""Upstream's three published load generators on virtual time, against the decision code alone.

    python bench/queueing/generators.py [baseline|large|topology] [--scale 0.1] [--apart] [--pace 0.3] [--profile]

Workloads arrive, run for their time once admitted, and finish; victims of preemption leave at once. Prints how long
the virtual cluster took, how well its quota was used, the mean time to admission per class, evictions, and the CPU the decision
code needed. What an API server adds is not in here. All queues get their Workloads at the same moments; with `--apart` nothing
happens at the same moment, so that there is a plan for each arrival and each end, as there is on a cluster that is not overloaded.
With `--pace` there is one of upstream's cycles every so many seconds, as of a scheduler that is so slow.
"""

from __future__ import annotations

import argparse
import cProfile
import heapq
import pstats
import time
from dataclasses import dataclass, field, replace
from random import Random

from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import QueueingSettings
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_topology,
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
    """Of all its pods."""
    pods: int = 1


@dataclass(frozen=True)
class Generator:
    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    racks: int = 0
    """With racks, pods are placed on their hosts."""


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
    "topology": Generator(
        5,
        6,
        (
            Class("small", 350, 0.1, 0.2, 50, 1, 2),
            Class("medium", 100, 0.5, 0.5, 100, 5, 4),
            Class("large", 50, 1.2, 1.0, 200, 20, 8),
        ),
        racks=10,
    ),
}
HOSTS_PER_RACK = 64
MODES: tuple[Obj, ...] = ({"required": "rack"}, {"preferred": "rack"}, {"unconstrained": True})


@dataclass
class Run:
    generator: Generator
    world: QueueingWorld = field(default_factory=QueueingWorld)
    events: list[tuple[float, int, str, Key, Class | None]] = field(default_factory=list)
    kinds: dict[Key, Class] = field(default_factory=dict)
    arrived: dict[Key, float] = field(default_factory=dict)
    waited: dict[str, list[float]] = field(default_factory=dict)
    epochs: dict[Key, int] = field(default_factory=dict)
    apart: Random | None = None
    """With it everything is up to a tenth of a second late, each by itself."""
    pace: float = 0.0
    """Seconds between cycles; 0 decides everything at once."""
    busy: float = 0.0
    deciding: float = 0.0
    sequence: int = 0
    evictions: int = 0

    def push(self, at: float, what: str, key: Key, kind: Class | None = None) -> None:
        self.sequence += 1
        late = self.apart.random() / 10 if self.apart is not None else 0.0
        heapq.heappush(self.events, (at + late, self.sequence, what, key, kind))

    def build(self) -> None:
        state = self.world.state
        if self.generator.racks:
            state.upsert_topology(make_topology("racks", "block", "rack", "kubernetes.io/hostname"))
            state.upsert_flavor(make_flavor("default", nodeLabels={"pool": "tas"}, topologyName="racks"))
            for number in range(self.generator.racks * HOSTS_PER_RACK):
                labels = {"pool": "tas", "block": "b0", "rack": f"r{number // HOSTS_PER_RACK}"}
                state.upsert_node(make_node(f"host-{number}", labels, cpu="96", memory="256Gi", pods="110"))
        else:
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
            now = max(self.events[0][0], now + self.pace)
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
        _, queue, index = key.name.split("-")
        made = make_workload(
            key.name,
            f"lq-{queue}",
            requests={"cpu": f"{1000 * kind.cpu // kind.pods}m"},
            count=kind.pods,
            priority=kind.priority,
            created=now,
        )
        if self.generator.racks:
            made["spec"]["podSets"][0]["topologyRequest"] = MODES[int(index) % len(MODES)]
        self.world.put(made)

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
            self.evictions += sum(not one.ongoing for preemption in plan.preemptions for one in preemption.victims)
            for key in gone:
                self.epochs[key] = self.epochs.get(key, 0) + 1
            if (not self.world.vacate() and not plan.decisions) or self.pace:
                return


def scaled(generator: Generator, scale: float) -> Generator:
    """A generator with so much less (or more) of every class."""
    classes = tuple(replace(kind, count=max(1, round(kind.count * scale))) for kind in generator.classes)
    return replace(generator, classes=classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(GENERATORS)}; baseline when none is named"
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    for name in options.names or ["baseline"]:
        world = QueueingWorld(QueueingSettings(max_rounds=1) if options.pace else None)
        apart = Random(1) if options.apart else None
        run = Run(scaled(GENERATORS[name], options.scale), world, apart=apart, pace=options.pace)
        wall = run.run() if profile is None else profile.runcall(run.run)
        generator = run.generator
        capacity = generator.cohorts * generator.queues * 20 * wall
        waits = ", ".join(f"{kind} {sum(times) / len(times):.2f} s" for kind, times in sorted(run.waited.items()))
        print(
            f"{name}: {len(run.kinds)} workloads in {wall:.1f} s of cluster time, use {100 * run.busy / capacity:.0f} %, "
            f"time to admission {waits}; {run.evictions} evictions; {run.deciding:.1f} s CPU including object handling, "
            f"{1000 * run.deciding / len(run.kinds):.2f} ms each"
        )
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
