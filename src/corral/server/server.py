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
from functools import partial
from pathlib import Path

import yaml

from corral.core.meta import Obj
from corral.core.remote_pods import RemotePodSource
from corral.core.server_limits import Limits
from corral.core.streams import PodStreams
from corral.kinds.machinery.virtual_resources import ExtraApi
from corral.server.access import rbac_defaults
from corral.server.access.audit import AuditFile, AuditLog, AuditOptions
from corral.server.access.authentication import ADMIN, Authenticator, load_tokens
from corral.server.access.authorization import Authorizer
from corral.server.access.bootstrap import ensure_role
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
from corral.server.extension.egress import Egress
from corral.server.extension.outcalls import Caller
from corral.server.http.listener import Listener, server_context
from corral.server.non_resource_paths import ENDPOINT_PATHS, Endpoints
from corral.server.pods.proxy import Proxying
from corral.server.pods.remote_pods import RemotePodsApi
from corral.server.pods.streaming import PodStreaming
from corral.server.request_metrics import RequestMetrics
from corral.server.resources import Resources
from corral.store import ObjectKey

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
        webhook_networks: Sequence[str] = (),
    ) -> None:
        self.api = api
        self.limits = limits
        self.name = name
        self.host = host
        self.port = port
        self._hosts = (host, *hosts)
        self.streams = streams
        self.remote_pods: RemotePodSource | None = None
        """Pods of other clusters to show beside the own ones; set before the start."""
        self.answered_here: set[str] = set()
        """Names of Services whose webhooks need not be asked, because plug-ins of this server do their work."""
        self.pod_networks: Sequence[str] | None = None
        """The networks of the pods and Services that live on this machine; set before the start where they do."""
        self.webhook_networks = webhook_networks
        """Those of this machine where webhooks and aggregated APIs may be called, too."""
        self.extras = list(extras)
        self._more_metrics = metrics
        self._audit_path = audit
        self._audit_options = audit_options
        self._audit_file: AuditFile | None = None
        self.audited: Callable[[bytes], None] | None = None
        """Takes each line of the audit log, if there is one; where the file is another process', set before the start."""
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
        self._caller = Caller(self._addresses, self._front_proxy.issue_client("front-proxy-client", (), now))
        self.aggregation = Aggregation(api.store, api.clock, self._caller)
        self._signer = CertificateSigner(api.store, self.authority, api.clock)
        conditions = Conditions(self._namespace)
        api.chain.plugins.insert(0, CreateGuard(self.authorizer))
        api.chain.plugins += [
            CertificateRequests(self.authorizer),
            RbacGuard(self.authorizer),
            Policies(api.store, api.registry, conditions),
            Webhooks(api.store, api.serving, api.random, conditions, self._caller, self.answered_here),
        ]
        api.serving.ask = ConversionCalls(api.store, api.random, self._caller).ask
        api.posts["serviceaccounts", "token"] = self.reviews.request_token
        api.root_ca = self.authority.certificate.decode()
        self.listener = Listener(limits, api.clock.now)
        self._background: list[asyncio.Task[None]] = []

    def _namespace(self, name: str) -> Obj | None:
        stored = self.api.store.get(ObjectKey("namespaces", "", name))
        return stored.obj if stored is not None else None

    async def _addresses(self, host: str) -> Sequence[str]:
        return await Egress(self.pod_networks, self.webhook_networks).addresses(host)

    # life

    async def start(self) -> None:
        """Listen. `port` is the real one afterwards."""
        await self.bootstrap()
        self.port = self.listener.bind(self.host, self.port)
        if self._audit_path is not None:
            self._audit_file = AuditFile(self._audit_path, self._audit_options)
            self.audited = self._audit_file.append
        await self.listener.serve(self.application(), self._context(), self.api.random.uid()[:24])
        loop = asyncio.get_running_loop()
        self._background = [
            loop.create_task(self.aggregation.run(), name="aggregated-apis"),
            loop.create_task(self._signer.run(), name="certificate-signer"),
        ]

    async def serve_handed(self, made: Callable[..., App]) -> None:
        """Serve connections that somebody else accepts and hands over, by an application of another make; what a cluster needs
        one of runs elsewhere."""
        await self.listener.serve(self.application(made), self._context(), self.api.random.uid()[:24])

    async def stop(self) -> None:
        """Accept nothing new, let running requests finish for a moment, then close."""
        if not self._background:
            return
        await self.listener.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._background = []
        self._caller.close()
        if self._audit_file is not None:
            self._audit_file.close()

    async def bootstrap(self) -> None:
        """The roles and bindings every cluster has; what somebody changed is left alone."""
        for obj in (*rbac_defaults.cluster_roles(), *rbac_defaults.cluster_role_bindings()):
            await ensure_role(self.api, obj)

    # parts

    def application(self, made: Callable[..., App] | None = None) -> App:
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
            lambda: self.listener.is_serving,
            lambda: api.store.trouble,
            self._metrics,
        )
        return (made or partial(App, store=api.store))(
            resources=Resources(api, views, self.reviews.by_resource, special, self.extras, remote_pods),
            discovery=discovery,
            openapi=OpenApi(api.registry, discovery, api.aside),
            endpoints=endpoints,
            authenticator=self.authenticator,
            authorizer=self.authorizer,
            metrics=self.requests,
            timestamp=api.clock.timestamp,
            fallback=self.aggregation.answer,
            limits=self.limits,
            audit=self._audit(),
            virtual=frozenset(
                [
                    *((kind.group, kind.plural) for kind in extra_kinds),
                    *([("", "pods")] if remote_pods is not None else []),
                ]
            ),
        )

    def _audit(self) -> AuditLog | None:
        if self.audited is None:
            return None
        return AuditLog(self.audited, self._audit_options, self.api.clock.timestamp, self.api.random.uid)

    @property
    def audit_options(self) -> AuditOptions | None:
        """What is audited, where anything is."""
        return self._audit_options if self._audit_path is not None else None

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
        context = server_context()
        context.load_verify_locations(cadata=self.authority.certificate.decode())
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
