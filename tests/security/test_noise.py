"""Noise of every format against an API server: no crash, no fault of the server's, and under `make soak` no long stretch either."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.security.noise import Noise, Outcome, Stretches, make_noise
from tests.security.served import served
from tests.soaking import Tally, only_soaking

from corral.server.gc_tuning import calm_collector

REQUESTS = 3_000
REQUESTS_THROUGH_FRONTS = 1_500
REQUESTS_OF_A_SERVER = 10_000


def one_server(seed: int, requests: int) -> Outcome:
    """A server of its own for every seed, so that a seed tells the whole story; it collects garbage as `corral serve` does."""

    async def run() -> Outcome:
        async with served() as world:
            gc.collect()
            gc.freeze()
            with Stretches().measured() as stretches:
                outcome = await make_noise(world, seed, requests, stretches)
            assert (await world.ask("GET", "/readyz")).status == 200
            return outcome

    logging.disable(logging.WARNING)
    calm_collector()
    return asyncio.run(run())


def test_the_same_seed_makes_the_same_noise() -> None:
    first, second, other = Noise(1), Noise(1), Noise(2)
    made = [first.request() for _ in range(200)]
    assert made == [second.request() for _ in range(200)]
    assert made != [other.request() for _ in range(200)]


async def test_noise_is_answered_and_is_the_clients_fault(caplog: pytest.LogCaptureFixture, tally: Tally) -> None:
    async with served() as world:
        with caplog.at_level(logging.ERROR):
            outcome = await make_noise(world, 1, REQUESTS)
        assert outcome.wrong == []
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
        assert (await world.ask("GET", "/readyz")).status == 200
    assert {200, 201, 400, 404, 415, 422} <= set(outcome.codes), "noise that is all refused at once finds nothing"
    tally("requests of noise", REQUESTS)


async def test_noise_that_goes_through_front_processes_is_the_clients_fault_too(tmp_path: Path, tally: Tally) -> None:
    """What one process says to the other is HTTP as well, with other people's words in it."""
    async with served(state=tmp_path / "state", fronts=2) as world:
        outcome = await make_noise(world, 60_000, REQUESTS_THROUGH_FRONTS)
        assert outcome.wrong == []
    tally("requests of noise", REQUESTS_THROUGH_FRONTS)


async def test_a_long_stretch_is_noticed() -> None:
    """Of the thread's own time: a loop that counts, not one that sleeps."""

    def busy() -> None:
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass

    with Stretches().measured() as stretches:
        asyncio.get_running_loop().call_soon(busy)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert stretches.longest_s >= 0.01


@only_soaking("requests of noise")
def test_much_noise_takes_nobodys_time(seeds: range, tally: Tally) -> None:
    """In a process of its own: what a process with ten thousand tests needs to collect its garbage is not the server's."""
    firsts = seeds[::REQUESTS_OF_A_SERVER]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(one_server, firsts, [REQUESTS_OF_A_SERVER] * len(firsts)))
    assert [problem for outcome in outcomes for problem in outcome.wrong][:5] == []
    tally("requests of noise", sum(sum(outcome.codes.values()) for outcome in outcomes))
