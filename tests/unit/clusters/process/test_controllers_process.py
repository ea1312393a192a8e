"""A process of controllers calls at the rate of the configuration in force."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from corral.client.protocol import Client, WatchEvent
from corral.client.wrapper import ClientWrapper
from corral.clusters.process.configuration_in_force import ConfigurationInForce
from corral.clusters.process.controllers_process import ControllersProcess, ProcessSettings
from corral.clusters.process.roles import QUEUEING
from corral.core.resource import Resource
from corral.kinds.kubernetes.coordination import LEASES
from corral.runtime.clock import Clock
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

T = TypeVar("T")
LIMITED, LIFTED = "clientConnection: {qps: 0.5, burst: 2}", "clientConnection: {qps: -1}"


class Counting(ClientWrapper):
    """Counts the calls that have a limit, and the renewals of Leases, which have none."""

    def __init__(self, client: Client) -> None:
        super().__init__(lambda: client)
        self.calls = 0
        self.renewals = 0

    def _count(self, resource: Resource | None) -> None:
        self.renewals += resource == LEASES
        self.calls += resource is not None and resource != LEASES

    async def _carry(self, resource: Resource | None, call: Callable[[], Awaitable[T]]) -> T:
        self._count(resource)
        return await super()._carry(resource, call)

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        self._count(resource)
        async for event in super().watch(resource, namespace, **options):
            yield event


class Written:
    """A configuration that a test writes."""

    name = "a test"

    def __init__(self, clock: Clock) -> None:
        self.text = LIMITED
        self._clock = clock

    async def read(self) -> str:
        return self.text

    async def follow(self, changed: Callable[[str], None]) -> None:
        while True:
            await self._clock.sleep(1.0)
            changed(self.text)


def test_the_limits_of_calls_are_those_of_the_configuration_in_force() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            client, written = Counting(cluster.client), Written(cluster.clock)
            process = ControllersProcess(
                client,
                ConfigurationInForce(written),
                ProcessSettings([QUEUEING], "one", takes_over=True),
                connect=lambda access: client,
                connect_hub=lambda access: client,
                clock=cluster.clock,
            )
            running = asyncio.ensure_future(process.run())
            await cluster.clock.sleep(20.0)
            assert 8 <= client.calls <= 13
            assert client.renewals > 10
            before, written.text = client.calls, LIFTED
            await cluster.clock.sleep(3.0)
            assert client.calls > before + 30
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(scenario)
