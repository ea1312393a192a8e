"""The member agent over a real Kubernetes: the cluster is reached by kubeconfig, its hub by the Secret that names it."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.configuration.member import member_settings
from corral.controllers.member import set_up_member_by_secret
from corral.controllers.member.connection import NAMESPACE, Connect
from corral.controllers.member.discovery import over_http
from corral.core.errors import AlreadyExists
from corral.core.meta import Key, Obj
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.metrics import Metrics
from corral.runtime.random import Random

LEASE = Key(NAMESPACE, "corral-member-agent")


class MemberCluster:
    """The agent of one real cluster. `name` is what its hub calls it, unless the Secret says otherwise."""

    def __init__(
        self,
        client: Client,
        name: str,
        configuration: Obj,
        *,
        connect: Connect,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._configuration = configuration
        self._connect = connect
        self._clock = clock or WallClock()
        self._metrics = metrics
        self._manager: Manager | None = None

    async def start(self) -> None:
        """Wait for the Secret, then serve its hub, until stopped."""
        try:
            await self._client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        except AlreadyExists:
            pass
        self._manager = Manager(self._client, self._clock, Random(), metrics=self._metrics)
        kinds = over_http(self._client, self._clock)
        set_up_member_by_secret(self._manager, self._connect, self._name, member_settings(self._configuration), kinds)
        await self._manager.start()

    async def stop(self) -> None:
        if self._manager is not None:
            await self._manager.stop()
            self._manager = None
