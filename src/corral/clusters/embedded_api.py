"""One embedded cluster's API by itself: store, API, built-in controllers and HTTPS server, without nodes or queues.

It is what `corral serve` runs and what the conformance tests talk to; a whole embedded cluster adds controllers to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corral.client.protocol import Client
from corral.core.admission import AdmissionPlugin, UserInfo
from corral.core.errors import AlreadyExists
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.streams import PodStreams
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SERVICES
from corral.kinds.machinery.virtual_resources import ExtraApi
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.runtime.secrets import random_bytes
from corral.server.access.audit import AuditOptions
from corral.server.access.deputies import UserRights
from corral.server.api import Api
from corral.server.lifecycle import set_up_lifecycle
from corral.server.local import LocalClient
from corral.server.server import ApiServer
from corral.store import SqliteJournal, Store
from corral.store.encryption import KEY_FILE, KeyFile

INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class EmbeddedApi:
    """Start it, use `server` and `client`, stop it. `state` None keeps everything in memory. The file that encrypts Secrets
    there is `encryption_key`, beside the state where none is named."""

    def __init__(
        self,
        state: Path | None,
        *,
        name: str = "corral",
        host: str = "127.0.0.1",
        port: int = 0,
        plugins: Sequence[AdmissionPlugin] = (),
        streams: PodStreams | None = None,
        extras: Sequence[ExtraApi] = (),
        audit: Path | None = None,
        audit_options: AuditOptions = AuditOptions(),  # noqa: B008  # frozen
        encryption_key: Path | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        if state is not None:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.clock = clock or WallClock()
        self.random = random or Random()
        journal = None
        if state is not None:
            journal = SqliteJournal(state / "store.db", KeyFile(encryption_key or state / KEY_FILE, random_bytes))
        self.store = Store(journal, now=self.clock.now)
        self.api = Api(self.store, builtin_registry(), clock=self.clock, random=self.random, plugins=plugins)
        self.client = LocalClient(self.api, streams=streams)
        self.manager = Manager(self.client, self.clock, self.random)
        self.server = ApiServer(
            self.api,
            state=state,
            name=name,
            host=host,
            port=port,
            streams=streams,
            extras=extras,
            metrics=self.manager.metrics.exposition,
            audit=audit,
            audit_options=audit_options,
        )
        self.rights = UserRights(self.api.registry, self.server.authorizer)
        """What users may have done by controllers that create what somebody describes."""
        set_up_lifecycle(self.api, self.manager)

    def act_as(self, user: UserInfo) -> Client:
        """The API as somebody else: what that user may not create is refused."""
        return LocalClient(self.api, user)

    async def start(self) -> None:
        """Serve. What every cluster has is there when this returns."""
        await self.manager.start()
        for namespace in INITIAL_NAMESPACES:
            await self._ensure(NAMESPACES, {"metadata": {"name": namespace}})
        await self.server.start()
        await self._ensure(SERVICES, self._kubernetes_service())
        await self._keep_current(CONFIG_MAPS, self.server.extension_authentication())

    async def stop(self) -> None:
        await self.server.stop()
        await self.manager.stop()
        await self.store.close()

    async def _ensure(self, resource: Resource, obj: Obj) -> None:
        try:
            await self.client.create(resource, obj)
        except AlreadyExists:
            pass

    async def _keep_current(self, resource: Resource, obj: Obj) -> None:
        """The same for what must say what is true of this start, whatever an earlier one wrote."""
        await self._ensure(resource, obj)
        metadata = obj["metadata"]
        await self.client.patch(resource, metadata["name"], metadata["namespace"], {"data": obj["data"]})

    def _kubernetes_service(self) -> Obj:
        return {
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.0.0.1",
                "ports": [{"name": "https", "port": 443, "targetPort": self.server.port}],
            },
        }
