"""The fleet a recording is replayed on: a manager and the workers it names, every state of every object written down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.core.errors import ApiError, ConnectionFailed, NotFound
from corral.core.meta import Key, name_of, namespace_of
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.runtime.controller import Manager
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import kubeconfig_data
from corral.simulate.link import LinkClient, LinkState
from multikueue.facts import Obj, State
from multikueue.pace import Pace
from multikueue.player import PodPlayer

WATCHED = (
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "events", "Event"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    *(
        kind.resource()
        for kind in native_kinds()
        if kind.group in ("kueue.x-k8s.io", "kubeflow.org", "jobset.x-k8s.io")
    ),
    *(kind.resource() for kind in native_kinds() if kind.kind == "TrainJob"),
)
"""What the recorder followed wherever it was."""
BY_KIND = (
    {kind.kind: kind.resource() for kind in reversed(builtin_kinds())}
    | {kind.kind: kind.resource() for kind in native_kinds()}
    | {resource.kind: resource for resource in WATCHED}
)


WRONG_TOKEN = "wrong"


class World:
    """Clusters, the links between them, and the log of everything that happened."""

    def __init__(
        self, names: list[str], configuration: Obj, secrets: dict[str, str] | None = None, kinds: Iterable[str] = ()
    ) -> None:
        more = [BY_KIND[kind] for kind in kinds if kind in BY_KIND]
        self._watched = tuple(dict.fromkeys([*WATCHED, *more]))
        self._secrets = secrets or {}
        """Kubeconfig Secrets and the clusters they lead to."""
        self.links = {name: LinkState() for name in names if name != "manager"}
        self.clusters: dict[str, SimulatedCluster] = {}
        for name in names:
            if name == "manager":
                self.clusters[name] = SimulatedCluster(name, configuration=configuration, connect=self._connect)
            else:
                self.clusters[name] = SimulatedCluster(name, extra=[partial(self._play_pods, name)])
        self.pace: Pace | None = None
        """The time of the recording, once it begins."""
        self.log: list[State] = []
        self.set_up: list[State] = []
        self._last: dict[tuple[str, str, Key], Obj] = {}
        self.ends: dict[tuple[str, str, Key], Obj] = {}
        """Every object as it was last seen, gone or not."""
        self._tasks: list[asyncio.Task[None]] = []

    def _play_pods(self, cluster: str, manager: Manager) -> None:
        def goes_on(pod: Obj) -> float:
            return self.pace.left(cluster, pod) if self.pace else 0.0

        PodPlayer(manager, goes_on)

    def _connect(self, access: Access) -> Client:
        name = access.server.removeprefix("https://")
        state = self.links.setdefault(name, LinkState(cut=True))
        if access.token == WRONG_TOKEN:
            state = LinkState(refused=True)

        def target() -> Client:
            if name not in self.clusters:
                raise ConnectionFailed(f"cannot reach {name}: connection refused")
            return self.clusters[name].client

        return LinkClient(target, state, self.clusters["manager"].clock, name)

    async def start(self) -> None:
        for cluster in self.clusters.values():
            await cluster.start()
            for resource in self._watched:
                self._tasks.append(asyncio.ensure_future(self._watch(cluster, resource)))
        await asyncio.sleep(0.05)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for cluster in self.clusters.values():
            await cluster.stop()

    async def _watch(self, cluster: SimulatedCluster, resource: Resource) -> None:
        try:
            async for event in cluster.client.watch(resource):
                self._note(cluster.name, resource.kind, event.type, event.obj)
        except ApiError:
            return  # the kind is not served here

    def _note(self, cluster: str, kind: str, event: str, obj: Obj) -> None:
        now = asyncio.get_running_loop().time() * 1000
        if kind == "Event":
            self.log.append(State(cluster, "EVENT", kind, _event(obj), now))
            return
        identity = (cluster, kind, Key(namespace_of(obj), name_of(obj)))
        self.ends[identity] = obj
        self._last.pop(identity, None)
        if event != "DELETED":
            self._last[identity] = obj
        self.log.append(State(cluster, event, kind, obj, now))

    def begin(self) -> None:
        """What is there now was set up; the log begins here."""
        self.log.clear()
        self.set_up = [State(cluster, "EXISTS", kind, obj) for (cluster, kind, _), obj in self._last.items()]

    # What a recording's steps do

    async def create(self, cluster: str, manifest: Obj) -> Obj:
        resource = self._resource(cluster, manifest)
        manifest = self._with_kubeconfig(manifest)
        return await self.clusters[cluster].client.create(resource, manifest, manager="kubectl-create")

    async def replace(self, cluster: str, manifest: Obj) -> Obj:
        """Put an object in the place of the one of its name."""
        resource = self._resource(cluster, manifest)
        client = self.clusters[cluster].client
        held = await client.get(resource, name_of(manifest), namespace_of(manifest))
        version = {"resourceVersion": held["metadata"]["resourceVersion"]}
        changed = {**self._with_kubeconfig(manifest), "metadata": {**manifest["metadata"], **version}}
        return await client.update(resource, changed, manager="kubectl-replace")

    def _resource(self, cluster: str, manifest: Obj) -> Resource:
        resource = BY_KIND.get(str(manifest.get("kind")))
        if resource is None:
            raise NotFound(f"there is no kind {manifest.get('kind')!r} here")
        if cluster not in self.clusters:
            raise NotFound(f"there is no cluster {cluster!r}")
        return resource

    def _with_kubeconfig(self, manifest: Obj) -> Obj:
        """Blanked kubeconfigs are filled in with one of the cluster they are for."""
        if manifest["kind"] != "Secret" or "kubeconfig" not in (manifest.get("data") or {}):
            return manifest
        return {**manifest, "data": {"kubeconfig": kubeconfig_data(self.behind(name_of(manifest)))}}

    def behind(self, secret: str) -> str:
        """The cluster a kubeconfig Secret leads to."""
        return self._secrets.get(secret) or secret.removesuffix("-secret")


def _event(obj: Obj) -> Obj:
    about: Any = obj.get("involvedObject") or {}
    subject = "/".join(str(about.get(part)) for part in ("kind", "namespace", "name") if about.get(part))
    source = obj.get("reportingComponent") or (obj.get("source") or {}).get("component")
    return {
        "type": obj.get("type"),
        "reason": obj.get("reason"),
        "message": obj.get("message"),
        "object": subject,
        "reportingController": source,
        "action": obj.get("action"),
    }
