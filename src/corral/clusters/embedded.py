"""A whole embedded cluster in one process: API server, operators, nodes, and the controllers its roles ask for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from corral.client.http import HttpClient
from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.kueue_installation.installer import Installation
from corral.clusters.operators import operator_posts, set_up_operators
from corral.configuration.dispatch import dispatch_settings
from corral.configuration.fleet import HUB, MANAGER, MEMBER, WORKER, ClusterSpec, FleetSpec, configuration_of
from corral.configuration.job_kinds import jobs_to_dispatch
from corral.controllers.dispatch import set_up_dispatch, set_up_remote_pods
from corral.controllers.dispatch.copies.worker_answers import WorkerAnswers
from corral.controllers.dispatch.remote_pods.kept_files import KeptFiles
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.controllers.dispatch.workers.fencing import Fence
from corral.controllers.dispatch.workers.remotes import Remotes
from corral.core.errors import AlreadyExists
from corral.jobs.framework.operators import OperatorContext, OperatorSettings
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.node.agent import NodeAgent
from corral.node.images import Catalog
from corral.node.node import NodeSpec
from corral.node.pod_inputs import ClusterPodInputs
from corral.node.process.runtime import ProcessRuntime, ProcessSettings
from corral.node.runtime import PodRuntime
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.node.usage import PodUsage, SimulatedUsage
from corral.server.pods.remote_usage import RemoteUsage

log = logging.getLogger(__name__)

KUEUE_NAMESPACE = "kueue-system"
KEPT_LOGS = "kept-logs"
"""Where a manager keeps the logs of finished jobs, beside its journal."""


class EmbeddedCluster:
    """One cluster of a fleet. Start it, serve, stop it; its state stays in `state`. `network` is for its pods and Services."""

    def __init__(self, fleet: FleetSpec, spec: ClusterSpec, state: Path, port: int, network: str) -> None:
        self.spec = spec
        self._state = state
        self.base = EmbeddedApi(state, name=f"corral-{spec.name}", host=fleet.address, port=port)
        manager = self.base.manager
        self._configuration = configuration_of(spec)
        plugins = self.base.api.chain.plugins
        only_hub = HUB in spec.roles and not {MANAGER, WORKER} & set(spec.roles)
        if not only_hub:
            # A hub's queues are for its members: to the hub itself they are only objects.
            installation = Installation(manager, self._configuration)
            plugins.extend(installation.plugins)
            Fence(manager)
            self.base.server.extras.extend((installation.visibility, installation.explanations))
        chosen = spec.operators
        options = OperatorSettings(chosen.gang_scheduler, chosen.features, chosen.switches())
        plugins.extend(set_up_operators(manager, options, self.base.rights.may_create, self.base.act_as))
        self.base.api.posts.update(operator_posts(OperatorContext(manager, options)))
        if HUB in spec.roles:
            from corral.clusters.hub_and_member import set_up_hub

            plugins.extend(set_up_hub(self.base, self._configuration, admit_workloads=not only_hub))
        self._remotes: Remotes | None = None
        if MANAGER in spec.roles:
            settings_of_dispatch, known = dispatch_settings(self._configuration), jobs_to_dispatch(self._configuration)
            kept = KeptPods(
                manager.clock,
                settings_of_dispatch.origin,
                settings_of_dispatch.keep_logs,
                settings_of_dispatch.keep_logs_for,
                KeptFiles(state / KEPT_LOGS),
            )
            answers = WorkerAnswers()
            self._remotes = set_up_dispatch(manager, settings_of_dispatch, connect, known, kept, answers)
            if not only_hub:
                installation.explanations.ask_workers = answers.of
            self.base.server.remote_pods = set_up_remote_pods(
                manager, settings_of_dispatch, self._remotes, known, lambda: self.base.store.revision, kept
            )
        if MEMBER in spec.roles:
            from corral.clusters.hub_and_member import set_up_membership

            reached_at = self.base.server.url if port else ""
            set_up_membership(self.base, self._configuration, spec.name, entrypoint=reached_at)
        self._agent: NodeAgent | None = None
        nodes = node_specs(spec)
        if nodes:
            runtime = self._make_runtime(fleet, port, network)
            self._agent = NodeAgent(manager, nodes, runtime)
            self.base.server.streams = runtime
            if isinstance(runtime, ProcessRuntime):
                self.base.server.extras.append(PodUsage(manager, runtime.connection.runs))
            else:
                self.base.server.extras.append(SimulatedUsage(manager))
        else:
            self.base.server.extras.append(RemoteUsage(lambda: self.base.server.remote_pods))
        if not only_hub:
            Scheduler(manager)

    def _make_runtime(self, fleet: FleetSpec, port: int, network: str) -> PodRuntime:
        manager = self.base.manager
        if self.spec.runtime == "simulated":
            self.base.server.pod_networks = ()  # simulated pods live nowhere
            return SimulatedRuntime(manager.clock)
        self.base.server.pod_networks = (network,)
        settings = ProcessSettings(
            self._state / "node",
            pod_network=network,
            api_host=fleet.address,
            api_port=str(port),
            catalog=Catalog.load(Path(fleet.images)) if fleet.images else Catalog.load(),
        )
        return ProcessRuntime(settings, ClusterPodInputs(manager), manager.clock)

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
        if self._remotes is not None:
            await self._remotes.close()
        if self._agent is not None:
            await self._agent.close()

    async def _ensure_namespace(self, name: str) -> None:
        try:
            await self.base.client.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:
            pass


def connect(access: Access) -> Client:
    """The client a manager reaches a worker with."""
    # Kubeconfigs with programs to run are refused before; what is left is configured for a ClusterProfile.
    return HttpClient(access, allow_exec=access.exec is not None, user_agent="corral-dispatch")


def node_specs(spec: ClusterSpec) -> Sequence[NodeSpec]:
    """The virtual nodes a cluster's node groups describe."""
    nodes = []
    for group in spec.nodes:
        for number in range(1, group.count + 1):
            capacity = {
                "cpu": str(group.cpu),
                "memory": group.memory,
                "pods": str(group.pods),
                **{resource: str(amount) for resource, amount in group.resources.items()},
            }
            name = group.name.replace("{i}", str(number))
            if group.count > 1 and "{i}" not in group.name:
                name = f"{group.name}{number}"
            nodes.append(NodeSpec(name, capacity, group.labels, [dict(taint) for taint in group.taints]))
    return nodes
