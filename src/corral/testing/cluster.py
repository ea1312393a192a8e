"""A whole cluster in memory on virtual time: API, controllers, no sockets, no processes, no waiting.

async def main():
    async with VirtualCluster([JobController]) as cluster:
        await cluster.client.create(JOBS, job)
        await cluster.settle()          # until no controller has anything to do now
        await cluster.advance(60)       # let a minute pass

run_virtual(main)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from corral.clusters.enforced_identities import EnforcedIdentities
from corral.core.admission import AdmissionPlugin
from corral.core.errors import AlreadyExists
from corral.jobs.framework.served_kinds import full_registry
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.machinery.registry import Registry
from corral.runtime.clock import VirtualClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.runtime.virtual import settle
from corral.server.access.authorization import Authorizer
from corral.server.api import Api
from corral.server.local import LocalClient
from corral.simulate.keys import repeatable_keys
from corral.store import Store

SetUp = Callable[[Manager], object]


class VirtualCluster:
    """One in-memory cluster and the controllers given to it."""

    def __init__(
        self,
        set_up: Sequence[SetUp] = (),
        *,
        registry: Registry | None = None,
        plugins: Sequence[AdmissionPlugin] = (),
        name: str = "cluster",
        seed: int = 0,
        lifecycle: bool = True,
        namespaces: Sequence[str] = ("default", "kube-system", "kueue-system"),
    ) -> None:
        self.name = name
        self.clock = VirtualClock()
        self.random = Random(f"{name}-{seed}")
        self.store = Store(now=self.clock.now)
        self.api = Api(
            self.store,
            registry if registry is not None else full_registry(),
            clock=self.clock,
            random=self.random,
            plugins=plugins,
        )
        self.client = LocalClient(self.api)
        self.manager = Manager(
            self.client, self.clock, self.random, private_key=repeatable_keys(self.random.fork("keys"))
        )
        self._identities = EnforcedIdentities(self.api, Authorizer(self.store), self.manager)
        self.manager.identities = self._identities
        self._set_up = set_up
        self._lifecycle = lifecycle
        self._namespaces = namespaces

    async def __aenter__(self) -> Self:
        for namespace in self._namespaces:
            try:
                await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
            except AlreadyExists:
                pass
        if self._lifecycle:
            from corral.server.lifecycle import set_up_lifecycle

            set_up_lifecycle(self.api, self.manager)
        for register in self._set_up:
            register(self.manager)
        await self._identities.grant()
        await self.manager.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.manager.stop()

    async def settle(self, limit: int = 10_000) -> None:
        """Let everything run that can run without time passing."""
        await settle([self.manager], limit)

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass, then settle."""
        await asyncio.sleep(seconds)
        await self.settle()
