"""One API server on a port: puts the application together over an Api, listens with TLS, and stops without cutting
requests in half.

    server = ApiServer(api, state=folder, port=6443)
    await server.start()
    ...
    await server.stop()
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path

import yaml

from corral.core.meta import Obj
from corral.core.remote_pods import RemotePodSource
from corral.core.streams import PodStreams
from corral.kinds.machinery.virtual_resources import ExtraApi
from corral.server.access import rbac_defaults
from corral.server.access.audit import AuditLog, AuditOptions
from corral.server.access.authentication import ADMIN, Authenticator, load_tokens
from corral.server.access.authorization import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Authorizer
from corral.server.access.certificate_signing import CertificateRequests
from corral.server.access.certificate_signing import Signer as CertificateSigner
from corral.server.access.certificates import load_authority, load_pair, write_private
from corral.server.access.escalation import CreateGuard, RbacGuard
from corral.server.access.reviews import Reviews
from corral.server.access.tokens import Signer
from corral.server.admission.match_conditions import Conditions
from corral.server.admission.policies import Policies
from corral.server.admission.webhooks import Webhooks
from corral.server.api import Api
from corral.server.app import App
from corral.server.content.discovery import Discovery
from corral.server.content.openapi import OpenApi
from corral.server.content.representations import Views
from corral.server.extension.aggregation import Aggregation
from corral.server.extension.conversion_webhooks import ConversionCalls
from corral.server.extension.outcalls import Caller
from corral.server.gc_tuning import give_back_memory
from corral.server.http.choosing import PROTOCOLS, Choosing
from corral.server.http.limits import Limits
from corral.server.http.shared import Shared
from corral.server.non_resource_paths import ENDPOINT_PATHS, Endpoints
from corral.server.pods.proxy import Egress, Proxying
from corral.server.pods.remote_pods import RemotePodsApi
from corral.server.pods.streaming import PodStreaming
from corral.server.request_metrics import RequestMetrics
from corral.server.resources import Resources
from corral.store import ObjectKey

SWEEP_S = 1.0
STOP_GRACE_S = 5.0
HANDSHAKE_S = 10.0
BURST = 100
_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


class ApiServer:
    """Serves one Api over HTTPS. `state` keeps keys and tokens between starts; None makes throw-away ones."""

    def __init__(
        self,
        api: Api,
        *,
        state: Path | None = None,
        name: str = "corral",
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Sequence[str] = (),
        streams: PodStreams | None = None,
        extras: Sequence[ExtraApi] = (),
        metrics: Callable[[], bytes] | None = None,
        audit: Path | None = None,
        audit_options: AuditOptions = AuditOptions(),  # noqa: B008  # frozen
        limits: Limits = Limits(),  # noqa: B008  # frozen
    ) -> None:
        self.api = api
        self._limits = limits
        self.name = name
        self.host = host
        self.port = port
        self._hosts = (host, *hosts)
        self.streams = streams
        self.remote_pods: RemotePodSource | None = None
        """Pods of other clusters to show beside the own ones; set before the start."""
        self.pod_networks: Sequence[str] | None = None
        """The networks of the pods and Services that live on this machine; set before the start where they do."""
        self.extras = list(extras)
        self._more_metrics = metrics
        self._audit_path = audit
        self._audit_options = audit_options
        self._audit: AuditLog | None = None
        directory = state / "pki" if state is not None else None
        now = api.clock.now()
        self.authority = load_authority(directory, f"{name}-ca", now)
        self._serving = self.authority.issue_server(self._certificate_names(), now)
        self._admin = self.authority.issue_client(ADMIN.name, ADMIN.groups, now)
        self.tokens = load_tokens(directory)
        self.authorizer = Authorizer(api.store)
        self.authenticator = Authenticator(api.store, Signer.load(directory), api.clock.now, self.tokens)
        self.reviews = Reviews(api.store, self.authenticator, self.authorizer, api.clock, api.random)
        self.requests = RequestMetrics()
        # An authority of its own: whoever trusts it takes the caller's word for who is asking.
        self._front_proxy = load_authority(directory, f"{name}-front-proxy-ca", now, "front-proxy-ca")
        self._caller = Caller(self._front_proxy.issue_client("front-proxy-client", (), now))
        self.aggregation = Aggregation(api.store, api.clock, self._caller)
        self._signer = CertificateSigner(api.store, self.authority, api.clock)
        conditions = Conditions(self._namespace)
        api.chain.plugins.insert(0, CreateGuard(self.authorizer))
        api.chain.plugins += [
            CertificateRequests(self.authorizer),
            RbacGuard(self.authorizer),
            Policies(api.store, api.registry, conditions),
            Webhooks(api.store, api.serving, api.random, conditions, self._caller),
        ]
        api.serving.ask = ConversionCalls(api.store, api.random, self._caller).ask
        api.posts["serviceaccounts", "token"] = self.reviews.request_token
        api.root_ca = self.authority.certificate.decode()
        self._server: asyncio.Server | None = None
        self._background: list[asyncio.Task[None]] = []
        self._shared: Shared | None = None

    def _namespace(self, name: str) -> Obj | None:
        stored = self.api.store.get(ObjectKey("namespaces", "", name))
        return stored.obj if stored is not None else None

    # life

    async def start(self) -> None:
        """Listen. `port` is the real one afterwards."""
        await self.bootstrap()
        listener = socket.create_server((self.host, self.port), backlog=2048, reuse_port=False)
        self.port = listener.getsockname()[1]
        if self._audit_path is not None:
            self._audit = AuditLog(self._audit_path, self._audit_options, self.api.clock.timestamp, self.api.random.uid)
        shared = self._shared = Shared(self.application(), self._limits)
        shared.audit_prefix = self.api.random.uid()[:24]
        shared.date = formatdate(self.api.clock.now(), usegmt=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Choosing(shared), sock=listener, ssl=self._context(), ssl_handshake_timeout=HANDSHAKE_S
        )
        self._background = [
            loop.create_task(self._sweep(shared), name="connection-sweeper"),
            loop.create_task(self.aggregation.run(), name="aggregated-apis"),
            loop.create_task(self._signer.run(), name="certificate-signer"),
        ]

    async def stop(self) -> None:
        """Accept nothing new, let running requests finish for a moment, then close."""
        if self._server is None or self._shared is None:
            return
        self._shared.closing = True
        self._server.close()
        for connection in list(self._shared.connections):
            connection.drain()
        await self._wait_for_requests(self._shared)
        for connection in list(self._shared.connections):
            connection.transport.abort()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._caller.close()
        self._server = None
        if self._audit is not None:
            self._audit.close()

    async def _wait_for_requests(self, shared: Shared) -> None:
        running = [waited for each in shared.connections if (waited := each.unfinished()) is not None]
        if running:
            await asyncio.wait(running, timeout=STOP_GRACE_S)

    async def _sweep(self, shared: Shared) -> None:
        """Keep the Date header current and close connections nobody uses."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            shared.date = formatdate(self.api.clock.now(), usegmt=True)
            now = loop.time()
            for connection in list(shared.connections):
                connection.sweep(now)
            if shared.closed >= BURST:
                shared.closed = 0
                give_back_memory()

    async def bootstrap(self) -> None:
        """The roles and bindings every cluster has; what somebody changed is left alone."""
        store = self.api.store
        for resource, objects in (
            (CLUSTER_ROLES, rbac_defaults.cluster_roles()),
            (CLUSTER_ROLE_BINDINGS, rbac_defaults.cluster_role_bindings()),
        ):
            for obj in objects:
                key = ObjectKey(resource, "", obj["metadata"]["name"])
                if store.head(key) is None:
                    await store.put(key, self._with_system_metadata(obj), expected=0)

    def _with_system_metadata(self, obj: Obj) -> Obj:
        created = {"uid": self.api.random.uid(), "creationTimestamp": self.api.clock.timestamp()}
        return {**obj, "metadata": {**obj["metadata"], **created}}

    # parts

    def application(self) -> App:
        """The application over this server's parts."""
        api = self.api
        extra_kinds = [kind for extra in self.extras for kind in extra.kinds]
        for kind in extra_kinds:
            api.registry.add(kind)
        discovery = Discovery(api.registry, extra_kinds, f"{self.host}:{self.port}", self.aggregation.groups)
        views = Views(api.clock.now)
        remote_pods = RemotePodsApi(self.remote_pods, api.store) if self.remote_pods is not None else None
        special = {
            **PodStreaming(api, lambda: self.streams, remote_pods).by_subresource,
            **Proxying(api.store, self._caller, Egress(self.pod_networks)).by_subresource,
        }
        endpoints = Endpoints(
            self.authenticator.signer,
            self.url,
            lambda: self._paths(discovery),
            lambda: self._shared is not None and not self._shared.closing,
            lambda: api.store.trouble,
            self._metrics,
        )
        return App(
            store=api.store,
            resources=Resources(api, views, self.reviews.by_resource, special, self.extras, remote_pods),
            discovery=discovery,
            openapi=OpenApi(api.registry, discovery),
            endpoints=endpoints,
            authenticator=self.authenticator,
            authorizer=self.authorizer,
            metrics=self.requests,
            timestamp=api.clock.timestamp,
            fallback=self.aggregation.answer,
            limits=self._limits,
            audit=self._audit,
            virtual=frozenset(
                [
                    *((kind.group, kind.plural) for kind in extra_kinds),
                    *([("", "pods")] if remote_pods is not None else []),
                ]
            ),
        )

    def _paths(self, discovery: Discovery) -> list[str]:
        versions = discovery.group_versions()
        listed = [f"/apis/{name}" if "/" in name else f"/api/{name}" for name in versions]
        return [*ENDPOINT_PATHS, *listed, *(f"/apis/{group}" for group in discovery.groups())]

    def _metrics(self) -> bytes:
        return self.requests.render().encode() + (self._more_metrics() if self._more_metrics is not None else b"")

    def _certificate_names(self) -> list[str]:
        names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), *_NAMES, *self._hosts]
        return [name for name in dict.fromkeys(names) if name not in ("", "0.0.0.0", "::")]

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        context.set_alpn_protocols(list(PROTOCOLS))
        load_pair(context, self._serving)
        return context

    # for clients

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def admin_token(self) -> str:
        """The first static token of the administrator."""
        return next(token for token, user in self.tokens.items() if user.name == ADMIN.name)

    def extension_authentication(self) -> Obj:
        """The ConfigMap from which aggregated API servers learn whom to trust."""
        bundle = self.authority.certificate.decode()
        return {
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": bundle,
                "requestheader-allowed-names": '["front-proxy-client"]',
                "requestheader-client-ca-file": self._front_proxy.certificate.decode(),
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-username-headers": '["X-Remote-User"]',
                "requestheader-uid-headers": '["X-Remote-Uid"]',
            },
        }

    def kubeconfig(self) -> Obj:
        """The administrator's kubeconfig, with a client certificate."""
        user = {
            "client-certificate-data": _base64(self._admin.certificate),
            "client-key-data": _base64(self._admin.key),
        }
        return self._kubeconfig(f"{self.name}-admin", user)

    def _kubeconfig(self, user: str, credentials: Obj) -> Obj:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.authority.certificate)}
        context = {"cluster": self.name, "user": user}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": self.name, "context": context}],
            "current-context": self.name,
        }

    def write_kubeconfig(self, path: Path) -> None:
        """Write the administrator's kubeconfig, readable by its owner only."""
        write_private(path, yaml.safe_dump(self.kubeconfig(), sort_keys=False).encode())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
