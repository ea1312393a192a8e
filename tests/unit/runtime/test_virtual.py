"""Virtual time: hours pass at once, order is repeatable, and a deadlock is reported instead of hanging."""

from __future__ import annotations

import asyncio

import pytest

from corral.runtime.clock import VIRTUAL_EPOCH, VirtualClock
from corral.runtime.virtual import DeadlockError, run_virtual


def test_sleeping_a_month_takes_no_time_and_moves_the_clock() -> None:
    async def main() -> float:
        clock = VirtualClock()
        await clock.sleep(30 * 86400)
        return clock.now()

    assert run_virtual(main) == VIRTUAL_EPOCH + 30 * 86400


async def _interleaving() -> list[int]:
    order: list[int] = []

    async def worker(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*(worker(number) for number in range(5)))
    return order


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    runs = [run_virtual(_interleaving, seed=seed, shuffle=True) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_waiting_for_what_never_comes_is_reported() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match="nothing will bring about"):
        run_virtual(main)


def test_a_skewed_clock_is_ahead_of_its_peers() -> None:
    async def main() -> tuple[float, float]:
        return VirtualClock().now(), VirtualClock(skew=90).now()

    straight, skewed = run_virtual(main)
    assert skewed - straight == 90
