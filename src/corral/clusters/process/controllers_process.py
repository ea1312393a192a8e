"""One process with chosen roles in a real cluster. Every role has a Lease, so that of several replicas one carries it out.

Queueing and dispatch of one process share their caches, so it carries them out together: it takes both Leases, or neither. When
the configuration changes, what runs is stopped and started again with it; webhooks go on answering meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import Gauge, ProcessCollector

from corral.client.protocol import Client
from corral.clusters.hub import HubCluster
from corral.clusters.kubernetes import Controllers
from corral.clusters.leader_run import Contender, Runnable
from corral.clusters.member import MemberCluster
from corral.clusters.process.configuration_in_force import ConfigurationInForce
from corral.clusters.process.roles import DISPATCH, HUB, MEMBER, QUEUEING, WEBHOOKS, answers_about_queues
from corral.clusters.process.standing_back import StandingBack, claims_of
from corral.clusters.process.status_page import StatusApplication, StatusPage
from corral.clusters.webhooks.service import WebhookService, WebhookSettings
from corral.configuration.client_connection import CallRate, call_rate
from corral.configuration.queueing import DEFAULT_NAMESPACE
from corral.controllers.dispatch.workers.clusters import Connect
from corral.controllers.member.connection import Connect as ConnectHub
from corral.core.meta import Obj
from corral.runtime.clock import Clock, WallClock
from corral.runtime.leader import LeaseTerms
from corral.runtime.metrics import Metrics, exposition_of
from corral.runtime.paced_client import PacedClient
from corral.runtime.tenure import HeldClient, Tenure

Make = Callable[[Obj, Metrics, Tenure], Runnable]


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What a process is to do. `member_name` is what a hub calls this cluster; without a `status_port` nothing is served of health
    and metrics."""

    roles: Sequence[str]
    identity: str
    member_name: str = ""
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    status_host: str = "0.0.0.0"
    status_port: int | None = None
    terms: LeaseTerms = field(default_factory=LeaseTerms)
    takes_over: bool = False
    """Do not stand back from other controllers for the same roles, but take their Leases."""


class ControllersProcess:
    """Runs the roles until cancelled. `connect` reaches workers, `connect_hub` the hub of a member.

    `leases` is a client for the Leases alone: a renewal that waited its turn behind hundreds of writes would come too late, and the
    busiest process would lose its roles."""

    def __init__(
        self,
        client: Client,
        configuration: ConfigurationInForce,
        settings: ProcessSettings,
        *,
        connect: Connect,
        connect_hub: ConnectHub,
        leases: Client | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._leases = leases or client
        self._configuration = configuration
        self._settings = settings
        self._connect = connect
        self._connect_hub = connect_hub
        self._clock = clock or WallClock()
        self._metrics = Metrics()
        ProcessCollector(registry=self._metrics.registry)
        self._leads = leads(self._metrics)
        self._counting: dict[str, Metrics] = {}
        self._webhooks: WebhookService | None = None
        self._is_open = False
        self.status: StatusPage | None = None

    async def run(self) -> None:
        """Carry out the roles until cancelled. Raises ConfigurationError when there is no configuration to begin with."""
        settings = self._settings
        if settings.status_port is not None:
            application = StatusApplication(self._client, self._clock, self._trouble, self._exposition)
            self.status = StatusPage(application, self._clock, settings.status_host, settings.status_port)
            await self.status.start()
        try:
            await self._configuration.open()
            if WEBHOOKS in settings.roles:
                self._webhooks = WebhookService(
                    self._client,
                    self._configuration.document,
                    settings.webhooks,
                    queues=answers_about_queues(settings.roles),
                    places=HUB in settings.roles,
                    clock=self._clock,
                )
                await self._webhooks.start()
            self._is_open = True
            await self._carry_out_all()
        finally:
            self._is_open = False
            if self._webhooks is not None:
                await self._webhooks.stop()
            if self.status is not None:
                await self.status.stop()

    async def _carry_out_all(self) -> None:
        roles = self._settings.roles
        async with asyncio.TaskGroup() as group:
            group.create_task(self._configuration.follow(), name="configuration")
            together = [role for role in (QUEUEING, DISPATCH) if role in roles]
            if together:
                group.create_task(self._carry_out(together, self._controllers), name="+".join(together))
            for role, make in ((HUB, self._hub), (MEMBER, self._member)):
                if role in roles:
                    group.create_task(self._carry_out([role], make), name=role)
            if self._webhooks is not None:
                group.create_task(self._reconfigure(self._webhooks), name="webhook configuration")
                group.create_task(self._register(self._webhooks), name=WEBHOOKS)

    # the roles

    def _controllers(self, document: Obj, metrics: Metrics, tenure: Tenure) -> Runnable:
        roles, rate = self._settings.roles, call_rate(document)
        return Controllers(
            self._paced(self._client, rate, tenure),
            document,
            connect=self._pacing(self._connect, rate, tenure) if DISPATCH in roles else None,
            queues=QUEUEING in roles,
            clock=self._clock,
            metrics=metrics,
        )

    def _hub(self, document: Obj, metrics: Metrics, tenure: Tenure) -> Runnable:
        client = self._paced(self._client, call_rate(document), tenure)
        return HubCluster(client, document, clock=self._clock, metrics=metrics)

    def _member(self, document: Obj, metrics: Metrics, tenure: Tenure) -> Runnable:
        rate = call_rate(document)
        return MemberCluster(
            self._paced(self._client, rate, tenure),
            self._settings.member_name,
            document,
            connect=self._pacing(self._connect_hub, rate, tenure),
            clock=self._clock,
            metrics=metrics,
        )

    def _paced(self, client: Client, rate: CallRate, tenure: Tenure) -> Client:
        """A client as controllers get it; Leases, webhooks and what answers for health call without a limit."""
        held = HeldClient(client, tenure)
        return held if rate.qps is None else PacedClient(held, rate.qps, rate.burst, self._clock)

    def _pacing(self, connect: Connect, rate: CallRate, tenure: Tenure) -> Connect:
        """`connect`, with the same limit for every cluster it reaches."""
        return lambda access: self._paced(connect(access), rate, tenure)

    async def _carry_out(self, roles: Sequence[str], make: Make) -> None:
        """Run what `make` makes, anew with every configuration, while the Leases of the roles are held."""
        tenure = Tenure(self._clock)

        async def work() -> None:
            while True:
                document = self._configuration.document
                metrics = self._counting[roles[0]] = Metrics()
                try:
                    await self._run_under(document, make(document, metrics, tenure))
                finally:
                    self._counting.pop(roles[0])

        await self._lead(roles, work, tenure)

    async def _run_under(self, document: Obj, running: Runnable) -> None:
        """Run until another document is in force, which need not wait for a start that goes on and on under this one."""
        changed = asyncio.ensure_future(self._configuration.other_than(document))
        starting = asyncio.ensure_future(running.start())
        try:
            await asyncio.wait([changed, starting], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await changed
        finally:
            for task in (changed, starting):
                task.cancel()
            await asyncio.gather(changed, starting, return_exceptions=True)
            await running.stop()

    async def _lead(
        self, roles: Sequence[str], work: Callable[[], Awaitable[None]], tenure: Tenure | None = None
    ) -> None:
        async def leading() -> None:
            try:
                self._tell(roles, leads=True)
                await work()
            finally:
                self._tell(roles, leads=False)

        settings, beside = self._settings, StandingBack(self._client, self._clock)
        self._tell(roles, leads=False)
        contender = Contender(self._leases, self._clock, settings.identity, settings.terms)
        namespace = str(self._configuration.document.get("namespace") or DEFAULT_NAMESPACE)
        if not settings.takes_over:
            await beside.while_deployed(roles, namespace)
        claims = claims_of(roles, namespace, settings.identity, takes_over=settings.takes_over)
        await contender.lead(claims, leading, beside.waits_for, tenure)

    async def _register(self, webhooks: WebhookService) -> None:
        await self._lead([WEBHOOKS], webhooks.keep_registered)

    async def _reconfigure(self, webhooks: WebhookService) -> None:
        document = self._configuration.document
        while True:
            await self._configuration.other_than(document)
            document = self._configuration.document
            await webhooks.reconfigure(document)

    # what is told

    def _tell(self, roles: Sequence[str], *, leads: bool) -> None:
        for role in roles:
            self._leads.labels(role).set(int(leads))

    def _trouble(self) -> str:
        """Why the process is not ready: a replica that stands by is, it would take over, and it answers webhooks."""
        return "" if self._is_open else "the configuration, the API server or the webhooks are being waited for"

    def _exposition(self) -> bytes:
        return exposition_of([self._metrics, *self._counting.values()])


def leads(metrics: Metrics) -> Gauge:
    """Which roles this process carries out."""
    return metrics.gauge("corral_leading", "Whether this process carries out the role", ("role",))
