"""The property provider: counts nodes, pods, queues and namespaces of the member from caches, not by listing them."""

from __future__ import annotations

from dataclasses import dataclass

from corral.configuration.member import MemberSettings
from corral.controllers.member.discovery import Discover
from corral.core.meta import Obj
from corral.decide.member.properties import (
    azure_properties,
    cost_condition,
    node_count,
    own_properties,
    placed_namespaces,
    provider_conditions,
    usage_of,
)
from corral.kinds.fleet.names import CLUSTER_AUTHORITY, CLUSTER_ENTRYPOINT, K8S_VERSION
from corral.kinds.kubernetes.core.kinds import NAMESPACES, NODES, PODS
from corral.kinds.kueue import CLUSTER_QUEUES
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer

VERSION_FOR_S = 900.0


@dataclass(frozen=True, slots=True)
class Properties:
    """What a heartbeat carries, as the status of a member has it. `namespaces` is None when nobody asked for them."""

    properties: Obj
    usage: Obj
    namespaces: dict[str, str] | None
    conditions: list[Obj]
    keep_conditions: bool = False
    """Whether what an earlier provider said of itself stays, as upstream lets it."""


class PropertyProvider:
    """What the member says about itself with each heartbeat."""

    def __init__(self, manager: Manager, discover: Discover, settings: MemberSettings) -> None:
        self._nodes = manager.informer(NODES)
        self._pods = manager.informer(PODS)
        self._manager = manager
        self._discover = discover
        self._settings = settings
        self._queues: Informer | None = None
        self._version = ("", 0.0)

    async def collect(self, now: str) -> Properties:
        await self._nodes.synced()
        await self._pods.synced()
        nodes, pods = self._nodes.list(), self._pods.list()
        values = node_count(nodes)
        own = self._settings.own_properties
        if own:
            values |= own_properties(nodes, pods, await self._cluster_queues())
        reported: list[Obj] = []
        namespaces: dict[str, str] | None = None
        settings = self._settings
        if settings.collect_namespaces:
            found = self._manager.informer(NAMESPACES)
            await found.synced()
            namespaces = placed_namespaces(found.list())
        if settings.collect_namespaces or settings.azure or settings.entrypoint:
            values |= await self._about_the_api()
            reported = provider_conditions(None if namespaces is None else len(self._manager.informer(NAMESPACES)))
        if settings.azure:
            values |= azure_properties(nodes, costs=settings.azure_costs)
            reported += [cost_condition(nodes)] if settings.azure_costs else []
        properties = {name: {"value": value, "observationTime": now} for name, value in values.items()}
        usage = usage_of(nodes, pods, extended=own)
        if not settings.azure:
            usage["observationTime"] = now
        return Properties(properties, usage, namespaces, reported, keep_conditions=settings.keep_defects)

    async def _about_the_api(self) -> dict[str, str]:
        """How others can reach the member's API, and its version."""
        settings = self._settings
        reported = {
            K8S_VERSION: await self._server_version(),
            CLUSTER_ENTRYPOINT: settings.entrypoint,
            CLUSTER_AUTHORITY: settings.authority,
        }
        return {name: value for name, value in reported.items() if value}

    async def _server_version(self) -> str:
        """The version of the member's API, asked for every quarter of an hour."""
        version, until = self._version
        if self._manager.clock.monotonic() >= until:
            version = str((await self._manager.client.raw("GET", "/version")).get("gitVersion") or "")
            self._version = (version, self._manager.clock.monotonic() + VERSION_FOR_S)
        return version

    async def _cluster_queues(self) -> list[Obj]:
        """The member's queues, once it has any kind of that name."""
        if self._queues is None:
            found = await self._discover(CLUSTER_QUEUES.group, CLUSTER_QUEUES.version, CLUSTER_QUEUES.kind)
            if found is None:
                return []
            self._queues = self._manager.informer(CLUSTER_QUEUES)
            await self._queues.synced()
        return self._queues.list()
