"""A process cluster with every operator, and what tests of job kinds ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import yaml
from tests.e2e.process_cluster import PATIENCE_S, ProcessCluster

from corral.clusters.operators import set_up_operators
from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of
from corral.core.resource import Resource
from corral.core.streams import LogOptions
from corral.jobs.framework.operators import OperatorSettings
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.kinds.kubernetes.core.kinds import PODS
from corral.node.images import Catalog

EXAMPLES = Path(__file__).parents[2] / "examples"
RESOURCES = {(kind.group, kind.kind): kind.resource() for kind in (*builtin_kinds(), *native_kinds())}


class OperatedCluster(ProcessCluster):
    """A cluster of processes with every operator, as an embedded cluster has them."""

    def __init__(
        self,
        state: Path,
        network: str = "127.79.0.0/16",
        catalog: Catalog | None = None,
        settings: OperatorSettings | None = None,
    ) -> None:
        super().__init__(state, network=network, catalog=catalog)
        # The base registers the Job operator by itself; here all of them are wanted, each once.
        manager = self.base.manager
        manager.controllers = [entry for entry in manager.controllers if entry.name != "job"]
        self.base.api.chain.plugins.extend(set_up_operators(manager, settings))

    async def apply(self, name: str) -> None:
        for body in yaml.safe_load_all((EXAMPLES / name).read_text()):
            await self.client.create(resource_of(body), body)

    async def wait(
        self, resource: Resource, name: str, done: Callable[[Obj], bool], timeout: float = PATIENCE_S
    ) -> Obj:
        found: Obj = {}
        try:
            async with asyncio.timeout(timeout):
                while True:
                    found = await self.client.get(resource, name, "default" if resource.namespaced else "")
                    if done(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pods = (await self.client.list(PODS, "default")).items
            states = {name_of(pod): pod.get("status", {}).get("phase") for pod in pods}
            raise AssertionError(f"still waiting: {found.get('status')}; pods {states}") from None

    async def output(self, **labels: str) -> list[str]:
        """What all pods with these labels wrote, line by line, sorted."""
        lines: list[str] = []
        for pod in (await self.client.list(PODS, "default")).items:
            if labels.items() <= labels_of(pod).items():
                async for part in self.runtime.logs(pod, "", LogOptions()):
                    lines += part.decode().splitlines()
        return sorted(lines)


def resource_of(body: Obj) -> Resource:
    group, _, version = str(body["apiVersion"]).rpartition("/")
    return RESOURCES[group, body["kind"]].at(version)


def kind(group: str, name: str) -> Resource:
    return RESOURCES[group, name]


def has(*kinds: str) -> Callable[[Obj], bool]:
    return lambda obj: any(conditions.is_true(obj, entry) for entry in kinds)
