"""MultiKueueCluster: connects to the worker it describes, keeps the connection, and says so in its Active condition.

A changed kubeconfig is taken up at once, without a restart; a worker that cannot be reached is tried again after 5, 10,
20 … 320 seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from corral.client import limits
from corral.client.kubeconfig import Access, KubeconfigError
from corral.client.protocol import Client
from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch.metrics import DispatchMetrics
from corral.controllers.dispatch.workers.credentials_sources import Sources
from corral.controllers.dispatch.workers.fencing import RENEWALS, renew
from corral.controllers.dispatch.workers.kubeconfigs import AccessProblem, is_path
from corral.controllers.dispatch.workers.loopback_worker import ITSELF, LoopbackClient, may_be_here
from corral.controllers.dispatch.workers.remotes import Remote, Remotes, Wake
from corral.core import conditions
from corral.core.errors import ApiError, ConnectionFailed, Unauthorized
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    generation_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from corral.core.resource import Resource
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, names
from corral.runtime.controller import Controller, Manager, Result, Watch

log = logging.getLogger(__name__)

Connect = Callable[[Access], Client]
CONNECTING = 100
"""How many workers may be waited for at once: one for each a config can name, so that none waits for another."""
LEAVE_S = 60.0
"""How long a worker that is removed may take to stop what runs there."""
REREAD_S = 10.0
"""How often a kubeconfig file is looked at for changes."""
DEPRECATED_PATH = (
    "Using locationType=Path without MultiKueueKubeConfigPathValidation feature gate is deprecated and will be removed "
    "in a future release. Enable the MultiKueueKubeConfigPathValidation feature gate and place kubeconfig files under "
    "/etc/multikueue/kubeconfigs/."
)


@dataclass(frozen=True, slots=True)
class WorkerListeners:
    """Callbacks for what happens to workers."""

    wake: Wake
    connected: Callable[[Obj], None]
    """A MultiKueueCluster has become reachable."""
    leaving: Callable[[Remote], Awaitable[None]]
    """A worker is removed for good: the last moment to do anything there."""
    left: Callable[[str], None]
    """A MultiKueueCluster is gone, and so is the way to its worker."""
    queues_changed: Callable[[str], None] | None = None


class MultiKueueClusters:
    """Keeps `Remotes` in line with the MultiKueueCluster objects."""

    name = "multikueue_cluster"

    def __init__(
        self,
        manager: Manager,
        settings: DispatchSettings,
        remotes: Remotes,
        connect: Connect,
        kinds: Sequence[Resource],
        listeners: WorkerListeners,
        metrics: DispatchMetrics,
    ) -> None:
        self._metrics = metrics
        self._settings = settings
        self._remotes = remotes
        self._connect = connect
        self._kinds = kinds
        self._listeners = listeners
        self._manager = manager
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTERS)
        self._controller: Controller = manager.add(
            self, watches=[Watch(MULTI_KUEUE_CLUSTERS, when=_spec_changed)], workers=CONNECTING
        )
        self._sources = Sources(manager, settings, self._controller.queue.add)

    async def reconcile(self, key: Key) -> Result | None:
        cluster = self._clusters.get(key)
        if cluster is None or is_deleting(cluster):
            await self._take_leave(key.name)
            await self._drop(key.name)
            self._listeners.left(key.name)
            self._metrics.gone(key.name)
            return None
        if is_path(cluster) and not self._settings.checks_paths and not self._is_connected(key.name):
            recorder = self._manager.recorder.named("multikueue-cluster")
            recorder.event(cluster, "Warning", "DeprecatedPathUsage", DEPRECATED_PATH)
        try:
            text, access = self._sources.load(cluster)
        except AccessProblem as problem:
            await self._leave(key.name)
            await self._report(cluster, False, problem.reason, problem.message)
            if not problem.wait:
                raise
            return Result(REREAD_S) if is_path(cluster) else None
        remote = await self._remote(cluster, text, access)
        if remote.connected:
            await self._report(cluster, True, "Active", "Connected")
            return Result(REREAD_S) if is_path(cluster) else None
        if remote.excess is not None and remote.retry_at <= remote.lost_since:
            return await self._leave_alone(cluster, remote, remote.excess)
        left = remote.retry_at - self._manager.clock.now()
        if left > 0:
            return Result(left)
        return await self._try(cluster, remote)

    async def _remote(self, cluster: Obj, text: bytes, access: Access) -> Remote:
        """The worker behind this kubeconfig; a changed one replaces the old connection."""
        name, suffix = name_of(cluster), annotations_of(cluster).get(ITSELF, "")
        fingerprint = hashlib.sha256(text + suffix.encode()).digest()
        known = self._remotes.get(name)
        if known is not None and known.fingerprint == fingerprint:
            return known
        await self._drop(name)
        try:
            client = self._connect(access)
        except (KubeconfigError, ValueError) as error:
            raise ApiError(f"client of cluster {name}: {error}") from error
        kinds = may_be_here(self._kinds) if suffix else self._kinds
        remote = Remote(
            name,
            LoopbackClient(client, suffix, self._settings.origin, kinds) if suffix else client,
            fingerprint,
            clock=self._manager.clock,
            random=self._manager.random,
            origin=self._settings.origin,
            kinds=kinds,
            wake=self._listeners.wake,
            lost=lambda lost: self._controller.queue.add(Key("", lost)),
            queues_changed=self._listeners.queues_changed,
            renew=self._renew if self._settings.fencing else None,
            renew_interval=self._settings.worker_lost_timeout / RENEWALS,
            is_itself=bool(suffix),
            server=f"{access.server} {suffix}",
            holdings=self._remotes.holdings,
        )
        if known is not None:
            remote.succeed(known)
        self._remotes.put(remote)
        return remote

    async def _renew(self, client: Client) -> None:
        settings = self._settings
        await renew(client, self._manager.clock, settings.namespace, settings.origin, settings.worker_lost_timeout)

    async def _try(self, cluster: Obj, remote: Remote) -> Result | None:
        settings = self._settings
        await remote.disconnect()
        try:
            await remote.connect(
                min(settings.watch_timeout * 2.0**remote.attempts, 600.0),
                settings.probe_interval,
                settings.probe_timeout,
            )
        except ApiError as error:
            return await self._leave_alone(cluster, remote, error)
        self._remotes.note_met(remote.name)
        await self._report(cluster, True, "Active", "Connected")
        self._listeners.connected(cluster)
        return Result(REREAD_S) if is_path(cluster) else None

    async def _leave_alone(self, cluster: Obj, remote: Remote, error: ApiError) -> Result:
        """Say why a worker cannot be used, and try it again later."""
        await remote.disconnect()
        delay = remote.back_off()
        await self._report(cluster, False, "ClientConnectionFailed", _failure(error))
        return Result(delay)

    def _is_connected(self, name: str) -> bool:
        remote = self._remotes.get(name)
        return remote is not None and remote.connected

    async def _take_leave(self, name: str) -> None:
        """Take everything of ours from a worker that no config lists any more, while it can still be reached."""
        remote = self._remotes.get(name)
        if remote is None or not remote.connected:
            return
        configs = await self._manager.client.list(MULTI_KUEUE_CONFIGS)
        if any(name in (spec_of(config).get("clusters") or ()) for config in configs.items):
            return  # it may be described anew in a moment, and goes on then
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._listeners.leaving(remote)
        except (ApiError, TimeoutError) as error:
            log.warning("worker was left with our jobs", extra={"cluster": name, "error": str(error)})

    async def _leave(self, name: str) -> None:
        """Talk to a worker no more, but remember since when: what runs there has the time to come back."""
        remote = self._remotes.get(name)
        if remote is not None:
            await remote.disconnect()

    async def _drop(self, name: str) -> None:
        remote = self._remotes.pop(name)
        if remote is not None:
            await remote.close()

    async def _report(self, cluster: Obj, ok: bool, reason: str, message: str) -> None:
        self._metrics.connection(name_of(cluster), ok, reason)
        known = self._clusters.get(key_of(cluster)) or cluster
        # What another cluster says is shown, but not at any length: a condition has to fit its object.
        message = limits.shortened(message)
        entry = conditions.condition(names.ACTIVE, ok, reason, message, generation_of(known))
        now = self._manager.clock.timestamp()
        held = status_of(known).get("conditions") or []
        updated = conditions.set_condition(held, entry, now)
        if updated == held:
            return
        status = {**status_of(known), "conditions": updated}
        await self._manager.client.patch(
            MULTI_KUEUE_CLUSTERS,
            name_of(known),
            namespace_of(known),
            {"status": status},
            subresource="status",
            manager="kueue",
        )


def _failure(error: ApiError) -> str:
    """Why a worker cannot be used."""
    if isinstance(error, Unauthorized):
        return "failed to get server groups: the server has asked for the client to provide credentials"
    return f"failed to get server groups: {error}" if isinstance(error, ConnectionFailed) else str(error)


def _spec_changed(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None or generation_of(old) != generation_of(new) or is_deleting(new):
        return True
    return annotations_of(old).get(ITSELF) != annotations_of(new).get(ITSELF)
