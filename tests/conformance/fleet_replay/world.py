"""A hub and its members with their agents, sized as in the recordings, in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from corral.client.protocol import Client
from corral.clusters.operators import set_up_operators
from corral.configuration.member import MemberSettings
from corral.controllers.member import set_up_member
from corral.controllers.member.discovery import in_registry
from corral.controllers.placement import set_up_placement
from corral.core.conditions import is_true
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import Key, Obj, annotations_of, key_of, owner_ref, spec_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.served_kinds import full_registry
from corral.kinds import fleet
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.machinery.registry import Registry
from corral.node.agent import NodeAgent
from corral.node.node import NodeSpec
from corral.node.scheduler import Scheduler
from corral.node.simulated import SimulatedRuntime
from corral.runtime.controller import Manager
from corral.testing.cluster import VirtualCluster
from fleet_replay.mode import UPSTREAM, Mode

HUB = "hub"
QUEUE = "kueue.x-k8s.io/queue-name"
QUEUE_GROUP = "kueue.x-k8s.io"
QUEUE_AFTER_S = 2.0
NAMESPACES_AT_FIRST = ("default", "kube-system", "kube-public", "kube-node-lease", "fleet-system")


class Size(NamedTuple):
    """A member of the recordings: its labels and nodes."""

    labels: dict[str, str]
    nodes: int
    cpu: str
    memory: str
    heartbeat: int = 10


MEMBERS = {
    "cluster-1": Size({"region": "east", "env": "prod", "order": "2"}, 2, "4", "16Gi"),
    "cluster-2": Size({"region": "east", "env": "canary", "order": "1"}, 3, "4", "8Gi", 15),
    "cluster-3": Size({"region": "west", "env": "prod"}, 1, "16", "64Gi"),
}
OTHER_MEMBER = Size({}, 1, "8", "32Gi")
"""A member that a recording names and the fleet's description does not."""


class Circumstances(NamedTuple):
    """What the head of a recording says about its fleet."""

    webhooks: bool = True
    joined: bool = True
    """Whether the members belong to the fleet from the start."""
    run_s: float = 1e8
    """How long pods run."""
    queue_versions: tuple[str, ...] = ("v1beta1",)
    """The versions of the queue's kinds that all clusters serve, the preferred one first."""
    members: tuple[str, ...] = tuple(MEMBERS)
    away: tuple[str, ...] = ()
    """Members whose agent stopped before the recording began."""
    collected: tuple[str, ...] = ()
    """Members that once had a provider which collects namespaces, and still say so."""


class Seen(NamedTuple):
    """A state of an object; None when it was deleted."""

    t: float
    cluster: str
    kind: str
    key: Key
    obj: Obj | None


def registry_with(queue_versions: tuple[str, ...]) -> Registry:
    """All kinds, the queue's served at these versions only, the first of them preferred."""
    registry = full_registry()
    for kind in list(registry):
        if kind.group == QUEUE_GROUP and any(one.name in queue_versions for one in kind.versions):
            versions = [copy(one) for one in kind.versions]
            for one in versions:
                one.served = one.name in queue_versions
            registry.add(replace(kind, versions=tuple(versions)))
    return registry


class Member:
    """One member: its cluster, its nodes, and an agent that can be killed and started."""

    def __init__(self, name: str, hub: VirtualCluster, circumstances: Circumstances, settings: MemberSettings) -> None:
        self.name = name
        self.size = MEMBERS.get(name, OTHER_MEMBER)
        self._hub = hub
        self.settings = settings
        registry = registry_with(circumstances.queue_versions)
        self.cluster = VirtualCluster([set_up_operators], name=name, registry=registry, namespaces=NAMESPACES_AT_FIRST)
        self._runtime = SimulatedRuntime(self.cluster.clock, run_s=circumstances.run_s)
        self._agent: Manager | None = None

    async def start(self) -> None:
        capacity = {"cpu": self.size.cpu, "memory": self.size.memory, "pods": "110"}
        nodes = [NodeSpec(f"{self.name}-node{number}", capacity) for number in range(1, self.size.nodes + 1)]
        await self.cluster.__aenter__()
        manager = Manager(self.cluster.client, self.cluster.clock, self.cluster.random)
        self._nodes = NodeAgent(manager, nodes, self._runtime)
        Scheduler(manager)
        await self._nodes.open()
        await manager.start()
        self._node_manager = manager

    async def start_agent(self, settings: MemberSettings | None = None) -> None:
        manager = Manager(self.cluster.client, self.cluster.clock, self.cluster.random)
        hub: Client = self._hub.client
        set_up_member(manager, hub, self.name, settings or self.settings, in_registry(self.cluster.api.registry))
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

    def __init__(self, circumstances: Circumstances, mode: Mode) -> None:
        self._circumstances, self.mode = circumstances, mode
        registry = registry_with(circumstances.queue_versions)
        self.hub = VirtualCluster(
            [set_up_operators, self._set_up], name=HUB, registry=registry, namespaces=NAMESPACES_AT_FIRST
        )
        self.members = {
            # One that still says what a provider of the past had said is upstream's.
            name: Member(name, self.hub, circumstances, (UPSTREAM if name in circumstances.collected else mode).member)
            for name in circumstances.members
        }
        self.seen: list[Seen] = []
        self._observers: list[Manager] = []
        self._watched: set[tuple[str, str, str]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.began = 0.0

    def _set_up(self, manager: Manager) -> None:
        plugins = set_up_placement(manager, self.mode.placement)
        if self._circumstances.webhooks:
            self.hub.api.chain.plugins.extend(plugins)

    def cluster(self, name: str) -> VirtualCluster:
        if name != HUB and name not in self.members:
            raise LookupError(f"there is no cluster {name}")
        return self.hub if name == HUB else self.members[name].cluster

    async def start(self) -> None:
        await self.hub.__aenter__()
        for member in self.members.values():
            await member.start()
        if self._circumstances.joined:
            for name, member in self.members.items():
                await self._join(name)
                await member.start_agent()
            for _ in range(100):
                await asyncio.sleep(0.1)
                found = (await self.hub.client.list(fleet.MEMBER_CLUSTERS)).items
                if all(is_true(one, "Joined") for one in found):
                    break
        for name in self._circumstances.collected:
            settings = self.members[name].settings
            await self._change_agent(name, replace(settings, collect_namespaces=True))
            await self._change_agent(name, settings)
        for name in self._circumstances.away:
            await self.members[name].kill_agent()
        self.began = self.hub.clock.now()

    async def _change_agent(self, name: str, settings: MemberSettings) -> None:
        await self.members[name].kill_agent()
        await self.members[name].start_agent(settings)
        await asyncio.sleep(1.0)

    async def _join(self, name: str) -> None:
        identity = {"kind": "ServiceAccount", "name": f"member-agent-{name[-1:]}", "namespace": "fleet-system"}
        # An empty group is dropped by the controller's first write, as in the recordings.
        size = self.members[name].size
        spec = {"identity": {**identity, "apiGroup": ""}, "heartbeatPeriodSeconds": size.heartbeat}
        labels = size.labels
        await self.hub.client.create(
            fleet.MEMBER_CLUSTERS, {"metadata": {"name": name, "labels": labels}, "spec": spec}
        )

    async def leave_behind(self, member: str, namespace: str, work: str) -> None:
        """A namespace on a member that an earlier scenario placed there."""
        client = self.cluster(member).client
        spec = {"workName": work, "workNamespace": f"fleet-member-{member}"}
        try:
            made = await client.create(fleet.APPLIED_WORKS, {"metadata": {"name": work}, "spec": spec})
        except AlreadyExists:
            return
        reference = {**owner_ref(made, controller=False), "apiVersion": "placement.kubernetes-fleet.io/v1beta1"}
        metadata = {"name": namespace, "ownerReferences": [{**reference, "kind": "AppliedWork"}]}
        await client.create(NAMESPACES, {"metadata": metadata})

    async def observe(self, cluster: str, kinds: Iterable[tuple[str, str]]) -> None:
        """Note every state of objects of these kinds, given as API version and kind, from now on."""
        world = self.cluster(cluster)
        manager = Manager(world.client, world.clock, world.random)
        for api_version, kind in kinds:
            found = world.api.registry.find(api_version, kind)
            if found is None or (cluster, found[0].group, kind) in self._watched:
                continue
            self._watched.add((cluster, found[0].group, kind))
            resource = found[0].resource(found[1].name)

            def note(old: Obj | None, new: Obj | None, kind: str = kind) -> None:
                obj = new if new is not None else old
                assert obj is not None
                self.seen.append(Seen(world.clock.now() - self.began, cluster, kind, key_of(obj), new))

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
                    if now - first.setdefault(uid, now) >= QUEUE_AFTER_S:
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
