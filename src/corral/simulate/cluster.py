"""One simulated cluster: in-memory API, all controllers of its roles, simulated pods, on the loop's virtual time.

It can be crashed and started again, with its disk (the store survives) or without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.clusters import identities
from corral.clusters.enforced_identities import EnforcedIdentities
from corral.clusters.operators import set_up_operators
from corral.configuration.dispatch import dispatch_settings
from corral.configuration.job_kinds import jobs_to_dispatch
from corral.configuration.queueing import QueueingConfig, load_config
from corral.controllers.dispatch import set_up_dispatch
from corral.controllers.dispatch.copies.worker_answers import WorkerAnswers
from corral.controllers.dispatch.workers.clusters import Connect
from corral.controllers.dispatch.workers.fencing import Fence
from corral.controllers.dispatch.workers.remotes import Remote, Remotes
from corral.controllers.queueing.setup import set_up_queueing
from corral.core.errors import AlreadyExists
from corral.core.meta import Obj
from corral.jobs.framework.served_kinds import full_registry
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.runtime.clock import VirtualClock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.server.access.authorization import Authorizer
from corral.server.api import Api
from corral.server.lifecycle import set_up_lifecycle
from corral.server.local import LocalClient
from corral.simulate.keys import repeatable_keys
from corral.store import Store

STANDARD_NAMESPACES = ("default", "kube-system", "kueue-system")


def _queueing_config(document: Obj) -> QueueingConfig:
    return load_config(document) if document else QueueingConfig()


class SimulatedCluster:
    """A cluster in memory. `nodes` empty means that it runs no pods itself."""

    def __init__(
        self,
        name: str,
        *,
        seed: int = 0,
        nodes: Sequence[NodeSpec] = (),
        configuration: Obj | None = None,
        connect: Connect | None = None,
        operators: bool = True,
        skew: float = 0.0,
        extra: Sequence[Callable[[Manager], object]] = (),
    ) -> None:
        self.name = name
        self.clock = VirtualClock(skew=skew)
        self._seed = seed
        self._nodes = nodes
        self._configuration = configuration or {}
        self._connect = connect
        self._operators = operators
        self._extra = extra
        self._starts = 0
        self.store = Store(now=self.clock.now)
        self._agent: NodeAgent | None = None
        self._remotes: Remotes | None = None

    async def start(self) -> None:
        """Bring the control plane up on the store as it is."""
        self._starts += 1
        self.random = Random(f"{self.name}-{self._seed}-{self._starts}")
        self.api = Api(self.store, full_registry(), clock=self.clock, random=self.random)
        self.client = LocalClient(self.api)
        self.manager = Manager(
            self.client, self.clock, self.random, private_key=repeatable_keys(self.random.fork("keys"))
        )
        held = EnforcedIdentities(self.api, Authorizer(self.store), self.manager)
        self.manager.identities = held
        set_up_lifecycle(self.api, self.manager)
        queueing = self.manager.of(identities.queueing(_queueing_config(self._configuration)))
        self.api.chain.plugins.extend(set_up_queueing(queueing, self._configuration))
        if self._operators:
            self.api.chain.plugins.extend(set_up_operators(self.manager))
        if self._connect is not None:
            settings = dispatch_settings(self._configuration)
            self.answers = WorkerAnswers()
            known = jobs_to_dispatch(self._configuration)
            dispatcher = self.manager.of(identities.dispatch(settings, known))
            self._remotes = set_up_dispatch(dispatcher, settings, self._connect, known, answers=self.answers)
        Fence(queueing)
        for register in self._extra:
            register(self.manager)
        if self._nodes:
            await self._start_nodes()
        for namespace in STANDARD_NAMESPACES:
            await self._ensure_namespace(namespace)
        await held.grant()
        await self.manager.start()

    async def _start_nodes(self) -> None:
        self._agent = NodeAgent(self.manager.of(identities.NODE_AGENT), self._nodes, SimulatedRuntime(self.clock))
        Scheduler(self.manager.of(identities.SCHEDULER))
        await self._agent.open()

    async def _ensure_namespace(self, name: str) -> None:
        try:
            await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:
            pass

    async def crash(self, *, lose_disk: bool = False) -> None:
        """Stop everything at once, as a killed process would; `lose_disk` also loses what was stored."""
        await self.manager.stop()
        if self._remotes is not None:
            await self._remotes.close()
        if self._agent is not None:
            await self._agent.close()
        if lose_disk:
            self.store = Store(now=self.clock.now)

    @property
    def remotes(self) -> Remotes | None:
        """The workers of a manager."""
        return self._remotes

    def remote(self, name: str) -> Remote | None:
        """A worker as this cluster's manager knows it."""
        return self._remotes.get(name) if self._remotes is not None else None

    async def stop(self) -> None:
        await self.crash()
