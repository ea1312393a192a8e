"""Corral's controllers over a real Kubernetes: the same queueing and dispatch code, with the cluster reached by kubeconfig.

The operators, nodes and the API server are the cluster's own. What Corral's admission plug-ins do in an embedded cluster
(suspend queued jobs, set managedBy, refuse what is wrong) a real cluster gets from webhooks; without them, jobs have to
be submitted suspended and, on a manager, with `managedBy` set.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.client.protocol import Client
from corral.clusters.leader_run import run_while_leading
from corral.configuration.dispatch import dispatch_settings
from corral.configuration.job_kinds import jobs_to_dispatch
from corral.controllers.dispatch import set_up_dispatch
from corral.controllers.dispatch.workers.clusters import Connect
from corral.controllers.dispatch.workers.fencing import Fence
from corral.controllers.dispatch.workers.remotes import Remotes
from corral.controllers.queueing.setup import set_up_queueing
from corral.core.errors import AlreadyExists
from corral.core.meta import Key, Obj
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.machinery.crd import crd_manifest
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.metrics import Metrics
from corral.runtime.random import Random

LEASE = Key("kueue-system", "corral-controllers")


async def install(client: Client, *, groups: Sequence[str] = ()) -> list[str]:
    """Create the CRDs of Corral's kinds and its namespace where they are missing; returns the names of new CRDs."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": LEASE.namespace}})
    except AlreadyExists:
        pass
    made = []
    for kind in native_kinds():
        if groups and kind.group not in groups:
            continue
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd_manifest(kind))
            made.append(f"{kind.plural}.{kind.group}")
        except AlreadyExists:
            continue
    return made


class Controllers:
    """Queueing, and on a manager dispatch, for one real cluster."""

    def __init__(
        self,
        client: Client,
        configuration: Obj,
        *,
        connect: Connect | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._connect = connect
        self._clock = clock or WallClock()
        self._metrics = metrics
        self._manager: Manager | None = None
        self._remotes: Remotes | None = None

    async def start(self) -> None:
        """Watch and act until stopped."""
        manager = Manager(self._client, self._clock, Random(), metrics=self._metrics)
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

    async def lead(self, identity: str) -> None:
        """Run while this process holds the lease; others wait their turn."""
        await run_while_leading(self, self._client, self._clock, LEASE, identity)
