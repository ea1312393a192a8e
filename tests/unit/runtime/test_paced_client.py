"""So many calls at once and so many a second are made; who has to wait does so in turn, and some never have to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.runtime.clock import VirtualClock
from corral.runtime.paced_client import PacedClient
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

Scenario = Callable[["Calls"], Awaitable[None]]


class Calls:
    """A paced client, and when each of its calls was carried out, in seconds from the start."""

    def __init__(self, qps: float, burst: int) -> None:
        self._clock = VirtualClock()
        self._began = self._clock.monotonic()
        self.at: list[float] = []
        self.names: list[str] = []
        self.client = PacedClient(self, qps, burst, self._clock)  # type: ignore[arg-type]  # what is called of it is here

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        self.names.append(name)
        return self._note()

    async def raw(self, method: str, path: str, body: Obj | None = None) -> Obj:
        return self._note()

    async def watch(self, *arguments: Any, **options: Any) -> Any:
        self._note()
        return
        yield

    def _note(self) -> Obj:
        self.at.append(round(self._clock.monotonic() - self._began, 6))
        return {}

    async def many(self, resource: Resource, count: int) -> None:
        await asyncio.gather(*(self.client.get(resource, str(number)) for number in range(count)))


def played(scenario: Scenario, qps: float = 2.0, burst: int = 3) -> Calls:
    async def main() -> Calls:
        calls = Calls(qps, burst)
        await scenario(calls)
        return calls

    return run_virtual(main)


def test_a_burst_is_carried_out_at_once_and_the_rest_in_turn_at_the_rate() -> None:
    async def scenario(calls: Calls) -> None:
        await calls.many(CONFIG_MAPS, 7)

    calls = played(scenario)
    assert calls.at == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5, 2.0]
    assert calls.names == [str(number) for number in range(7)]


def test_what_was_not_used_is_saved_up_to_a_burst_and_no_further() -> None:
    async def scenario(calls: Calls) -> None:
        await calls.many(CONFIG_MAPS, 3)
        await asyncio.sleep(100.0)
        await calls.many(CONFIG_MAPS, 4)

    assert played(scenario).at[3:] == [100.0, 100.0, 100.0, 100.5]


def test_who_gives_up_waiting_leaves_the_turn_to_the_next() -> None:
    async def scenario(calls: Calls) -> None:
        await calls.many(CONFIG_MAPS, 3)
        waiting = asyncio.ensure_future(calls.many(CONFIG_MAPS, 2))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await calls.many(CONFIG_MAPS, 1)

    assert played(scenario).at[3:] == [0.5]


def test_leases_and_questions_about_health_never_wait() -> None:
    async def scenario(calls: Calls) -> None:
        await calls.many(CONFIG_MAPS, 3)
        await calls.many(LEASES, 5)
        await calls.client.raw("GET", "/version")

    assert set(played(scenario).at) == {0.0}


def test_a_watch_is_one_call() -> None:
    async def scenario(calls: Calls) -> None:
        for _ in range(5):
            assert [event async for event in calls.client.watch(CONFIG_MAPS)] == []

    assert played(scenario).at == [0.0, 0.0, 0.0, 0.5, 1.0]


def test_a_long_wait_is_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(calls: Calls) -> None:
        await calls.many(CONFIG_MAPS, 100)

    played(scenario)
    assert caplog.text.count("calls wait for the limits of clientConnection") == 1


def test_everything_else_is_as_without_limits() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            client = PacedClient(cluster.client, 1.0, 1, cluster.clock)
            began = cluster.clock.monotonic()
            await client.create(NAMESPACES, {"metadata": {"name": "a"}})
            await client.create(CONFIG_MAPS, {"metadata": {"name": "b", "namespace": "a"}})
            assert await client.list(CONFIG_MAPS, "a") == await cluster.client.list(CONFIG_MAPS, "a")
            assert cluster.clock.monotonic() - began == pytest.approx(2.0)

    run_virtual(scenario)
