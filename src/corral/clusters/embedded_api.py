"""One embedded cluster's API by itself: store, API, built-in controllers and HTTPS server, without nodes or queues.

It is what `corral serve` runs and what the conformance tests talk to; a whole embedded cluster adds controllers to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corral.client.protocol import Client
from corral.clusters.enforced_identities import EnforcedIdentities
from corral.clusters.fronts.growth import part_of
from corral.clusters.fronts.messages import Serve
from corral.clusters.fronts.pool import Fronts, FrontsError
from corral.configuration.fleet import FleetSpec
from corral.core.admission import AdmissionPlugin, UserInfo
from corral.core.errors import AlreadyExists
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.server_limits import Limits
from corral.core.streams import PodStreams
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, PODS, SERVICES
from corral.kinds.machinery.virtual_resources import ExtraApi
from corral.runtime.aside import Aside
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.key_provider import KeyProvider
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


def open_keys(path: Path, provider: Sequence[str]) -> KeyFile:
    """The keys that encrypt Secrets, unwrapped by the program, where there is one."""
    return KeyFile(path, random_bytes, KeyProvider(provider) if provider else None)


INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class EmbeddedApi:
    """Start it, use `server` and `client`, stop it. `state` None keeps everything in memory. The file that encrypts Secrets
    there is `encryption_key`, beside the state where none is named; `encryption_provider` is the program that wraps what is in it.
    `fronts` is how many processes answer clients in front of this one: None for as many as there is work for."""

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
        encryption_provider: Sequence[str] = (),
        limits: Limits = Limits(),  # noqa: B008  # frozen
        webhook_networks: Sequence[str] = (),
        fronts: int | None = 0,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        if state is not None:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.clock = clock or WallClock()
        self.random = random or Random()
        journal = None
        if state is not None:
            keys = open_keys(encryption_key or state / KEY_FILE, encryption_provider)
            journal = SqliteJournal(state / "store.db", keys)
        self.store = Store(journal, now=self.clock.now)
        self.aside = Aside()
        self.api = Api(
            self.store, builtin_registry(), clock=self.clock, random=self.random, plugins=plugins, aside=self.aside
        )
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
            limits=limits,
            webhook_networks=webhook_networks,
        )
        self.rights = UserRights(self.api.registry, self.server.authorizer)
        """What users may have done by controllers that create what somebody describes."""
        self.identities = EnforcedIdentities(self.api, self.server.authorizer, self.manager)
        self.manager.identities = self.identities
        set_up_lifecycle(self.api, self.manager)
        self.fronts = Fronts(self.server, self.store, self.clock, self._serve, fronts if state is not None else 0)
        self._state = state
        self._fleet: tuple[FleetSpec, str] | None = None

    def _serve(self) -> Serve:
        """What a front has to know of this cluster."""
        server = self.server
        return Serve(
            name=server.name,
            host=server.host,
            port=server.port,
            hosts=[],
            state=str(self._state),
            limits=part_of(server.limits, self.fronts.most),
            webhook_networks=list(server.webhook_networks),
            pod_networks=list(server.pod_networks) if server.pod_networks is not None else None,
            answered_here=sorted(server.answered_here),
            shown_by_owner=[(kind.group, kind.plural) for extra in server.extras for kind in extra.kinds]
            + ([(PODS.group, PODS.plural)] if server.remote_pods is not None else []),
            fleet=self._fleet[0] if self._fleet is not None else None,
            cluster=self._fleet[1] if self._fleet is not None else "",
            audit=server.audit_options,
        )

    def belongs_to(self, fleet: FleetSpec, cluster: str) -> None:
        """Say before the start which cluster of a fleet this is: its fronts admit as it does."""
        self._fleet = (fleet, cluster)

    def act_as(self, user: UserInfo) -> Client:
        """The API as somebody else: what that user may not do is refused."""
        return self.identities.act_as(user)

    async def start(self) -> None:
        """Serve. What every cluster has is there when this returns. Raises FrontsError where its front processes do not start."""
        await self.identities.grant()
        await self.manager.start()
        for namespace in INITIAL_NAMESPACES:
            await self._ensure(NAMESPACES, {"metadata": {"name": namespace}})
        await self.server.start()
        await self._ensure(SERVICES, self._kubernetes_service())
        await self._keep_current(CONFIG_MAPS, self.server.extension_authentication())
        try:
            await self.fronts.start()
        except FrontsError:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self.fronts.stop()
        await self.server.stop()
        await self.manager.stop()
        await self.store.close()
        self.aside.close()

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
