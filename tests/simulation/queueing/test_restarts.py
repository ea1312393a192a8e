"""A restart changes nothing: two clusters live the same life, in one of them the controllers are killed at some event.

Killed means stopped in the middle of whatever they are doing, with everything lost that is not in the API. After every step
both clusters come to rest, and then the same workloads hold the same flavors, and the same ones are on their way out.
Priorities are all different, so that no decision hangs on uids, which differ.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.conformance.queueing.laboratory import Lab, cohort, flavor, no_crashes, queue, quota, workload

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.setup import Queueing
from corral.decide.queueing.model.settings import FINAL_SHARE, INITIAL_SHARE
from corral.kinds.kueue import CLUSTER_QUEUES
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.server.lifecycle import set_up_lifecycle
from corral.workload import lifecycle
from corral.workload import workload as wl

QUEUES = ("a", "b", "c", "d")
STEPS = 24
Step = tuple[Any, ...]


class Restartable(Lab):
    """A Lab whose controllers can be killed and started again."""

    def __init__(self, config: QueueingConfig) -> None:
        super().__init__(config)
        self._config = config
        self._starts = 0

    async def restart(self) -> None:
        self._starts += 1
        await self.manager.stop()
        self.queueing = Queueing(self._config)
        self.manager = Manager(self.client, self.clock, Random(f"again-{self._starts}"))
        set_up_lifecycle(self.api, self.manager)
        self.queueing.setup(self.manager)
        await self.manager.start()

    async def outcome(self) -> dict[str, Any]:
        """Who holds which flavors, who is leaving, who has ended."""
        found = {}
        for entry in await self.workloads():
            sets = wl.admission_of(entry).get("podSetAssignments") or []
            held = [(part.get("count"), part.get("flavors")) for part in sets]
            found[entry["metadata"]["name"]] = held, wl.is_evicted(entry) and wl.has_quota(entry), wl.is_finished(entry)
        return found


def plan(seed: int) -> list[Step]:
    """What happens in a life."""
    dice = random.Random(seed)
    priorities = list(range(STEPS * 2))
    dice.shuffle(priorities)
    steps: list[Step] = []
    for number in range(STEPS):
        kind = dice.choice(("submit", "submit", "submit", "release", "finish", "quota", "stop"))
        if kind == "submit":
            steps.append((kind, f"w{number:02}", dice.choice(QUEUES), dice.choice("123"), priorities.pop()))
        elif kind == "quota":
            steps.append((kind, dice.choice(QUEUES), dice.choice("2346")))
        elif kind == "stop":
            steps.append((kind, dice.choice(QUEUES), dice.choice(("None", "None", "Hold"))))
        else:
            steps.append((kind, dice.randrange(100)))
    return steps


def offers(cpu: str) -> list[Any]:
    return [quota("one", cpu=(cpu, "4")), quota("two", cpu=("1", "0"))]


async def build(world: Restartable) -> None:
    policy = {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority"},
    }
    await world.make(flavor("one"), flavor("two"), cohort("root", quota("one", cpu="2")))
    await world.make(cohort("team", quota("one", cpu=("1", "3", "1")), parent="root"))
    for name, parent in zip(QUEUES, ("team", "team", "root", "root"), strict=True):
        strategy = "StrictFIFO" if name in "ac" else "BestEffortFIFO"
        await world.make(*queue(name, *offers("3"), cohortName=parent, preemption=policy, queueingStrategy=strategy))


async def act(world: Restartable, step: Step) -> None:
    """Do a step, without waiting for what follows from it."""
    match step:
        case ("submit", name, to, cpu, priority):
            await world.client.create(*workload(name, to, cpu=cpu, priority=priority))
        case ("release", _):
            for name in await world.leaving():
                await world.write(name, lambda found, now: lifecycle.release_evicted(found, (), now))
        case ("finish", number):
            holders = sorted(await world.reserved())
            if holders:
                await world.write(
                    holders[number % len(holders)], lambda found, now: lifecycle.finish(found, "Succeeded", "", now)
                )
        case ("quota", name, cpu):
            group = {"coveredResources": ["cpu"], "flavors": offers(cpu)}
            await world.client.patch(CLUSTER_QUEUES, name, "", {"spec": {"resourceGroups": [group]}})
        case ("stop", name, policy):
            await world.client.patch(CLUSTER_QUEUES, name, "", {"spec": {"stopPolicy": policy}})


async def live(config: QueueingConfig, steps: list[Step], kills: dict[int, int]) -> list[dict[str, Any]]:
    """The outcome after each step. `kills` says after how many turns of the loop the controllers die in which step."""
    async with Restartable(config) as world:
        await build(world)
        found = []
        for number, step in enumerate(steps):
            await act(world, step)
            if number in kills:
                for _ in range(kills[number]):
                    await asyncio.sleep(0)
                await world.restart()
            await world.settle()
            await world.advance(2)
            found.append(await world.outcome())
        return found


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_restart_at_any_event_changes_nothing(seed: int, fair: bool) -> None:
    config = QueueingConfig(fair_sharing=(FINAL_SHARE, INITIAL_SHARE) if fair else None)
    steps, dice = plan(seed), random.Random(f"kills-{seed}")
    with no_crashes():
        steady = run_virtual(lambda: live(config, steps, {}))
    assert any(held for outcome in steady for held, _, _ in outcome.values())
    for _ in range(3):
        kills = {dice.randrange(STEPS): dice.choice((0, 1, 2, 3, 5, 8, 13, 21, 34)) for _ in range(6)}
        with no_crashes():
            killed = run_virtual(lambda kills=kills: live(config, steps, kills))
        for number, (expected, got) in enumerate(zip(steady, killed, strict=True)):
            assert got == expected, f"step {number} {steps[number]}, kills {kills}"
