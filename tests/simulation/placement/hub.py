"""A hub on virtual time and members played by a script: they join, beat, and answer Works as the test tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from corral.configuration.placement import PlacementSettings
from corral.controllers.placement import set_up_placement
from corral.core.conditions import condition, find, set_condition
from corral.core.errors import NotFound
from corral.core.meta import (
    Key,
    Obj,
    generation_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    with_finalizer,
    without_finalizer,
)
from corral.core.resource import Resource
from corral.kinds.fleet import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_RESOURCE_PLACEMENTS,
    INTERNAL_MEMBER_CLUSTERS,
    MEMBER_CLUSTERS,
    RESOURCE_PLACEMENTS,
    WORKS,
)
from corral.kinds.fleet.names import WORK_CLEANUP, member_namespace
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, NAMESPACES
from corral.runtime.controller import Manager, Result, Watch
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

UNTRACKABLE = {"Job", "CronJob", "ClusterQueue", "ResourceFlavor", "LocalQueue"}
RECORDED = {
    "cluster-1": ({"region": "east", "env": "prod", "order": "2"}, "8", "32Gi", "2"),
    "cluster-2": ({"region": "east", "env": "canary", "order": "1"}, "12", "24Gi", "3"),
    "cluster-3": ({"region": "west", "env": "prod"}, "16", "64Gi", "1"),
}


class ScriptedMembers:
    """Plays every member's agent on the hub."""

    def __init__(self) -> None:
        self.capacity: dict[str, tuple[str, str, str]] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.silent: set[str] = set()
        self.deaf: set[str] = set()
        self.healthy: dict[str, bool] = {}
        self.broken: set[tuple[str, str]] = set()
        """(cluster, manifest name) that never becomes available."""
        self.failing: set[tuple[str, str]] = set()
        """(cluster, manifest name) that cannot be applied."""
        self.stuck: set[str] = set()
        """Clusters whose objects do not go away."""
        self.applied: list[tuple[float, str, str]] = []

    def setup(self, manager: Manager) -> None:
        self._manager = manager
        self.agents = Agent(self, manager)
        self.appliers = Applier(self, manager)


class Agent:
    name = "scripted-agent"

    def __init__(self, members: ScriptedMembers, manager: Manager) -> None:
        self._members = members
        self._manager = manager
        self._internal = manager.informer(INTERNAL_MEMBER_CLUSTERS)
        self.queue = manager.add(self, watches=[Watch(INTERNAL_MEMBER_CLUSTERS, when=_spec_changed)]).queue

    async def reconcile(self, key: Key) -> Result | None:
        internal = self._internal.get(key)
        if internal is None or key.name in self._members.silent:
            return None
        now = self._manager.clock.timestamp()
        joins = spec_of(internal)["state"] == "Join"
        agent = next(iter(status_of(internal).get("agentStatus") or []), {"type": "MemberAgent", "conditions": []})
        healthy = self._members.healthy.get(key.name, True)
        word = "Healthy" if healthy else "Unhealthy"
        entries = [
            condition("Healthy", healthy, f"InternalMemberCluster{word}", "", generation_of(internal)),
            condition(
                "Joined", joins, f"InternalMemberCluster{'Joined' if joins else 'Left'}", "", generation_of(internal)
            ),
        ]
        conditions = agent["conditions"]
        for entry in entries:
            conditions = set_condition(conditions, entry, now)
        cpu, memory, nodes = self._members.capacity.get(key.name, ("8", "32Gi", "1"))
        amounts = {"cpu": cpu, "memory": memory}
        status: Obj = {
            "agentStatus": [{"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": now}],
            "properties": {"kubernetes-fleet.io/node-count": {"value": nodes, "observationTime": now}},
            "resourceUsage": {
                "capacity": amounts,
                "allocatable": amounts,
                "available": amounts,
                "observationTime": now,
            },
        }
        if key.name in self._members.namespaces:
            status["namespaces"] = self._members.namespaces[key.name]
            entry = condition("NamespaceCollectionSucceeded", True, "Succeeded", "", generation_of(internal))
            status["conditions"] = set_condition([], entry, now)
        await self._manager.client.update(
            INTERNAL_MEMBER_CLUSTERS, {**internal, "status": status}, subresource="status"
        )
        period = spec_of(internal).get("heartbeatPeriodSeconds", 60)
        return Result(requeue_after=float(period)) if joins else None


def _spec_changed(old: Obj | None, new: Obj | None) -> bool:
    return new is not None and (old is None or old.get("spec") != new.get("spec"))


class Applier:
    name = "scripted-applier"

    def __init__(self, members: ScriptedMembers, manager: Manager) -> None:
        self._members = members
        self._manager = manager
        self._works = manager.informer(WORKS)
        self.queue = manager.add(self, watches=[Watch(WORKS)]).queue

    async def reconcile(self, key: Key) -> None:
        work = self._works.get(key)
        cluster = key.namespace.removeprefix("fleet-member-")
        if work is None or cluster in self._members.silent or cluster in self._members.deaf:
            return
        client = self._manager.client
        if is_deleting(work):
            if cluster not in self._members.stuck:
                await client.update(WORKS, without_finalizer(work, WORK_CLEANUP))
            return
        if WORK_CLEANUP not in (work["metadata"].get("finalizers") or []):
            work = await client.update(WORKS, with_finalizer(work, WORK_CLEANUP))
        status = self._answer(cluster, work)
        if status != status_of(work):
            self._members.applied.append((self._manager.clock.now(), cluster, name_of(work)))
            await client.update(WORKS, {**work, "status": status}, subresource="status")

    def _answer(self, cluster: str, work: Obj) -> Obj:
        now = self._manager.clock.timestamp()
        generation = generation_of(work)
        manifests = (spec_of(work).get("workload") or {}).get("manifests") or []
        old = status_of(work)
        if (spec_of(work).get("applyStrategy") or {}).get("type") == "ReportDiff":
            entry = condition("DiffReported", True, "AllManifestsHaveReportedDiff", "", generation)
            return {"conditions": set_condition(list(old.get("conditions") or []), entry, now)}
        results = [self._manifest(cluster, ordinal, manifest, now, old) for ordinal, manifest in enumerate(manifests)]
        applied = all(find(one["conditions"], "Applied")["status"] == "True" for one in results)  # type: ignore[index]
        conditions = list(old.get("conditions") or [])
        if applied:
            entry = condition("Applied", True, "AllManifestsApplied", "", generation)
        else:
            entry = condition("Applied", False, "SomeManifestsAreNotApplied", "", generation)
        conditions = set_condition(conditions, entry, now)
        if not applied:
            conditions = [one for one in conditions if one["type"] != "Available"]
        else:
            available = not any(
                (cluster, manifest["metadata"]["name"]) in self._members.broken for manifest in manifests
            )
            reason = "AllManifestsAvailable" if available else "SomeManifestsAreNotAvailable"
            if available and any(manifest["kind"] in UNTRACKABLE for manifest in manifests):
                reason = "WorkNotTrackable"
            conditions = set_condition(conditions, condition("Available", available, reason, "", generation), now)
        return {"conditions": conditions, "manifestConditions": results}

    def _manifest(self, cluster: str, ordinal: int, manifest: Obj, now: str, old: Obj) -> Obj:
        name = manifest["metadata"]["name"]
        group, _, version = manifest["apiVersion"].rpartition("/")
        before = next(
            (one for one in old.get("manifestConditions") or () if one["identifier"]["ordinal"] == ordinal), {}
        ).get("conditions", [])
        fails = (cluster, name) in self._members.failing
        entry = condition("Applied", not fails, "ManifestApplyFailed" if fails else "Applied", "", 1)
        conditions = set_condition([one for one in before if one["type"] == "Applied"], entry, now)
        if not fails:
            broken = (cluster, name) in self._members.broken
            reason = "ManifestNotAvailableYet" if broken else "Available"
            kept = [one for one in before if one["type"] == "Available"]
            conditions += set_condition(kept, condition("Available", not broken, reason, "", 1), now)
        identifier = {
            "ordinal": ordinal,
            "group": group,
            "version": version,
            "kind": manifest["kind"],
            "name": name,
            "namespace": namespace_of(manifest),
        }
        return {
            "identifier": {part: value for part, value in identifier.items() if value != ""},
            "conditions": conditions,
        }


class Hub:
    """A hub cluster in memory with scripted members."""

    def __init__(self, settings: PlacementSettings | None = None) -> None:
        self.members = ScriptedMembers()
        self._settings = settings
        self.cluster = VirtualCluster([self._set_up, self.members.setup])
        self.client = self.cluster.client

    def _set_up(self, manager: Manager) -> None:
        self.cluster.api.chain.plugins.extend(set_up_placement(manager, self._settings))

    async def settle(self) -> None:
        """Let everything run that takes no time, short retries and states that are held back for a moment included."""
        for _ in range(8):
            await self.cluster.settle()
            await asyncio.sleep(0.1)

    async def advance(self, seconds: float) -> None:
        await self.cluster.advance(seconds)
        await self.settle()

    async def join(self, *names: str, heartbeat: int = 60) -> None:
        """Let members join; the three recorded ones come with their labels and sizes."""
        for name in names:
            labels, cpu, memory, nodes = RECORDED.get(name, ({}, "8", "32Gi", "1"))
            self.members.capacity.setdefault(name, (cpu, memory, nodes))
            identity = {"kind": "ServiceAccount", "name": name, "namespace": "fleet-system"}
            spec = {"identity": identity, "heartbeatPeriodSeconds": heartbeat}
            await self.client.create(MEMBER_CLUSTERS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        await self.settle()

    async def beat(self, name: str) -> None:
        """An extra heartbeat, now."""
        self.members.agents.queue.add(Key(member_namespace(name), name))
        await self.settle()

    async def recheck(self) -> None:
        """Let every member look at its Works again."""
        for work in (await self.client.list(WORKS)).items:
            self.members.appliers.queue.add(Key(namespace_of(work), name_of(work)))
        await self.settle()

    async def edit(self, resource: Resource, name: str, change: Callable[[Obj], Obj], namespace: str = "") -> Obj:
        return await self.client.update(resource, change(await self.client.get(resource, name, namespace)))

    async def patch(self, resource: Resource, name: str, patch: Obj, namespace: str = "") -> Obj:
        return await self.client.patch(resource, name, namespace, patch)

    async def namespace(self, name: str, **data: dict[str, str]) -> None:
        """A namespace with ConfigMaps."""
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        for config, values in data.items():
            await self.client.create(CONFIG_MAPS, {"metadata": {"name": config, "namespace": name}, "data": values})

    async def place(self, name: str, namespace: str = "", selectors: Sequence[Obj] = (), **spec: Any) -> Obj:
        """A placement of namespace `name`, or of what `selectors` say; an RP when a namespace is given."""
        chosen = list(selectors) or [{"group": "", "version": "v1", "kind": "Namespace", "name": name}]
        body: Obj = {"metadata": {"name": name}, "spec": {"resourceSelectors": chosen, **spec}}
        resource = CLUSTER_RESOURCE_PLACEMENTS
        if namespace:
            body["metadata"]["namespace"] = namespace
            resource = RESOURCE_PLACEMENTS
        created = await self.client.create(resource, body)
        await self.settle()
        return created

    async def placement(self, name: str, namespace: str = "") -> Obj:
        resource = RESOURCE_PLACEMENTS if namespace else CLUSTER_RESOURCE_PLACEMENTS
        return await self.client.get(resource, name, namespace)

    async def conditions(self, name: str, namespace: str = "") -> dict[str, tuple[str, str, str]]:
        placement = await self.placement(name, namespace)
        return {
            one["type"].removeprefix("Cluster").removeprefix("ResourcePlacement"): (
                one["status"],
                one["reason"],
                one["message"],
            )
            for one in status_of(placement).get("conditions") or ()
        }

    async def clusters(self, name: str, namespace: str = "") -> list[str]:
        """The clusters a placement's status lists, in order."""
        entries = status_of(await self.placement(name, namespace)).get("placementStatuses") or ()
        return [one["clusterName"] for one in entries if one.get("clusterName")]

    async def bindings(self, name: str, namespace: str = "") -> list[Obj]:
        resource = BINDINGS if namespace else CLUSTER_BINDINGS
        labels = f"kubernetes-fleet.io/parent-CRP={name}"
        return (await self.client.list(resource, namespace, labels=labels)).items

    async def work(self, cluster: str, name: str) -> Obj | None:
        try:
            return await self.client.get(WORKS, name, member_namespace(cluster))
        except NotFound:
            return None

    async def manifests(self, cluster: str, name: str) -> list[Obj]:
        work = await self.work(cluster, name)
        return [] if work is None else spec_of(work)["workload"]["manifests"]

    async def events(self, name: str) -> list[tuple[str, str]]:
        found = (await self.client.list(EVENTS)).items
        mine = [one for one in found if one["involvedObject"]["name"] == name]
        mine.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [(one["reason"], one["message"]) for one in mine]


def on_hub(
    scenario: Callable[[Hub], Awaitable[None]],
    *,
    members: Sequence[str] = ("cluster-1", "cluster-2", "cluster-3"),
    settings: PlacementSettings | None = None,
) -> None:
    """Run a scenario on a hub that the members have joined."""

    async def main() -> None:
        hub = Hub(settings)
        async with hub.cluster:
            await hub.join(*members)
            await scenario(hub)

    run_virtual(main)


def namespace_selector(name: str, scope: str = "") -> Obj:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
    return {**selector, "selectionScope": scope} if scope else selector


def config_selector(name: str) -> Obj:
    return {"group": "", "version": "v1", "kind": "ConfigMap", "name": name}
