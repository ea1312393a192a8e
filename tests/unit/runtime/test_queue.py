"""The work queue's four promises: once each, never two workers on a key, nothing lost, back-off that doubles."""

from __future__ import annotations

import asyncio

from corral.runtime.queue import WorkQueue
from corral.runtime.virtual import run_virtual


def test_a_key_added_twice_is_handed_out_once() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 0

    run_virtual(main)


def test_a_key_added_while_worked_on_comes_back_only_after_done() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"

    run_virtual(main)


def test_back_off_doubles_until_forgotten() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue(base_delay=1.0, max_delay=8.0)
        waited = []
        for _ in range(5):
            start = loop.time()
            queue.add_rate_limited("a")
            key = await queue.get()
            assert key == "a"
            queue.done("a")
            waited.append(loop.time() - start)
        assert waited == [1.0, 2.0, 4.0, 8.0, 8.0]
        queue.forget("a")
        assert queue.failures("a") == 0

    run_virtual(main)


def test_an_earlier_time_for_a_waiting_key_wins() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 7)
        assert await queue.get() == "a"
        assert loop.time() == 3
        queue.done("a")
        await asyncio.sleep(20)
        assert len(queue) == 0, "the later times must not hand the key out again"

    run_virtual(main)


def test_adding_now_cancels_a_delay() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.add("a")
        assert await queue.get() == "a"
        queue.done("a")
        await asyncio.sleep(20)
        assert len(queue) == 0

    run_virtual(main)


def test_a_waiter_that_is_cancelled_after_being_woken_passes_the_key_on() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    run_virtual(main)


def test_closing_wakes_waiters_with_nothing() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waiter = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.close()
        assert await waiter is None
        queue.add("a")
        assert await queue.get() is None

    run_virtual(main)


def test_a_worker_that_does_not_wait_does_everything_and_one_that_waits_gets_help() -> None:
    async def main() -> None:
        for waits, wanted in ((False, 1), (True, 4)):
            queue: WorkQueue[int] = WorkQueue()
            done: dict[int, list[int]] = {}

            async def work(worker: int, waits: bool, queue: WorkQueue[int], done: dict[int, list[int]]) -> None:
                while (key := await queue.get()) is not None:
                    done.setdefault(worker, []).append(key)
                    if waits:
                        await asyncio.sleep(1.0)
                    queue.done(key)

            workers = [asyncio.ensure_future(work(number, waits, queue, done)) for number in range(4)]
            await asyncio.sleep(0)
            started = asyncio.get_running_loop().time()
            for key in range(4):
                queue.add(key)
            await asyncio.sleep(1.0)
            assert sorted(key for keys in done.values() for key in keys) == [0, 1, 2, 3]
            assert len(done) == wanted
            assert asyncio.get_running_loop().time() == started + 1.0
            queue.close()
            await asyncio.gather(*workers)

    run_virtual(main)


def test_a_cancelled_worker_hands_the_call_on() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    run_virtual(main)
