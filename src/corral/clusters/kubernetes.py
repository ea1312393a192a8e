"""Corral's controllers over a real Kubernetes: the same queueing and dispatch code, with the cluster reached by kubeconfig.

The operators, nodes and the API server are the cluster's own. What Corral's admission plug-ins do in an embedded cluster
(suspend queued jobs, set managedBy, refuse what is wrong) a real cluster gets from the same plug-ins as webhooks
(`clusters.webhooks`); without them, jobs have to be submitted suspended and, on a manager, with `managedBy` set.
"""

from __future__ import annotations

from corral.client.protocol import Client
from corral.configuration.dispatch import dispatch_settings
from corral.configuration.job_kinds import jobs_to_dispatch
from corral.controllers.dispatch import set_up_dispatch
from corral.controllers.dispatch.workers.clusters import Connect
from corral.controllers.dispatch.workers.fencing import Fence
from corral.controllers.dispatch.workers.remotes import Remotes
from corral.controllers.queueing.setup import may_be_missing, set_up_queueing
from corral.core.meta import Obj
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.metrics import Metrics
from corral.runtime.random import Random


class Controllers:
    """Queueing, and on a manager dispatch, for one real cluster. Together they share their caches; `queues` False leaves queueing
    to another process."""

    def __init__(
        self,
        client: Client,
        configuration: Obj,
        *,
        connect: Connect | None = None,
        queues: bool = True,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._connect = connect
        self._queues = queues
        self._clock = clock or WallClock()
        self._metrics = metrics
        self._manager: Manager | None = None
        self._remotes: Remotes | None = None

    async def start(self) -> None:
        """Watch and act until stopped."""
        manager = Manager(self._client, self._clock, Random(), metrics=self._metrics)
        manager.do_without(may_be_missing)
        if self._queues:
            set_up_queueing(manager, self._configuration)
            Fence(manager)
        if self._connect is not None:
            frameworks = (self._configuration.get("integrations") or {}).get("frameworks") or None
            chosen = jobs_to_dispatch(self._configuration, frameworks)
            self._remotes = set_up_dispatch(manager, dispatch_settings(self._configuration), self._connect, chosen)
        self._manager = manager
        await manager.start()

    async def stop(self) -> None:
        if self._manager is not None:
            await self._manager.stop()
            self._manager = None
        if self._remotes is not None:
            await self._remotes.close()
            self._remotes = None
