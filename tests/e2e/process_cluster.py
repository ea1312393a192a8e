"""A cluster on the wall clock whose pods are real processes, the node's own end-to-end world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corral.clusters import identities
from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.streams import LogOptions
from corral.jobs.batch_job.identity import IDENTITY as JOB_IDENTITY
from corral.jobs.batch_job.operator import JobController
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.node.agent import NodeAgent
from corral.node.engine.client import Engine
from corral.node.engine.runtime import EngineRuntime
from corral.node.images import Catalog
from corral.node.machine.devices import Device
from corral.node.node import NodeSpec
from corral.node.pod_inputs import ClusterPodInputs
from corral.node.process.runtime import ProcessRuntime, ProcessSettings
from corral.node.scheduler import Scheduler

PATIENCE_S = 120.0
"""Waiting costs nothing when the thing happens, and a machine may be busy for a while."""


class ProcessCluster:
    """One cluster; `crash` leaves everything as a killed control plane would."""

    def __init__(
        self,
        state: Path,
        nodes: Sequence[NodeSpec] = (),
        network: str = "127.77.0.0/16",
        catalog: Catalog | None = None,
        devices: Mapping[str, Sequence[Device]] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.base = EmbeddedApi(state)
        self.client, self.clock, manager = self.base.client, self.base.clock, self.base.manager
        settings = ProcessSettings(
            state / "node", pod_network=network, catalog=catalog or Catalog.load(), devices=devices or {}
        )
        nodes_own = manager.of(identities.NODE_AGENT)
        inputs = ClusterPodInputs(nodes_own)
        self.runtime = (
            ProcessRuntime(settings, inputs, self.clock)
            if engine is None
            else EngineRuntime(settings, inputs, self.clock, engine)
        )
        specs = nodes or [NodeSpec("node1", {"cpu": "64", "memory": "256Gi", "pods": "500", "nvidia.com/gpu": "4"})]
        JobController(manager.of(JOB_IDENTITY))
        Scheduler(manager.of(identities.SCHEDULER))
        self.agent = NodeAgent(nodes_own, specs, self.runtime)

    async def start(self) -> None:
        await self.agent.open()
        await self.base.start()

    async def crash(self) -> None:
        """Stop without a word to the pods."""
        await self.base.stop()
        await self.runtime.close()

    async def stop(self) -> None:
        await self.base.stop()
        await self.runtime.shut_down(0.0)

    # What tests ask

    async def run(self, name: str, command: Sequence[str], **spec: Any) -> Obj:
        return await self.client.create(PODS, pod(name, command, **spec))

    async def until(self, name: str, ready: Callable[[Obj], bool], timeout: float = PATIENCE_S) -> Obj:
        """The pod, once `ready` says so."""

        async def poll() -> Obj:
            while True:
                found = await self.client.get(PODS, name, "default")
                if ready(found):
                    return found
                await asyncio.sleep(0.02)

        try:
            return await asyncio.wait_for(poll(), timeout)
        except TimeoutError:
            found = await self.client.get(PODS, name, "default")
            raise AssertionError(f"still waiting: {found['status']}") from None

    async def ended(self, name: str, timeout: float = PATIENCE_S) -> Obj:
        return await self.until(name, lambda found: found["status"].get("phase") in ("Succeeded", "Failed"), timeout)

    async def running(self, name: str) -> Obj:
        return await self.until(name, lambda found: found["status"].get("phase") == "Running")

    async def gone(self, name: str, timeout: float = PATIENCE_S) -> None:
        async def poll() -> None:
            while True:
                try:
                    await self.client.get(PODS, name, "default")
                except NotFound:
                    return
                await asyncio.sleep(0.02)

        await asyncio.wait_for(poll(), timeout)

    async def log(self, name: str, **options: Any) -> str:
        found = await self.client.get(PODS, name, "default")
        container = options.pop("container", "")
        parts = [part async for part in self.runtime.logs(found, container, LogOptions(**options))]
        return b"".join(parts).decode()

    async def connection_runs(self) -> list[str]:
        return list(await self.runtime.connection.runs())

    async def events(self, name: str, *expected: str) -> list[str]:
        """The reasons of a pod's events, once the expected ones are there: nobody waits for events to be written."""
        found: list[str] = []
        for _ in range(int(PATIENCE_S / 0.1)):
            items = (await self.client.list(EVENTS, "default")).items
            found = [event["reason"] for event in items if event["involvedObject"]["name"] == name]
            if set(expected) <= set(found):
                break
            await asyncio.sleep(0.1)
        return found

    async def touch(self, name: str, path: str) -> None:
        """Make a file in a running pod: what its program waits for."""
        found = await self.client.get(PODS, name, "default")
        session = await self.runtime.exec(found, "", ["touch", path], stdin=False, tty=False)
        assert await session.wait() == 0
        await session.kill()


@asynccontextmanager
async def process_cluster(state: Path, **options: Any) -> AsyncIterator[ProcessCluster]:
    cluster = ProcessCluster(state, **options)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


def pod(name: str, command: Sequence[str], **spec: Any) -> Obj:
    """A pod of one container `main`; container fields by their names, the rest goes to the spec."""
    fields = ("env", "envFrom", "volumeMounts", "resources", "workingDir", "readinessProbe", "livenessProbe", "lifecycle",
              "args", "stdin", "tty", "terminationMessagePolicy", "ports", "startupProbe")  # fmt: skip
    container: Obj = {"name": "main", "image": spec.pop("image", "busybox")}
    if command:
        container["command"] = list(command)
    container.update({field: spec.pop(field) for field in fields if field in spec})
    metadata: Obj = {"name": name, "namespace": "default"}
    for field in ("labels", "annotations"):
        if field in spec:
            metadata[field] = spec.pop(field)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }
