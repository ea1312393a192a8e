"""A hub with scripted Works and one member with its agent, in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from corral.client.protocol import Client
from corral.configuration.member import MemberSettings
from corral.controllers.member import set_up_member
from corral.controllers.member.discovery import in_registry
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, status_of
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import full_registry
from corral.kinds.fleet import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.simulate.link import LinkClient, LinkState
from corral.testing import VirtualCluster

MEMBER = "cluster-1"
NAMESPACE = f"fleet-member-{MEMBER}"
SetUp = Callable[[Manager], object]


class MemberWorld:
    """A hub, a member called `cluster-1`, and the link between them."""

    def __init__(
        self,
        settings: MemberSettings | None = None,
        *,
        heartbeat: int = 60,
        extra: Sequence[SetUp] = (),
        unserved: Sequence[str] = (),
    ) -> None:
        self.settings = settings or MemberSettings()
        self.heartbeat = heartbeat
        self.hub = VirtualCluster(name="hub")
        self.registry = full_registry()
        self.unserved = unserved
        self.extra = extra
        self.link = LinkState()
        self.member = self._cluster()

    def _cluster(self) -> VirtualCluster:
        return VirtualCluster(
            [*self.extra, self._agent], name=MEMBER, registry=self.registry, namespaces=("default", "kube-system", "ns")
        )

    def _agent(self, manager: Manager) -> None:
        hub: Client = LinkClient(lambda: self.hub.client, self.link, self.hub.clock, "hub")
        set_up_member(manager, hub, MEMBER, self.settings, self._discover)

    async def _discover(self, group: str, version: str, kind: str) -> Resource | None:
        return None if kind in self.unserved else await in_registry(self.registry)(group, version, kind)

    async def __aenter__(self) -> Self:
        await self.hub.__aenter__()
        await self.hub.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await self.member.__aenter__()
        await self.set_state("Join")
        await asyncio.sleep(0.5)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.member.__aexit__(kind, error, trace)
        await self.hub.__aexit__(kind, error, trace)

    async def set_state(self, state: str) -> None:
        spec = {"state": state, "heartbeatPeriodSeconds": self.heartbeat}
        try:
            await self.hub.client.patch(INTERNAL_MEMBER_CLUSTERS, MEMBER, NAMESPACE, {"spec": spec})
        except NotFound:
            body = {"metadata": {"name": MEMBER, "namespace": NAMESPACE}, "spec": spec}
            await self.hub.client.create(INTERNAL_MEMBER_CLUSTERS, body)

    async def restart_agent(self) -> None:
        """Kill the agent and everything else that runs in the member; its API keeps what it stored."""
        await self.member.manager.stop()
        manager = Manager(self.member.client, self.member.clock, self.member.random)
        self.member.manager = manager
        for register in (*self.extra, self._agent):
            register(manager)
        await manager.start()

    async def send(self, *manifests: Obj, name: str = "w", strategy: Obj | None = None, **more: Any) -> Obj:
        """Create or change a Work, and let the member act on it."""
        spec: Obj = {"workload": {"manifests": list(manifests)}, "applyStrategy": strategy or {}, **more}
        try:
            work = await self.hub.client.get(WORKS, name, NAMESPACE)
            await self.hub.client.update(WORKS, {**work, "spec": spec})
        except NotFound:
            await self.hub.client.create(WORKS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        await asyncio.sleep(0.5)
        return await self.work(name)

    async def work(self, name: str = "w") -> Obj:
        return await self.hub.client.get(WORKS, name, NAMESPACE)

    async def applied(self, name: str = "w") -> Obj:
        return await self.member.client.get(APPLIED_WORKS, name)

    async def cluster(self) -> Obj:
        return await self.hub.client.get(INTERNAL_MEMBER_CLUSTERS, MEMBER, NAMESPACE)

    async def live(self, name: str = "conf", resource: Resource = CONFIG_MAPS, namespace: str = "ns") -> Obj | None:
        try:
            return await self.member.client.get(resource, name, namespace if resource.namespaced else "")
        except NotFound:
            return None

    async def edit(self, patch: Obj, name: str = "conf", resource: Resource = CONFIG_MAPS) -> None:
        """Somebody on the member changes an object."""
        await self.member.client.patch(resource, name, "ns", patch, manager="someone")


def in_world(
    test: Callable[[MemberWorld], Awaitable[None]], settings: MemberSettings | None = None, **more: Any
) -> None:
    """Run a test in a world of its own."""

    async def main() -> None:
        async with MemberWorld(settings, **more) as world:
            await test(world)

    run_virtual(main)


def config_map(name: str = "conf", **data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns"},
        "data": data or {"a": "1", "b": "2"},
    }


def reasons(work: Obj) -> dict[str, tuple[str, str]]:
    """The conditions of a Work: (status, reason) by type."""
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in status_of(work).get("conditions") or ()}


def told(work: Obj, ordinal: int = 0) -> Obj:
    """What a Work's status says about one manifest."""
    entry: Obj = status_of(work)["manifestConditions"][ordinal]
    return entry


def about(work: Obj, kind: str = "Applied", ordinal: int = 0) -> tuple[str, str, str]:
    """Status, reason and message of one condition of one manifest."""
    entry = next(one for one in told(work, ordinal)["conditions"] if one["type"] == kind)
    return entry["status"], entry["reason"], entry["message"]


__all__ = ["MEMBER", "NAMESPACE", "Key", "MemberWorld", "about", "config_map", "in_world", "reasons", "told"]
