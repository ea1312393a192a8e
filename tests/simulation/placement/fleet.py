"""A whole placement fleet on virtual time: a hub, members with their agents, queues and simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from corral.configuration.member import MemberSettings
from corral.configuration.placement import PlacementSettings
from corral.controllers.member import set_up_member
from corral.controllers.member.discovery import in_registry
from corral.controllers.placement import set_up_placement
from corral.core.meta import Obj, labels_of, name_of, status_of
from corral.jobs.framework.served_kinds import full_registry
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS, RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.node.node import NodeSpec
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.server.lifecycle import set_up_lifecycle
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.link import LinkClient, LinkState
from corral.testing.cluster import VirtualCluster

GUIDE = Path(__file__).parents[3] / "examples" / "fleet-kueue"
SIZES = {"cluster-1": ("8", "32Gi"), "cluster-2": ("12", "24Gi"), "cluster-3": ("16", "64Gi")}


class PlacementFleet:
    """A hub and three members of the recorded sizes; `links` are the members' ways to the hub."""

    def __init__(
        self,
        member: MemberSettings | None = None,
        hub: PlacementSettings | None = None,
        sizes: Mapping[str, tuple[str, str]] = SIZES,
    ) -> None:
        self.hub = VirtualCluster([self._set_up_hub], name="hub")
        self._settings = hub
        self._member = member or MemberSettings()
        self.links = {name: LinkState() for name in sizes}
        self.members = {name: self._cluster(name, *size) for name, size in sizes.items()}
        self.registry = full_registry()

    def _set_up_hub(self, manager: Manager) -> None:
        self.hub.api.chain.plugins.extend(set_up_placement(manager, self._settings))

    def _cluster(self, name: str, cpu: str, memory: str) -> SimulatedCluster:
        def agent(manager: Manager) -> None:
            hub = LinkClient(lambda: self.hub.client, self.links[name], self.hub.clock, "hub")
            set_up_member(manager, hub, name, self._member, in_registry(self.registry))

        node = NodeSpec(f"{name}-node", {"cpu": cpu, "memory": memory, "pods": "110"})
        return SimulatedCluster(name, nodes=[node], extra=[agent])

    async def __aenter__(self) -> Self:
        await self.hub.__aenter__()
        for name, member in self.members.items():
            await member.start()
            identity = {"kind": "ServiceAccount", "name": name, "namespace": "fleet-system"}
            spec = {"identity": identity, "heartbeatPeriodSeconds": 15}
            await self.hub.client.create(MEMBER_CLUSTERS, {"metadata": {"name": name}, "spec": spec})
        await asyncio.sleep(1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members.values():
            await member.stop()
        await self.hub.__aexit__(kind, error, trace)

    async def restart_hub(self) -> None:
        """Kill the hub's controllers and start them again on what is stored."""
        await self.hub.manager.stop()
        self.hub.manager = Manager(self.hub.client, self.hub.clock, self.hub.random)
        set_up_lifecycle(self.hub.api, self.hub.manager)
        set_up_placement(self.hub.manager, self._settings)
        await self.hub.manager.start()

    async def apply(self, number: int, change: Callable[[Obj], Obj] = lambda obj: obj) -> None:
        """Apply one manifest of the guide to the hub."""
        (path,) = GUIDE.glob(f"{number:02d}-*.yaml")
        obj = change(yaml.safe_load(path.read_text()))
        group, _, version = obj["apiVersion"].rpartition("/")
        kind = self.registry.by_kind(group, obj["kind"])
        assert kind is not None
        await self.hub.client.create(kind.resource(version), obj, manager="kubectl-client-side-apply")

    async def placement(self, name: str, namespace: str = "") -> Obj:
        resource = RESOURCE_PLACEMENTS if namespace else CLUSTER_RESOURCE_PLACEMENTS
        return await self.hub.client.get(resource, name, namespace)

    async def events(self, name: str) -> list[str]:
        """Reasons of the events about a placement, in order."""
        found = [one for one in (await self.hub.client.list(EVENTS)).items if one["involvedObject"]["name"] == name]
        return [one["reason"] for one in sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))]


def on_fleet(
    scenario: Callable[[PlacementFleet], Awaitable[None]],
    member: MemberSettings | None = None,
    hub: PlacementSettings | None = None,
) -> None:
    """Run a scenario on a fleet of its own."""

    async def main() -> None:
        async with PlacementFleet(member, hub) as fleet:
            await scenario(fleet)

    run_virtual(main)


def conditions(status: Obj) -> list[tuple[str, str, str]]:
    """Type, status and reason of conditions, in order."""
    return [(one["type"], one["status"], one["reason"]) for one in status.get("conditions") or ()]


__all__ = ["GUIDE", "PlacementFleet", "conditions", "labels_of", "name_of", "on_fleet", "status_of"]
