"""What answers reviews under one configuration: plug-ins, the caches they read, and the visibility API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.client.protocol import Client
from corral.clusters.access_reviews import ReviewedRights
from corral.clusters.webhooks.aggregated_api import AggregatedApi
from corral.clusters.webhooks.cached_reader import CachedReader
from corral.clusters.webhooks.front_proxy import FrontProxy
from corral.configuration.placement import placement_settings
from corral.configuration.queueing import QueueingConfig, load_config
from corral.controllers.placement import placement_plugins
from corral.controllers.placement.catalog import Catalog
from corral.controllers.queueing.setup import may_be_missing, queueing_plugins, set_up_visibility
from corral.core.admission import AdmissionPlugin
from corral.core.meta import Obj
from corral.runtime.clock import Clock
from corral.runtime.controller import Manager
from corral.runtime.random import Random
from corral.server.admission.chain import Chain


class Answering:
    """Another configuration takes another one: it answers about what is queued, what a hub places, or both. `start` returns when
    everything is in sync."""

    def __init__(
        self,
        client: Client,
        configuration: Obj,
        clock: Clock,
        random: Random,
        front_proxy: Callable[[], FrontProxy],
        *,
        queues: bool = True,
        places: bool = False,
    ) -> None:
        self._client, self._clock, self._random = client, clock, random
        self._manager = Manager(client, clock, random)
        self._manager.do_without(may_be_missing)
        self.aggregated: AggregatedApi | None = None
        self.config: QueueingConfig | None = None
        self.plugins: Sequence[AdmissionPlugin] = ()
        self.hub_plugins: Sequence[AdmissionPlugin] = ()
        if queues:
            self.config = load_config(configuration) if configuration else QueueingConfig()
            self._answer_about_queues(self.config, front_proxy)
        if places:
            self._answer_about_placements(configuration)
        self.chain = Chain([*self.plugins, *self.hub_plugins])

    def _answer_about_queues(self, config: QueueingConfig, front_proxy: Callable[[], FrontProxy]) -> None:
        if config.gates["VisibilityOnDemand"]:
            visibility = set_up_visibility(self._manager, config)
            self.aggregated = AggregatedApi(self._client, self._clock, self._random, [visibility], front_proxy)
        self.plugins = queueing_plugins(config, CachedReader(self._manager))

    def _answer_about_placements(self, configuration: Obj) -> None:
        """A real cluster that became a hub runs other things too: pods are refused there only where the configuration says so. The
        guard rail would have to be asked about everything in Kubernetes' own namespaces, which webhooks must not be."""
        settings = replace(placement_settings(configuration, admit_workloads=True), guard_rail=False)
        catalog = Catalog(self._manager)
        rights = ReviewedRights(self._client, catalog.find)
        self.hub_plugins = placement_plugins(self._client, catalog, settings, rights)

    async def start(self) -> None:
        await self._manager.start()

    async def stop(self) -> None:
        await self._manager.stop()
