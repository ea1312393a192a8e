"""The property provider: counts nodes, pods and queues of the member from caches, not by listing them each time."""

from __future__ import annotations

from corral.controllers.member.discovery import Discover
from corral.core.meta import Obj
from corral.decide.member.properties import node_count, own_properties, usage_of
from corral.kinds.core import NODES, PODS
from corral.kinds.kueue import CLUSTER_QUEUES
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer


class PropertyProvider:
    """What the member says about itself with each heartbeat."""

    def __init__(self, manager: Manager, discover: Discover, *, own: bool) -> None:
        self._nodes = manager.informer(NODES)
        self._pods = manager.informer(PODS)
        self._manager = manager
        self._discover = discover
        self._own = own
        self._queues: Informer | None = None

    async def collect(self, now: str) -> tuple[Obj, Obj]:
        """Properties and resource usage, both as the status of a member has them."""
        await self._nodes.synced()
        await self._pods.synced()
        nodes, pods = self._nodes.list(), self._pods.list()
        values = node_count(nodes)
        if self._own:
            values |= own_properties(nodes, pods, await self._cluster_queues())
        properties = {name: {"value": value, "observationTime": now} for name, value in values.items()}
        return properties, {**usage_of(nodes, pods, extended=self._own), "observationTime": now}

    async def _cluster_queues(self) -> list[Obj]:
        """The member's queues, once it has any kind of that name."""
        if self._queues is None:
            found = await self._discover(CLUSTER_QUEUES.group, CLUSTER_QUEUES.version, CLUSTER_QUEUES.kind)
            if found is None:
                return []
            self._queues = self._manager.informer(CLUSTER_QUEUES)
            await self._queues.synced()
        return self._queues.list()
