"""A worker outlives whatever one key does to it, also when that does nothing at all for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from corral.core.meta import Key
from corral.jobs.framework.served_kinds import builtin_registry
from corral.runtime.clock import VirtualClock
from corral.runtime.controller import RECONCILE_DEADLINE_S, Manager, Result
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.server.api import Api
from corral.server.local import LocalClient
from corral.store import Store

STUCK, GOOD = Key("default", "stuck"), Key("default", "good")
Behaviour = Callable[[], Awaitable[None]]


class Recording:
    """Does as told with STUCK, and notes when it was called for what."""

    name = "recording"

    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave
        self.calls: list[tuple[float, Key]] = []
        self.cancelled = 0

    async def reconcile(self, key: Key) -> Result | None:
        self.calls.append((asyncio.get_running_loop().time(), key))
        if key == STUCK:
            try:
                await self._behave()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return None


def live(behave: Behaviour, seconds: float) -> tuple[Recording, str]:
    """One worker that gets both keys, for so long; what was called, and the metrics."""
    recording = Recording(behave)

    async def main() -> str:
        clock, random = VirtualClock(), Random(0)
        client = LocalClient(Api(Store(now=clock.now), builtin_registry(), clock=clock, random=random))
        manager = Manager(client, clock, random)
        controller = manager.add(recording, watches=[])
        await manager.start()
        controller.queue.add(STUCK)
        controller.queue.add(GOOD)
        await clock.sleep(seconds)
        await manager.stop()
        return manager.metrics.exposition().decode()

    return recording, run_virtual(main)


async def never_ends() -> None:
    await asyncio.Event().wait()


async def waits_for_many() -> None:
    await asyncio.gather(asyncio.Event().wait(), asyncio.Event().wait())


async def waits_in_vain_again_and_again() -> None:
    while True:
        await VirtualClock().sleep(1)


@pytest.mark.parametrize("behave", [never_ends, waits_for_many, waits_in_vain_again_and_again])
def test_a_reconcile_that_never_ends_is_cancelled_and_tried_again_later(
    behave: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        recording, metrics = live(behave, 2 * RECONCILE_DEADLINE_S + 1)
    assert recording.calls == [
        (0, STUCK),
        (RECONCILE_DEADLINE_S, GOOD),
        (2 * RECONCILE_DEADLINE_S, STUCK),
    ]
    (told,) = caplog.records
    assert told.getMessage() == "reconcile did not end and was cancelled"
    assert (vars(told)["controller"], vars(told)["key"]) == ("recording", str(STUCK))
    assert 'corral_reconcile_total{controller="recording",result="timeout"} 1.0' in metrics
    assert 'corral_reconcile_total{controller="recording",result="success"} 1.0' in metrics


def test_a_time_limit_of_the_reconciler_itself_is_an_ordinary_failure() -> None:
    async def gives_up() -> None:
        async with asyncio.timeout(10):
            await never_ends()

    recording, metrics = live(gives_up, 15)
    assert [key for _, key in recording.calls] == [STUCK, GOOD, STUCK]
    assert 'result="error"} 1.0' in metrics
    assert "timeout" not in metrics


def test_stopping_cancels_a_stuck_reconcile_without_calling_it_overdue() -> None:
    recording, metrics = live(never_ends, 5)
    assert recording.cancelled == 1
    assert "timeout" not in metrics
