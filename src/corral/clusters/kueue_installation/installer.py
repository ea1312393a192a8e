"""Queueing the way an installation of Kueue leaves it behind: objects to look at, and a configuration to change.

In the namespace of the installation there are the controller's Deployment, its ConfigMap, its Services, its Lease, and the
ClusterRoles people bind. Editing the ConfigMap and restarting the Deployment (`kubectl rollout restart`) puts the new
configuration in force: the queueing controllers are stopped and started again with it, the API goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

import yaml

from corral.clusters.kueue_installation.controller_pod import OwnPods
from corral.clusters.kueue_installation.lease import OwnLease
from corral.clusters.kueue_installation.objects import CONFIG_KEY, CONFIG_NAME, DEPLOYMENT_NAME, installed_objects
from corral.configuration.part import ConfigurationError
from corral.configuration.queueing import QueueingConfig, load_config
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.queues.explanations import EXPLANATION
from corral.controllers.queueing.queues.visibility import CLUSTER_QUEUE, LOCAL_QUEUE
from corral.controllers.queueing.setup import Queueing
from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Key, Obj, annotations_of, key_of, name_of, namespace_of, spec_of
from corral.core.resource import Resource
from corral.decide.dispatch.reasons import WorkerAnswer
from corral.decide.queueing.explanation import workers_to_obj
from corral.jobs.framework.registry import shipped_frameworks
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.virtual_resources import ExtraRequest
from corral.runtime.controller import Manager, Result, Watch

log = logging.getLogger(__name__)

AskWorkers = Callable[[Key], Awaitable[tuple[WorkerAnswer, ...]]]

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
MANAGER_NAME = "kueue-installation"


class Installation:
    """Queueing that can be configured and restarted through the API."""

    name = MANAGER_NAME

    def __init__(self, manager: Manager, document: Obj | None = None) -> None:
        """Run queueing beside the controllers of `manager`, and watch for a restart."""
        self._outer = manager
        # A document that does not speak of kinds of jobs leaves them as shipped; by itself it would mean batch/job alone.
        self._document = {"integrations": {"frameworks": list(shipped_frameworks())}, **document} if document else {}
        self._config = load_config(self._document) if self._document else QueueingConfig()
        # Where the objects are; a new configuration does not move them.
        self._namespace = self._config.namespace
        self.queueing = Queueing(self._config)
        self.plugins: list[AdmissionPlugin] = [_CurrentPlugins(self)]
        self.visibility = _CurrentVisibility(self)
        self.explanations = _CurrentExplanations(self)
        self._restart = asyncio.Event()
        self._restarted_at: str | None = None
        self._recorder = manager.recorder.named(MANAGER_NAME)
        self._metrics = QueueingMetrics(manager.metrics, local_queues=self._config.local_queue_metrics)
        manager.run_task(self._run, "queueing")
        manager.add(self, watches=[Watch(DEPLOYMENTS, map=self._ours)])
        OwnPods(manager, self._namespace)

    def _ours(self, deployment: Obj) -> Iterable[Key]:
        mine = Key(self._namespace, DEPLOYMENT_NAME)
        return (mine,) if Key(namespace_of(deployment), name_of(deployment)) == mine else ()

    async def reconcile(self, key: Key) -> Result | None:
        """A restart of the Deployment is a restart of ours."""
        deployment = self._outer.informer(DEPLOYMENTS).get(key)
        template = spec_of(deployment or {}).get("template") or {}
        restarted_at = annotations_of(template).get(RESTARTED_AT, "")
        if self._restarted_at is None or deployment is None:
            self._restarted_at = restarted_at if deployment is not None else None
        elif restarted_at != self._restarted_at:
            self._restarted_at = restarted_at
            await self._reconfigure(deployment)
        return None

    async def _reconfigure(self, deployment: Obj) -> None:
        try:
            config_map = await self._outer.client.get(CONFIG_MAPS, CONFIG_NAME, self._namespace)
            document = yaml.safe_load((config_map.get("data") or {}).get(CONFIG_KEY, "")) or {}
            config = load_config(document) if document else QueueingConfig()
        except (ConfigurationError, NotFound, yaml.YAMLError) as error:
            # A wrong file must not stop what works.
            self._recorder.event(deployment, "Warning", "InvalidConfiguration", str(error))
            return
        self._config = config
        self._restart.set()

    async def _run(self) -> None:
        """Queue with the present configuration until it changes, again and again."""
        await self._install()
        first = True
        while True:
            if not first:
                self.queueing = Queueing(self._config)
            first = False
            self._restart.clear()
            outer = self._outer
            inner = Manager(
                outer.client, outer.clock, outer.random, metrics=outer.metrics, private_key=outer.private_key
            )
            self.queueing.setup(inner, self._metrics)
            OwnLease(inner, self._namespace)
            try:
                await inner.start()
                await self._restart.wait()
            finally:
                await inner.stop()
            log.info("queueing restarts with a new configuration")

    async def _install(self) -> None:
        """Create what is missing; what somebody changed is left alone."""
        document = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "integrations": {"frameworks": list(self._config.frameworks)},
            **self._document,
        }
        for resource, obj in installed_objects(self._namespace, document):
            await self._ensure(resource, obj)

    async def _ensure(self, resource: Resource, obj: Obj) -> None:
        try:
            await self._outer.client.create(resource, obj, manager=MANAGER_NAME)
        except AlreadyExists:
            pass


class _CurrentPlugins:
    """The plug-ins of whatever configuration is in force."""

    name = "Queueing"

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def handles(self, request: AdmissionRequest) -> bool:
        return any(plugin.handles(request) for plugin in self._installation.queueing.plugins)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        for plugin in self._installation.queueing.plugins:
            if plugin.handles(request):
                changed = await plugin.mutate(request)
                if changed is not request.obj:
                    request = replace(request, obj=changed)
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._installation.queueing.plugins:
            if plugin.handles(request):
                await plugin.validate(request)


class _CurrentVisibility:
    """The visibility API of whatever configuration is in force."""

    kinds: Sequence[KindDef] = (CLUSTER_QUEUE, LOCAL_QUEUE)

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    async def get(self, request: ExtraRequest) -> Obj:
        return await self._installation.queueing.visibility.get(request)

    async def list(self, request: ExtraRequest) -> list[Obj]:
        return await self._installation.queueing.visibility.list(request)


class _CurrentExplanations:
    """Why Workloads wait in whatever configuration is in force; of one Workload on a manager, what the workers say too."""

    kinds: Sequence[KindDef] = (EXPLANATION,)

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.ask_workers: AskWorkers | None = None

    async def get(self, request: ExtraRequest) -> Obj:
        return await self._with_workers(await self._installation.queueing.explanations.get(request))

    async def list(self, request: ExtraRequest) -> list[Obj]:
        found = await self._installation.queueing.explanations.list(request)
        return [await self._with_workers(one) for one in found] if len(found) == 1 else found

    async def _with_workers(self, explanation: Obj) -> Obj:
        if self.ask_workers is None:
            return explanation
        return {**explanation, "workers": workers_to_obj(await self.ask_workers(key_of(explanation)))}
