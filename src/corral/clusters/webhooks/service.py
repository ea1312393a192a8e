"""The part of the controllers' process that an API server calls: every replica answers, one of them keeps it registered."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from corral.client.protocol import Client
from corral.clusters.webhooks import certificate_secret, front_proxy
from corral.clusters.webhooks.answering import Answering
from corral.clusters.webhooks.application import WebhookApplication
from corral.clusters.webhooks.certificate_secret import CertificateSecret
from corral.clusters.webhooks.certificates import Terms
from corral.clusters.webhooks.configurations import Endpoint
from corral.clusters.webhooks.front_proxy import FrontProxy
from corral.clusters.webhooks.registration import Registered, Registrar
from corral.clusters.webhooks.reviews import AdmissionReviews, ConversionReviews
from corral.configuration.queueing import DEFAULT_NAMESPACE, QueueingConfig
from corral.core.meta import Key, Obj
from corral.core.resource import Resource
from corral.core.server_limits import Limits
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS
from corral.kinds.machinery.definition import KindDef
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.server.access.certificates import Pair, load_pair
from corral.server.http.listener import Listener, server_context
from corral.server.http.message import Answer, Request

log = logging.getLogger(__name__)

SERVICE_NAME = "corral-webhooks"
PORT = 9443


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where to listen, and by which Service we are found.

    `external_name` is the host of a process outside of the cluster: a Service of that type is then made for it.
    `certificate_folder` holds certificates that cert-manager renews, and `injected_from` names its Certificate."""

    host: str = "0.0.0.0"
    port: int = PORT
    service: str = SERVICE_NAME
    service_port: int = 443
    external_name: str = ""
    certificate_folder: Path | None = None
    injected_from: str = ""
    linger_s: float = 0.0
    """How long to go on answering although the process is to end: until nobody is sent here any more."""
    terms: Terms = field(default_factory=Terms)


def reviewed_resources(config: QueueingConfig | None) -> list[Resource]:
    """Kinds that a plug-in may be asked about, in the version it reads them in."""
    known = [kind.resource() for kind in (*builtin_kinds(), *native_kinds())]
    described = [adapter.resource for adapter in config.job_adapters()] if config is not None else []
    return list({(each.group, each.kind): each for each in (*known, *described)}.values())


def converted_kinds() -> list[KindDef]:
    """Kinds whose versions differ in more than their name."""
    return [kind for kind in native_kinds() if kind.convert is not None]


class WebhookService:
    """Start it before the controllers, so that what they are to see is admitted; one replica keeps it registered. It answers about
    what `queues` here, about what this cluster `places` as a hub, or about both."""

    def __init__(
        self,
        client: Client,
        configuration: Obj,
        settings: WebhookSettings = WebhookSettings(),  # noqa: B008  # frozen
        *,
        queues: bool = True,
        places: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._queues, self._places = queues, places
        self._client = client
        self._settings = settings
        self._clock = clock or WallClock()
        self._random = Random()
        self._manager = Manager(client, self._clock, self._random)
        self._front_proxy = FrontProxy()
        self._answering = self._under(configuration)
        self._reconfigured = asyncio.Event()
        self._context = server_context()
        self._listener = Listener(Limits(), self._clock.now)
        self._is_ready = False
        self.port = settings.port
        namespace = str(configuration.get("namespace") or DEFAULT_NAMESPACE)
        self._endpoint = Endpoint(
            namespace, settings.service, settings.service_port, injected_from=settings.injected_from
        )
        self._secret = CertificateSecret(
            client,
            self._clock,
            Key(namespace, certificate_secret.NAME),
            self._endpoint.hosts,
            settings.terms,
        )

    def _under(self, configuration: Obj) -> Answering:
        return Answering(
            self._client,
            configuration,
            self._clock,
            self._random,
            lambda: self._front_proxy,
            queues=self._queues,
            places=self._places,
        )

    async def start(self) -> None:
        """Listen; whoever asks is answered when this returns."""
        self._follow_certificates()
        self._follow_front_proxy()
        await self._manager.start()
        await self._answering.start()
        await self._load_certificates()
        self.port = self._listener.bind(self._settings.host, self._settings.port)
        await self._listener.serve(self._application(), self._context, self._random.uid()[:24])
        self._is_ready = True
        log.info("webhooks are served", extra={"port": self.port})

    async def reconfigure(self, configuration: Obj) -> None:
        """Answer by another configuration, without a moment in which nobody does."""
        former, following = self._answering, self._under(configuration)
        await following.start()
        self._answering = following
        self._reconfigured.set()
        await former.stop()

    async def stop(self) -> None:
        """Finish what is being answered, and take nothing new."""
        was_ready, self._is_ready = self._is_ready, False
        if was_ready:
            await self._clock.sleep(self._settings.linger_s)
        await self._listener.stop()
        await self._answering.stop()
        await self._manager.stop()

    async def keep_registered(self) -> None:
        """Keep the cluster calling us, by the configuration in force, until cancelled."""
        while True:
            self._reconfigured.clear()
            manager = Manager(self._client, self._clock, self._random)
            Registrar(manager, self.registered(), self._bundle, self._settings.terms.look_again_s)
            try:
                await manager.start()
                await self._reconfigured.wait()
            finally:
                await manager.stop()

    def registered(self) -> Registered:
        """What the cluster is to call us for."""
        settings, answering = self._settings, self._answering
        endpoint = self._endpoint
        if settings.external_name:
            endpoint = endpoint._replace(port=self.port)
        return Registered(
            endpoint,
            answering.config,
            answering.plugins,
            reviewed_resources(answering.config),
            converted_kinds() if self._queues else (),
            answering.aggregated.versions if answering.aggregated is not None else (),
            external_name=settings.external_name,
            hub_plugins=answering.hub_plugins,
        )

    def _application(self) -> WebhookApplication:
        kinds = {(kind.group, kind.kind): kind for kind in converted_kinds()}
        return WebhookApplication(
            AdmissionReviews(lambda: self._answering.chain),
            ConversionReviews(kinds),
            lambda: self._is_ready,
            self._answer_further,
        )

    async def _answer_further(self, request: Request) -> Answer | None:
        aggregated = self._answering.aggregated
        return await aggregated.answer(request) if aggregated is not None else None

    # certificates

    async def _bundle(self) -> bytes:
        """What callers are to believe, after renewing what is due; nothing where cert-manager says so."""
        if self._settings.certificate_folder is not None:
            return b""
        kept = await self._secret.renew()
        load_pair(self._context, kept.serving)
        return kept.bundle

    async def _load_certificates(self) -> None:
        folder = self._settings.certificate_folder
        pair = _mounted(folder) if folder is not None else (await self._secret.current()).serving
        load_pair(self._context, pair)

    def _follow_certificates(self) -> None:
        """Serve with what is renewed, whoever renews it. New handshakes see it; connections that are open stay."""
        if self._settings.certificate_folder is not None:
            self._manager.run_task(self._reread_files, "webhook certificates")
            return
        key = self._secret.key
        informer = self._manager.informer(SECRETS, namespace=key.namespace, fields=f"metadata.name={key.name}")
        informer.on_change(self._secret_changed)

    def _follow_front_proxy(self) -> None:
        """Believe the server in front of aggregated APIs as the cluster says, also when it says so later."""
        selector = f"metadata.name={front_proxy.CONFIG_NAME}"
        informer = self._manager.informer(CONFIG_MAPS, namespace=front_proxy.CONFIG_NAMESPACE, fields=selector)
        informer.on_change(self._front_proxy_changed)

    def _front_proxy_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            return
        try:
            found = FrontProxy.read(new)
            if found.authority and found.authority != self._front_proxy.authority:
                self._context.load_verify_locations(cadata=found.authority)
        except (ValueError, ssl.SSLError) as error:
            log.warning("aggregated APIs cannot believe the server in front of them", extra={"error": str(error)})
            return
        self._front_proxy = found

    def _secret_changed(self, old: Obj | None, new: Obj | None) -> None:
        kept = certificate_secret.read(new) if new is not None else None
        if kept is not None:
            load_pair(self._context, kept.serving)

    async def _reread_files(self) -> None:
        while True:
            await self._clock.sleep(self._settings.terms.look_again_s)
            await self._load_certificates()


def _mounted(folder: Path) -> Pair:
    """Certificates as a Secret of type kubernetes.io/tls is mounted."""
    return Pair((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
