"""A whole embedded cluster in one process: API server, operators, nodes, and the controllers its roles ask for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from corral.client.http import HttpClient
from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.clusters import identities
from corral.clusters.dispatching import Dispatching
from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.kueue_installation.installer import Installation
from corral.clusters.kueue_installation.objects import WEBHOOK_SERVICE
from corral.clusters.operator_installations import InstalledAgain, OperatorInstallations, replaced_operators
from corral.clusters.operators import operator_posts, set_up_operators
from corral.clusters.unattended import Unattended
from corral.configuration.fleet import ENGINES, HUB, MANAGER, MEMBER, WORKER, ClusterSpec, FleetSpec, configuration_of
from corral.controllers.dispatch.workers.fencing import Fence
from corral.core.errors import AlreadyExists
from corral.jobs.framework.operators import OperatorContext, OperatorSettings
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.node.agent import NodeAgent
from corral.node.engine.client import Engine
from corral.node.engine.runtime import EngineRuntime
from corral.node.images import Catalog
from corral.node.machine.devices import Equipment
from corral.node.node import NodeSpec
from corral.node.pod_inputs import ClusterPodInputs
from corral.node.process.runtime import ProcessRuntime, ProcessSettings
from corral.node.runtime import PodRuntime
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.node.usage import PodUsage, SimulatedUsage
from corral.server.access.audit import AuditOptions
from corral.server.pods.remote_usage import RemoteUsage

log = logging.getLogger(__name__)

KUEUE_NAMESPACE = "kueue-system"
KEPT_LOGS = "kept-logs"
"""Where a manager keeps the logs of finished jobs, beside its journal."""


class EmbeddedCluster:
    """One cluster of a fleet. Start it, serve, stop it; its state stays in `state`. `network` is for its pods and Services,
    `equipment` what its nodes have of the machine's devices."""

    def __init__(
        self,
        fleet: FleetSpec,
        spec: ClusterSpec,
        state: Path,
        port: int,
        network: str,
        equipment: Equipment | None = None,
    ) -> None:
        self.spec = spec
        self._equipment = equipment or Equipment()
        self._state = state
        self.base = EmbeddedApi(
            state,
            name=f"corral-{spec.name}",
            host=fleet.address,
            port=port,
            limits=spec.limits,
            webhook_networks=spec.webhook_networks,
            encryption_provider=fleet.encryption_provider,
            audit=state / spec.audit_log.path if spec.audit_log is not None else None,
            audit_options=_audit_options(spec),
            fronts=spec.fronts,
        )
        self.base.belongs_to(fleet, spec.name)
        manager = self.base.manager
        self._configuration = configuration_of(fleet, spec)
        plugins = self.base.api.chain.plugins
        starts_jobs = ""
        only_hub = HUB in spec.roles and not {MANAGER, WORKER} & set(spec.roles)
        if not only_hub:
            # A hub's queues are for its members: to the hub itself they are only objects.
            dispatching = (
                Dispatching(connect, lambda: self.base.store.revision, state / KEPT_LOGS)
                if MANAGER in spec.roles
                else None
            )
            installation = Installation(manager, self._configuration, (dispatching,) if dispatching else ())
            if dispatching is not None:
                installation.explanations.ask_workers = dispatching.answers_of
                self.base.server.remote_pods = dispatching
            installation.configured = self.base.fronts.configure
            plugins.extend(installation.plugins)
            self.base.server.answered_here.add(WEBHOOK_SERVICE)
            queueing = identities.queueing(installation.queueing.config)
            starts_jobs = queueing.user.name
            Fence(manager.of(queueing))
            self.base.server.extras.extend((installation.visibility, installation.explanations))
        chosen = spec.operators
        has_programs = bool(spec.nodes) and not spec.is_simulated
        options = OperatorSettings(chosen.gang_scheduler, chosen.features, chosen.switches(), has_programs)
        plugins.extend(set_up_operators(manager, options, self.base.rights.may_create, starts_jobs))
        OperatorInstallations(manager, spec.roles)
        Unattended(manager)
        plugins.append(InstalledAgain(spec.roles))
        self.base.server.answered_here.update(
            each.webhook_service for each in replaced_operators(spec.roles) if each.webhook_service
        )
        self.base.api.posts.update(operator_posts(OperatorContext(manager, options)))
        if HUB in spec.roles:
            from corral.clusters.hub_and_member import set_up_hub

            plugins.extend(set_up_hub(self.base, self._configuration, admit_workloads=not only_hub))
        if MEMBER in spec.roles:
            from corral.clusters.hub_and_member import set_up_membership

            reached_at = self.base.server.url if port else ""
            set_up_membership(self.base, self._configuration, spec.name, entrypoint=reached_at)
        self._agent: NodeAgent | None = None
        nodes = node_specs(spec, self._equipment.labels)
        if nodes:
            runtime = self._make_runtime(fleet, port, network)
            self._agent = NodeAgent(manager.of(identities.NODE_AGENT), nodes, runtime)
            self.base.server.streams = runtime
            if isinstance(runtime, ProcessRuntime):
                self.base.server.extras.append(PodUsage(manager, runtime.connection.runs))
            else:
                self.base.server.extras.append(SimulatedUsage(manager))
        else:
            self.base.server.extras.append(RemoteUsage(lambda: self.base.server.remote_pods))
        if not only_hub:
            Scheduler(manager.of(identities.SCHEDULER))

    def _make_runtime(self, fleet: FleetSpec, port: int, network: str) -> PodRuntime:
        manager = self.base.manager
        if self.spec.is_simulated:
            self.base.server.pod_networks = ()  # simulated pods live nowhere
            return SimulatedRuntime(manager.clock)
        self.base.server.pod_networks = (network,)
        settings = ProcessSettings(
            self._state / "node",
            pod_network=network,
            api_host=fleet.address,
            api_port=str(port),
            catalog=Catalog.load(Path(fleet.images)) if fleet.images else Catalog.load(),
            devices=self._equipment.devices,
            vendors=self._equipment.vendors,
        )
        inputs = ClusterPodInputs(manager.of(identities.NODE_AGENT))
        if self.spec.runtime in ENGINES:
            return EngineRuntime(settings, inputs, manager.clock, Engine.find(self.spec.runtime))
        return ProcessRuntime(settings, inputs, manager.clock)

    @property
    def url(self) -> str:
        return self.base.server.url

    async def start(self) -> None:
        """Serve; controllers run and nodes are registered when this returns."""
        if self._agent is not None:
            await self._agent.open()
        await self.base.start()
        await self._ensure_namespace(KUEUE_NAMESPACE)

    async def stop(self) -> None:
        await self.base.stop()
        if self._agent is not None:
            await self._agent.close()

    async def _ensure_namespace(self, name: str) -> None:
        try:
            await self.base.client.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:
            pass


def _audit_options(spec: ClusterSpec) -> AuditOptions:
    said = spec.audit_log
    if said is None:
        return AuditOptions()
    return AuditOptions(said.max_size << 20, said.max_backups, said.level, said.resources)


def connect(access: Access) -> Client:
    """The client a manager reaches a worker with."""
    # Kubeconfigs with programs to run are refused before; what is left is configured for a ClusterProfile.
    return HttpClient(access, allow_exec=access.exec is not None, user_agent="corral-dispatch")


def node_specs(spec: ClusterSpec, labels: Mapping[str, Mapping[str, str]] | None = None) -> Sequence[NodeSpec]:
    """The virtual nodes a cluster's node groups describe; `labels` are what is known of each beyond that."""
    return [
        NodeSpec(
            name,
            group.capacity(),
            {**(labels or {}).get(name, {}), **group.labels},
            [dict(t) for t in group.taints],
            runtime=spec.runtime if spec.runtime in ENGINES else "corral",
        )
        for group in spec.nodes
        for name in group.names()
    ]
