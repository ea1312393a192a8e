"""The controllers of a hub over a real Kubernetes: members join there, and what is placed is selected from its objects.

What an embedded hub checks on admission webhooks check there, from the same plug-ins (`clusters.webhooks`); without them nobody
checks more than the schemas say."""

from __future__ import annotations

import logging

from corral.client.protocol import Client
from corral.configuration.placement import placement_settings
from corral.controllers.placement import set_up_placement
from corral.core.meta import Obj
from corral.runtime.clock import Clock, WallClock
from corral.runtime.controller import Manager
from corral.runtime.metrics import Metrics
from corral.runtime.random import Random

log = logging.getLogger(__name__)


class HubCluster:
    """The hub of a fleet; admission is the business of webhooks."""

    def __init__(
        self, client: Client, configuration: Obj, *, clock: Clock | None = None, metrics: Metrics | None = None
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._clock = clock or WallClock()
        self._metrics = metrics
        self._manager: Manager | None = None

    async def start(self) -> None:
        """Watch and act until stopped."""
        manager = Manager(self._client, self._clock, Random(), metrics=self._metrics)
        settings = placement_settings(self._configuration)
        if settings.guard_rail:
            log.warning(
                "placement.enableGuardRail has no effect on a real cluster: let its roles guard what a fleet is made of"
            )
        set_up_placement(manager, settings)
        self._manager = manager
        await manager.start()

    async def stop(self) -> None:
        if self._manager is not None:
            await self._manager.stop()
            self._manager = None
