"""A stage for operator tests: a virtual-time cluster whose pods the test plays by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from corral.core import conditions
from corral.core.admission import AdmissionPlugin
from corral.core.errors import NotFound
from corral.core.meta import Obj, labels_of, name_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.testing import VirtualCluster, run_virtual

NAMESPACE = "default"
Controllers = Callable[[VirtualCluster], Sequence[Any]]


class Stage:
    """What a test does to a cluster, in few words."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, resource: Resource, body: Obj) -> Obj:
        metadata = dict(body.get("metadata") or {})
        if resource.namespaced:
            metadata.setdefault("namespace", NAMESPACE)
        made = await self.client.create(resource, {**body, "metadata": metadata})
        await self.cluster.settle()
        return made

    async def get(self, resource: Resource, name: str) -> Obj:
        return await self.client.get(resource, name, NAMESPACE if resource.namespaced else "")

    async def is_gone(self, resource: Resource, name: str) -> bool:
        """Deleted, or waiting only for its dependents."""
        try:
            return "deletionTimestamp" in (await self.get(resource, name))["metadata"]
        except NotFound:
            return True

    async def names(self, resource: Resource) -> list[str]:
        listed = await self.client.list(resource, NAMESPACE if resource.namespaced else "")
        return sorted(name_of(obj) for obj in listed.items)

    async def patch(self, resource: Resource, name: str, patch: Obj) -> Obj:
        changed = await self.client.patch(resource, name, NAMESPACE, patch)
        await self.cluster.settle()
        return changed

    async def pods(self, **labels: str) -> list[Obj]:
        listed = await self.client.list(PODS, NAMESPACE)
        found = [pod for pod in listed.items if all(labels_of(pod).get(key) == value for key, value in labels.items())]
        return sorted(found, key=name_of)

    async def pass_time(self, seconds: float) -> None:
        await self.cluster.advance(seconds)

    async def run(self, *names: str) -> None:
        """Let pods run and be ready; all of them without names."""
        for name in names or await self.names(PODS):
            await self._phase(name, "Running", True, {"running": {"startedAt": self.now}})
        await self.pass_time(1.5)

    async def succeed(self, *names: str) -> None:
        for name in names or await self.names(PODS):
            await self._phase(name, "Succeeded", False, {"terminated": {"exitCode": 0, "finishedAt": self.now}})
        await self.pass_time(1.5)

    async def fail(self, *names: str, code: int = 1) -> None:
        for name in names or await self.names(PODS):
            await self._phase(name, "Failed", False, {"terminated": {"exitCode": code, "finishedAt": self.now}})
        await self.pass_time(1.5)

    @property
    def now(self) -> str:
        return self.cluster.clock.timestamp()

    async def _phase(self, name: str, phase: str, ready: bool, state: Obj) -> None:
        pod = await self.client.get(PODS, name, NAMESPACE)
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        containers = [
            {
                "name": entry["name"],
                "image": entry.get("image", ""),
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "state": state,
            }
            for entry in pod["spec"]["containers"]
        ]
        verdict = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": self.now}
        status = {"phase": phase, "conditions": [verdict], "containerStatuses": containers, "podIP": "10.0.0.1"}
        await self.client.patch(PODS, name, NAMESPACE, {"status": status}, subresource="status")

    async def reasons(self) -> list[str]:
        listed = await self.client.list(EVENTS, NAMESPACE)
        return sorted({event["reason"] for event in listed.items})


def play(
    controllers: Controllers,
    script: Callable[[Stage], Awaitable[None]],
    *,
    plugins: Callable[[VirtualCluster], Sequence[AdmissionPlugin]] | None = None,
) -> None:
    """Run `script` on a cluster with `controllers`."""

    async def main() -> None:
        cluster = VirtualCluster()
        if plugins is not None:
            cluster.api.chain.plugins.extend(plugins(cluster))
        cluster._set_up = [lambda manager: controllers(cluster)]
        async with cluster:
            await script(Stage(cluster))

    run_virtual(main)


def summary(obj: Obj) -> list[tuple[str, str]]:
    """Condition types and statuses in order."""
    return [(entry["type"], entry["status"]) for entry in conditions.conditions_of(obj)]


def template(container: str = "c", **spec: Any) -> Obj:
    return {"spec": {"containers": [{"name": container, "image": "img:1"}], **spec}}
