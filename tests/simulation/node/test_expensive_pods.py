"""Pods that are expensive to find a node for are set aside, and told so; all others are bound meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.budget import STEP_S, STRIKES
from corral.core.conditions import find
from corral.decide.pods.workload import PodView
from corral.node import scheduler
from corral.runtime import controller

from .test_simulated_nodes import World, simulate


class Processor:
    """Time that passes while a node is looked for: long for pods that ask for much, a moment for others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spent, self.dear = 0.0, 0
        decide = scheduler.schedule

        def decide_dearly(pod: PodView, *others: Any, **options: Any) -> Any:
            is_dear = pod.key.name.startswith("dear")
            self.dear += is_dear
            self.spent += 2 * STEP_S if is_dear else STEP_S / 1000
            return decide(pod, *others, **options)

        monkeypatch.setattr(scheduler, "schedule", decide_dearly)
        monkeypatch.setattr(controller, "cpu_of", lambda clock: self)

    def __call__(self) -> float:
        return self.spent


def test_an_expensive_pod_is_set_aside_and_others_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = Processor(monkeypatch)

    async def scenario(world: World) -> None:
        for number in range(3):
            await world.create(f"dear-{number}", requests={"cpu": "100"})
        for number in range(60):
            await world.create(f"cheap-{number}", does={"run-seconds": "1"})
            await world.advance(2)
            assert await world.phase(f"cheap-{number}") in ("Running", "Succeeded")
        assert STRIKES < cpu.dear <= STRIKES + 4
        told = find(await world.get("dear-0"), "PodScheduled")
        assert told is not None
        assert (told["status"], told["message"]) == ("False", scheduler.TOO_EXPENSIVE)
        assert ("FailedScheduling", scheduler.TOO_EXPENSIVE) in await world.events("dear-0")

    simulate(scenario)


def test_a_pod_that_was_set_aside_is_bound_when_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = Processor(monkeypatch)

    async def scenario(world: World) -> None:
        await world.create("large", requests={"cpu": "6"}, does={"run-seconds": "12"})
        await world.advance(1)
        await world.create("dear", requests={"cpu": "6"})
        for number in range(8):
            await world.create(f"cheap-{number}", requests={"cpu": "1"}, does={"run-seconds": "1"})
            await world.advance(2)
        assert cpu.dear >= STRIKES
        assert await world.phase("dear") == "Pending"
        await world.advance(60)
        assert await world.phase("dear") in ("Running", "Succeeded")

    simulate(scenario)
