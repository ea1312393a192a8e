"""Queueing the way an installation of Kueue leaves it behind: objects to look at, and a configuration to change.

In the namespace of the installation there are the controller's Deployment, its ConfigMap, its Services, its Lease, and the
ClusterRoles people bind. Editing the ConfigMap and restarting the Deployment (`kubectl rollout restart`) puts the new
configuration in force: the queueing controllers, and those beside them, are stopped and started again with it, the API goes on
meanwhile. An edited ConfigMap also outlives the process: what the cluster is started with holds for as long as nobody edits it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import yaml

from corral.clusters import identities
from corral.clusters.current_plugins import CurrentPlugins
from corral.clusters.kueue_installation.controller_pod import OwnPods
from corral.clusters.kueue_installation.lease import OwnLease
from corral.clusters.kueue_installation.objects import (
    CONFIG_KEY,
    CONFIG_NAME,
    DEPLOYMENT_NAME,
    MANAGER_NAME,
    configuration_data,
    installed_objects,
    is_edited,
    restart_of,
)
from corral.configuration.document import unheeded_settings
from corral.configuration.part import ConfigurationError
from corral.configuration.queueing import QueueingConfig, load_config
from corral.controllers.queueing.queues.explanations import EXPLANATION
from corral.controllers.queueing.queues.visibility import CLUSTER_QUEUE, LOCAL_QUEUE, Visibility
from corral.controllers.queueing.setup import Queueing, metrics_of
from corral.core import yaml_documents
from corral.core.admission import AdmissionPlugin
from corral.core.errors import AlreadyExists, NotFound
from corral.core.identity import Identity
from corral.core.meta import Key, Obj, key_of, name_of, namespace_of, spec_of
from corral.core.patch.apply import STAND_IN
from corral.core.resource import Resource
from corral.decide.dispatch.reasons import WorkerAnswer
from corral.decide.queueing.explanation import workers_to_obj
from corral.jobs.framework.registry import shipped_frameworks
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.virtual_resources import ExtraRequest
from corral.runtime.controller import Manager, Result, Watch
from corral.server.lifecycle.notices import SETTINGS, keep_notices

log = logging.getLogger(__name__)

AskWorkers = Callable[[Key], Awaitable[tuple[WorkerAnswer, ...]]]

RETRY_S = 10.0
"""How soon a configuration that could not be used is read again."""


class Part(Protocol):
    """Controllers that are configured and restarted together with queueing."""

    def check(self, document: Obj) -> None:
        """Raises ConfigurationError when it cannot run with this configuration."""
        ...

    def identity(self, document: Obj) -> Identity:
        """Who they act as with this configuration."""
        ...

    def set_up(self, manager: Manager, document: Obj) -> None:
        """Register everything anew with a manager of that identity that is not started yet."""
        ...

    async def close(self) -> None:
        """The manager has stopped."""
        ...


class Installation:
    """Queueing that can be configured and restarted through the API."""

    name = MANAGER_NAME

    def __init__(self, manager: Manager, document: Obj | None = None, parts: Sequence[Part] = ()) -> None:
        """Run queueing and `parts` beside the controllers of `manager`, and watch for a restart."""
        self._parts = parts
        # A document that does not speak of kinds of jobs leaves them as shipped; by itself it would mean batch/job alone.
        self._document: Obj = (
            {"integrations": {"frameworks": list(shipped_frameworks())}, **document} if document else {}
        )
        self._config = load_config(self._document) if self._document else QueueingConfig()
        # Where the objects are; a new configuration does not move them.
        self._namespace = self._config.namespace
        manager = self._outer = manager.of(identities.installation(self._namespace))
        self.queueing = Queueing(self._config)
        self.plugins: list[AdmissionPlugin] = [CurrentPlugins("Queueing", lambda: self.queueing.plugins)]
        self.visibility = _CurrentVisibility(self)
        self.explanations = _CurrentExplanations(self)
        self.configured: Callable[[Obj], None] = lambda document: None
        """Told of each configuration as it comes into force."""
        self._restart = asyncio.Event()
        self._wanted: str | None = None
        self._in_force: str | None = None
        self._recorder = manager.recorder.named(MANAGER_NAME)
        self._metrics = metrics_of(manager, self._config)
        manager.run_task(self._run, "queueing")
        manager.add(self, watches=[Watch(DEPLOYMENTS, map=self._ours)])
        self._pods = OwnPods(manager, self._namespace, lambda: self._in_force)

    def _ours(self, deployment: Obj) -> Iterable[Key]:
        mine = Key(self._namespace, DEPLOYMENT_NAME)
        return (mine,) if Key(namespace_of(deployment), name_of(deployment)) == mine else ()

    async def reconcile(self, key: Key) -> Result | None:
        """A restart of the Deployment is a restart of ours."""
        deployment = self._outer.informer(DEPLOYMENTS).get(key)
        if deployment is None or self._wanted is None:
            return None
        restart = _restart_wanted(deployment)
        if restart == self._wanted:
            return None
        if not await self._reconfigure(deployment):
            return Result(RETRY_S)
        self._wanted = restart
        self._restart.set()
        return None

    async def _reconfigure(self, deployment: Obj) -> bool:
        """Take over what the ConfigMap says; False when it is of no use."""
        try:
            config_map = await self._outer.client.get(CONFIG_MAPS, CONFIG_NAME, self._namespace)
            document = yaml_documents.load((config_map.get("data") or {}).get(CONFIG_KEY, "")) or {}
            config = load_config(document) if document else QueueingConfig()
            for part in self._parts:
                part.check(document)
        except (ConfigurationError, NotFound, yaml.YAMLError, ValueError) as error:
            # A wrong file must not stop what works.
            self._recorder.event(deployment, "Warning", "InvalidConfiguration", str(error))
            return False
        self._config, self._document = config, document
        return True

    async def _run(self) -> None:
        """Queue with the present configuration until it changes, again and again."""
        await self._begin()
        while True:
            self._restart.clear()
            restart, inner = self._wanted, self._outer.beside()
            self.queueing = Queueing(self._config)
            self.configured(self._document)
            self._configure_metrics()
            queueing = await inner.acting_for(identities.queueing(self._config))
            self.queueing.setup(queueing, self._metrics)
            OwnLease(queueing, self._namespace, restart or "")
            for part in self._parts:
                part.set_up(await inner.acting_for(part.identity(self._document)), self._document)
            try:
                await inner.start()
                self._show(restart)
                await self._tell_unheeded()
                await self._restart.wait()
            finally:
                self._show(None)
                await inner.stop()
                for part in self._parts:
                    await part.close()
            log.info("queueing restarts with a new configuration")

    def _configure_metrics(self) -> None:
        """What was counted goes on over a restart, unless series have other labels now."""
        self._metrics.local_queues = self._config.local_queue_metrics
        if self._metrics.custom.labels != self._config.custom_labels:
            self._metrics.close()
            self._metrics = metrics_of(self._outer, self._config)

    def _show(self, restart: str | None) -> None:
        """The pods of this restart stand for controllers that run now."""
        self._in_force = restart
        self._pods.wake()

    async def _begin(self) -> None:
        """Find out what to run with: a ConfigMap that somebody edited, else what the cluster is started with."""
        await self._install()
        client = self._outer.client
        deployment = await client.get(DEPLOYMENTS, DEPLOYMENT_NAME, self._namespace)
        config_map = await client.get(CONFIG_MAPS, CONFIG_NAME, self._namespace)
        wanted = configuration_data(self._installed_document())
        if is_edited(config_map):
            started_with = self._document
            if await self._reconfigure(deployment) and started_with:
                text = f"The edited ConfigMap {CONFIG_NAME} is in force, not what this cluster was started with"
                self._recorder.event(deployment, "Normal", "EditedConfiguration", text)
        elif config_map.get("data") != wanted:
            await client.update(CONFIG_MAPS, {**config_map, "data": wanted}, manager=STAND_IN)
        self._wanted = _restart_wanted(deployment)

    async def _tell_unheeded(self) -> None:
        """Say which settings in force change nothing."""
        sentences = unheeded_settings(self._document)
        await keep_notices(self._outer.client, SETTINGS, sentences)
        if sentences:
            deployment = await self._outer.client.get(DEPLOYMENTS, DEPLOYMENT_NAME, self._namespace)
            for sentence in sentences:
                self._recorder.event(deployment, "Warning", "NoEffect", sentence)

    def _installed_document(self) -> Obj:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "integrations": {"frameworks": list(self._config.frameworks)},
            **self._document,
        }

    async def _install(self) -> None:
        """Create what is missing; what somebody changed is left alone."""
        for resource, obj in installed_objects(self._namespace, self._installed_document()):
            await self._ensure(resource, obj)

    async def _ensure(self, resource: Resource, obj: Obj) -> None:
        try:
            await self._outer.client.create(resource, obj, manager=STAND_IN)
        except AlreadyExists:
            pass


def _restart_wanted(deployment: Obj) -> str:
    return restart_of(spec_of(deployment).get("template") or {})


class _CurrentVisibility:
    """The visibility API of whatever configuration is in force."""

    kinds: Sequence[KindDef] = (CLUSTER_QUEUE, LOCAL_QUEUE)

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    async def get(self, request: ExtraRequest) -> Obj:
        return await self._open().get(request)

    async def list(self, request: ExtraRequest) -> list[Obj]:
        return await self._open().list(request)

    def _open(self) -> Visibility:
        queueing = self._installation.queueing
        if not queueing.config.gates["VisibilityOnDemand"]:
            raise NotFound("the server could not find the requested resource: the gate VisibilityOnDemand is off")
        return queueing.visibility


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
