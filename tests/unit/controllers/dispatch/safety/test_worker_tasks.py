"""Work on workers: waited for a moment, then done in the background, one thing at a time for a Workload and a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from corral.controllers.dispatch.safety.worker_tasks import PATIENCE_S, SILENT_S, StillRunning, WorkerTasks
from corral.core.errors import ConnectionFailed
from corral.core.meta import Key
from corral.runtime.clock import VirtualClock
from corral.runtime.virtual import run_virtual

KEY = Key("default", "a")
Told = list[tuple[Key, bool]]


def on_worker_tasks(test: Callable[[WorkerTasks, Told], Awaitable[None]]) -> None:
    async def main() -> None:
        told: Told = []
        await test(WorkerTasks(VirtualClock(), lambda key, failed: told.append((key, failed))), told)

    run_virtual(main)


async def answer(after: float = 0.0) -> str:
    await asyncio.sleep(after)
    return "done"


async def fail(after: float = 0.0) -> None:
    await asyncio.sleep(after)
    raise ConnectionFailed("gone")


def test_a_quick_answer_is_returned_and_a_quick_failure_raised() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        assert await worker_tasks.run("w1", KEY, answer) == "done"
        with pytest.raises(ConnectionFailed):
            await worker_tasks.run("w1", KEY, fail)
        assert told == []

    on_worker_tasks(check)


def test_a_late_answer_makes_the_workload_due_again() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, lambda: answer(3.0))
        assert loop.time() - started == pytest.approx(PATIENCE_S)
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, answer)
        assert await worker_tasks.run("w2", KEY, answer) == "done"
        await asyncio.sleep(5)
        assert told == [(KEY, False)]
        assert await worker_tasks.run("w1", KEY, answer) == "done"

    on_worker_tasks(check)


def test_a_worker_that_keeps_one_waiting_is_not_waited_for_by_others() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, lambda: answer(3.0))
        started = asyncio.get_running_loop().time()
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", Key("default", "b"), lambda: answer(1.0))
        assert asyncio.get_running_loop().time() == started
        await asyncio.sleep(5)
        assert told == [(Key("default", "b"), False), (KEY, False)]

    on_worker_tasks(check)


def test_failures_are_tried_again_later_each_time() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        pauses = []
        for _ in range(20):
            with pytest.raises(ConnectionFailed):
                await worker_tasks.run("w1", KEY, fail)
            pauses.append(worker_tasks.pause("w1", KEY))
        assert pauses[:3] == [0.02, 0.04, 0.08]
        assert pauses[-1] == 60.0
        await worker_tasks.run("w1", KEY, answer)
        assert worker_tasks.pause("w1", KEY) == 0.01
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, lambda: fail(1.0))
        await asyncio.sleep(2)
        assert told == [(KEY, True)]

    on_worker_tasks(check)


def test_what_stops_a_job_and_what_is_silent_is_known() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, lambda: answer(30.0), stops=True)
        assert worker_tasks.is_stopping(KEY)
        assert not worker_tasks.is_silent("w1", KEY)
        await asyncio.sleep(SILENT_S)
        assert worker_tasks.is_silent("w1", KEY)
        await asyncio.sleep(30)
        assert not worker_tasks.is_stopping(KEY)
        assert not worker_tasks.is_silent("w1", KEY)

    on_worker_tasks(check)


def test_nothing_outlives_the_manager() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        keeper = asyncio.create_task(worker_tasks.keep())
        done: list[str] = []

        async def work() -> None:
            await asyncio.sleep(2)
            done.append("written")

        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, work)
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await asyncio.sleep(5)
        assert (done, told) == ([], [])

    on_worker_tasks(check)


def test_who_finds_a_worker_busy_is_told_though_the_other_had_its_answer_in_time() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        first = asyncio.ensure_future(worker_tasks.run("w1", KEY, lambda: answer(PATIENCE_S / 2)))
        await asyncio.sleep(PATIENCE_S / 4)
        with pytest.raises(StillRunning):
            await worker_tasks.run("w1", KEY, answer)
        assert await first == "done"
        assert told == [(KEY, False)]

    on_worker_tasks(check)


def test_work_that_nobody_waits_for_any_more_does_not_keep_a_worker_busy_for_ever() -> None:
    async def check(worker_tasks: WorkerTasks, told: Told) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE_S / 4):
                await worker_tasks.run("w1", KEY, lambda: answer(PATIENCE_S / 2))
        await asyncio.sleep(PATIENCE_S)
        assert not worker_tasks.is_busy("w1", KEY)

    on_worker_tasks(check)
