"""A hub and three members with their agents, sized as in the recordings, in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from corral.client.protocol import Client
from corral.controllers.member import set_up_member
from corral.controllers.member.discovery import in_registry
from corral.controllers.member.settings import MemberSettings
from corral.controllers.placement import set_up_placement
from corral.controllers.placement.settings import PlacementSettings
from corral.core.conditions import is_true
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Key, Obj, annotations_of, key_of, spec_of
from corral.core.resource import Resource
from corral.kinds import fleet
from corral.kinds.batch import JOBS
from corral.kinds.core import CONFIG_MAPS, EVENTS, NAMESPACES, SECRETS, SERVICES
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.operators.setup import set_up_operators
from corral.runtime.controller import Manager
from corral.testing.cluster import VirtualCluster

QUEUE = "kueue.x-k8s.io/queue-name"
MEMBERS: dict[str, tuple[dict[str, str], int, str, str]] = {
    "cluster-1": ({"region": "east", "env": "prod", "order": "2"}, 2, "4", "16Gi"),
    "cluster-2": ({"region": "east", "env": "canary", "order": "1"}, 3, "4", "8Gi"),
    "cluster-3": ({"region": "west", "env": "prod"}, 1, "16", "64Gi"),
}
HUB_KINDS: tuple[Resource, ...] = (
    fleet.CLUSTER_RESOURCE_PLACEMENTS,
    fleet.RESOURCE_PLACEMENTS,
    fleet.CLUSTER_POLICY_SNAPSHOTS,
    fleet.POLICY_SNAPSHOTS,
    fleet.CLUSTER_RESOURCE_SNAPSHOTS,
    fleet.RESOURCE_SNAPSHOTS,
    fleet.CLUSTER_BINDINGS,
    fleet.BINDINGS,
    fleet.WORKS,
    fleet.MEMBER_CLUSTERS,
    fleet.INTERNAL_MEMBER_CLUSTERS,
    fleet.CLUSTER_UPDATE_RUNS,
    fleet.CLUSTER_APPROVAL_REQUESTS,
    fleet.CLUSTER_OVERRIDE_SNAPSHOTS,
    fleet.OVERRIDE_SNAPSHOTS,
    fleet.PLACEMENT_STATUSES,
    EVENTS,
)
MEMBER_KINDS: tuple[Resource, ...] = (CONFIG_MAPS, SECRETS, SERVICES, NAMESPACES, JOBS, fleet.APPLIED_WORKS)


class Seen(NamedTuple):
    """A state of an object; None when it was deleted."""

    t: float
    cluster: str
    kind: str
    key: Key
    obj: Obj | None


class Member:
    """One member: its cluster, its nodes, and an agent that can be killed and started."""

    def __init__(self, name: str, hub: VirtualCluster, run_s: float) -> None:
        self.name = name
        self._hub = hub
        self.cluster = VirtualCluster([set_up_operators], name=name)
        self._runtime = SimulatedRuntime(self.cluster.clock, run_s=run_s)
        self._agent: Manager | None = None

    async def start(self) -> None:
        _, count, cpu, memory = MEMBERS[self.name]
        capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
        nodes = [NodeSpec(f"{self.name}-node{number}", capacity) for number in range(1, count + 1)]
        await self.cluster.__aenter__()
        manager = Manager(self.cluster.client, self.cluster.clock, self.cluster.random)
        self._nodes = NodeAgent(self.cluster.client, self.cluster.clock, nodes, self._runtime)
        self._nodes.setup(manager)
        Scheduler(self.cluster.client, self.cluster.clock).setup(manager)
        await self._nodes.open()
        await manager.start()
        self._node_manager = manager

    async def start_agent(self) -> None:
        manager = Manager(self.cluster.client, self.cluster.clock, self.cluster.random)
        hub: Client = self._hub.client
        settings = MemberSettings.upstream()
        set_up_member(manager, hub, self.name, settings, in_registry(self.cluster.api.registry))
        await manager.start()
        self._agent = manager

    async def kill_agent(self) -> None:
        if self._agent is not None:
            await self._agent.stop()
            self._agent = None

    async def stop(self) -> None:
        await self.kill_agent()
        await self._node_manager.stop()
        await self._nodes.close()
        await self.cluster.__aexit__(None, None, None)


class World:
    """The hub, the members and what was seen of them."""

    def __init__(self, *, run_s: float = 10.0, webhooks: bool = True) -> None:
        self._webhooks = webhooks
        self.hub = VirtualCluster([set_up_operators, self._set_up], name="hub")
        self.members = {name: Member(name, self.hub, run_s) for name in MEMBERS}
        self.seen: list[Seen] = []
        self._observers: list[Manager] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.began = 0.0

    def _set_up(self, manager: Manager) -> None:
        plugins = set_up_placement(manager, PlacementSettings(reserve=False))
        if self._webhooks:
            self.hub.api.chain.plugins.extend(plugins)

    def cluster(self, name: str) -> VirtualCluster:
        return self.hub if name == "hub" else self.members[name].cluster

    async def start(self, *, joined: bool) -> None:
        await self.hub.__aenter__()
        for member in self.members.values():
            await member.start()
        if joined:
            for name in MEMBERS:
                await self.join(name)
                await self.members[name].start_agent()
            for _ in range(100):
                await asyncio.sleep(0.1)
                found = (await self.hub.client.list(fleet.MEMBER_CLUSTERS)).items
                if all(is_true(one, "Joined") for one in found):
                    break
        self.began = self.hub.clock.now()
        await self._observe("hub", self.hub, HUB_KINDS)
        for name, member in self.members.items():
            await self._observe(name, member.cluster, MEMBER_KINDS)

    async def join(self, name: str) -> None:
        labels = MEMBERS[name][0]
        identity = {"kind": "ServiceAccount", "name": f"member-agent-{name[-1]}", "namespace": "fleet-system"}
        spec = {"identity": identity, "heartbeatPeriodSeconds": 10}
        await self.hub.client.create(
            fleet.MEMBER_CLUSTERS, {"metadata": {"name": name, "labels": labels}, "spec": spec}
        )

    async def _observe(self, name: str, cluster: VirtualCluster, kinds: Sequence[Resource]) -> None:
        manager = Manager(cluster.client, cluster.clock, cluster.random)
        for resource in kinds:

            def note(old: Obj | None, new: Obj | None, kind: str = resource.kind) -> None:
                obj = new if new is not None else old
                assert obj is not None
                self.seen.append(Seen(cluster.clock.now() - self.began, name, kind, key_of(obj), new))

            manager.informer(resource).on_change(note)
        await manager.start()
        self._observers.append(manager)

    def play_queue(self) -> None:
        """Unsuspend queued Jobs two seconds after they appear on a member, as the script in the recordings does."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._queue()))

    async def _queue(self) -> None:
        first: dict[tuple[str, str], float] = {}
        while True:
            await asyncio.sleep(0.2)
            now = self.hub.clock.now()
            for name, member in self.members.items():
                for job in (await member.cluster.client.list(JOBS)).items:
                    if not spec_of(job).get("suspend") or QUEUE not in annotations_of(job):
                        continue
                    uid = (name, job["metadata"]["uid"])
                    if now - first.setdefault(uid, now) >= 2.0:
                        await _unsuspend(member.cluster.client, job)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for observer in self._observers:
            await observer.stop()
        for member in self.members.values():
            await member.stop()
        await self.hub.__aexit__(None, None, None)


async def _unsuspend(client: Client, job: Obj) -> None:
    try:
        await client.patch(JOBS, job["metadata"]["name"], job["metadata"]["namespace"], {"spec": {"suspend": False}})
    except (NotFound, ApiError):
        pass
