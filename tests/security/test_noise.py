"""Noise of every format against an API server: no crash, no fault of the server's, and under `make soak` no long stretch either."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from tests.security.noise import Noise, Outcome, Stretches, make_noise
from tests.security.served import served
from tests.soaking import SOAKING, Tally

REQUESTS = 3_000
SOAKED = int(os.environ.get("CORRAL_NOISE") or 1_000_000)
CHUNK = 10_000


def one_server(seed: int, requests: int) -> Outcome:
    """A server of its own for every seed, so that a seed tells the whole story."""

    async def run() -> Outcome:
        async with served() as world:
            with Stretches().measured() as stretches:
                outcome = await make_noise(world, seed, requests, stretches)
            assert (await world.ask("GET", "/readyz")).status == 200
            return outcome

    logging.disable(logging.WARNING)
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


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="a long run; set CORRAL_SOAK=1")
def test_much_noise_takes_nobodys_time(tally: Tally) -> None:
    """CORRAL_NOISE says how many requests, a million unless it does; each process has a core."""
    seeds = range(SOAKED // CHUNK)
    wrong: list[str] = []
    codes: Counter[int] = Counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for outcome in pool.map(one_server, seeds, [CHUNK] * len(seeds)):
            wrong += outcome.wrong
            codes += outcome.codes
    assert wrong[:5] == []
    tally("requests of noise", sum(codes.values()))
