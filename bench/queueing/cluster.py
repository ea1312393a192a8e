"""Upstream's published load generators against the real API of an embedded cluster, on the wall clock.

    python bench/queueing/cluster.py [baseline|large|topology] [--scale N]

One process serves the API (HTTPS, journal on disk) and queues; this process is the load, as upstream's own runner is: it
creates queues and Workloads at their pace, watches them, finishes each one some time after its admission by a status
write, and gives back the quota of those that are evicted. `--scale 0.1` runs a tenth of the workloads. Prints wall time,
average use of quota, mean time to admission per class, CPU and memory of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Process
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from generators import GENERATORS, Class, Generator

from corral.client.http import HttpClient
from corral.client.protocol import Client
from corral.clusters.embedded_api import EmbeddedApi
from corral.controllers.queueing.setup import Queueing
from corral.core import conditions
from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from corral.runtime.clock import Clock, WallClock
from corral.server.gc_tuning import calm_collector
from corral.workload import lifecycle
from corral.workload import workload as wl

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NOMINAL = 20
RACKS, HOSTS_PER_RACK = 10, 64
TOPOLOGY_CLASSES = (
    ("small", 350, 0.1, 0.2, 50, 2, "500m"),
    ("medium", 100, 0.5, 0.5, 100, 4, "1250m"),
    ("large", 50, 1.2, 1.0, 200, 8, "2500m"),
)
MODES = ("required", "preferred", "unconstrained")


# The server


def serve(folder: Path, state: Path | None) -> None:
    """The body of the server process."""
    calm_collector()
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(folder, state))


async def _serve(folder: Path, state: Path | None) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    queueing = Queueing()
    embedded = EmbeddedApi(state, plugins=queueing.plugins, extras=[queueing.visibility])
    for kind in native_kinds():
        embedded.api.registry.add(kind)
    queueing.setup(embedded.manager)
    await embedded.start()
    embedded.server.write_kubeconfig(folder / "kubeconfig.part")
    (folder / "kubeconfig.part").rename(folder / "kubeconfig")
    await stop.wait()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    (folder / "usage").write_text(f"{cpu} {memory}")
    await embedded.stop()


# The load


@dataclass
class Load:
    """What was created, what is known of it, and what became of it."""

    client: Client
    total: int
    clock: Clock = field(default_factory=WallClock)
    created: dict[str, float] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=dict)
    busy: float = 0.0
    """CPU seconds during which quota was held."""
    held: dict[str, float] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    finishing: set[str] = field(default_factory=set)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    shapes: dict[str, tuple[Class, float]] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    apart: Random | None = None
    """With it everything is created up to a tenth of a second late, each by itself."""
    released: int = 0
    """Evictions that were answered by giving the quota back."""
    lanes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(64))
    """Requests under way at once; a client that queues by itself needs no connection per workload."""

    def spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[arg-type]
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def follow(self) -> None:
        """React to every change of a Workload, from the beginning on."""
        version = "0"
        while not self.done.is_set():
            try:
                async for event in self.client.watch(WORKLOADS, resource_version=version):
                    version = event.obj["metadata"]["resourceVersion"]
                    if event.type in ("ADDED", "MODIFIED"):
                        self.take(event.obj)
            except ApiError:
                await asyncio.sleep(0.1)

    def take(self, workload: Obj) -> None:
        name, now = name_of(workload), self.clock.monotonic()
        if wl.is_finished(workload):
            self.end(name, now)
        elif wl.is_evicted(workload) and wl.has_quota(workload):
            self.spawn(self.release(workload))
        elif wl.is_admitted(workload) and not wl.is_evicted(workload) and name not in self.held:
            shape, _ = self.shapes[name]
            self.held[name] = now
            self.waits.setdefault(shape.name, []).append(now - self.created[name])
            self.spawn(self.finish_later(workload, shape.runtime))

    def end(self, name: str, now: float) -> None:
        if name in self.finished:
            return
        self.finished.add(name)
        self.count(name, now)
        if len(self.finished) >= self.total:
            self.done.set()

    def count(self, name: str, now: float) -> None:
        since = self.held.pop(name, None)
        if since is not None:
            self.busy += (now - since) * self.shapes[name][1]

    async def finish_later(self, workload: Obj, runtime: float) -> None:
        name = name_of(workload)
        since = self.held[name]
        await asyncio.sleep(runtime)
        if self.held.get(name) != since:
            return
        done = lifecycle.finish(workload, "Succeeded", "", self.clock.timestamp())
        await self.write(done, name)

    async def release(self, workload: Obj) -> None:
        name = name_of(workload)
        self.count(name, self.clock.monotonic())
        self.released += 1
        await self.write(lifecycle.release_evicted(workload, [], self.clock.timestamp()), name)

    async def write(self, workload: Obj, name: str) -> None:
        for _ in range(5):
            try:
                async with self.lanes:
                    await self.client.update(WORKLOADS, workload, subresource="status")
                return
            except Conflict:
                fresh = await self.client.get(WORKLOADS, name, "default")
                if wl.is_finished(fresh) or wl.is_evicted(fresh) != wl.is_evicted(workload):
                    return  # something else happened to it first; the watch will tell
                held = conditions.conditions_of(workload)
                fresh_status = {**fresh["status"], "conditions": list(held)}
                workload = {**fresh, "status": fresh_status}
            except NotFound:
                return


def workload(name: str, queue: str, shape: Class, pods: int, cpu: str, topology: str) -> Obj:
    annotations = {f"kueue.x-k8s.io/podset-{topology}-topology": "rack"} if topology else {}
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    pod_set: Obj = {
        "name": "main",
        "count": pods,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        },
    }
    if topology == "unconstrained":
        pod_set["topologyRequest"] = {"unconstrained": True}
    elif topology:
        pod_set["topologyRequest"] = {topology: "rack"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": queue, "priority": shape.priority, "podSets": [pod_set]},
    }


async def create_queues(client: Client, generator: Generator, topology: bool) -> list[str]:
    spec: Obj = {}
    if topology:
        levels = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
        await client.create(TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": levels}})
        spec = {"nodeLabels": {"pool": "tas"}, "topologyName": "racks"}
        numbers = iter(range(RACKS * HOSTS_PER_RACK))
        await asyncio.gather(*(create_nodes(client, numbers) for _ in range(16)))
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": spec})
    names = []
    quota = {"name": "cpu", "nominalQuota": str(NOMINAL), "borrowingLimit": "100"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    for cohort in range(generator.cohorts):
        for number in range(generator.queues):
            name = f"q-{cohort}-{number}"
            queue = {
                "cohortName": f"cohort-{cohort}",
                "namespaceSelector": {},
                "resourceGroups": [group],
                "preemption": preemption,
            }
            await client.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": queue})
            metadata = {"name": name, "namespace": "default"}
            await client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": name}})
            names.append(name)
    return names


async def create_nodes(client: Client, numbers: Iterator[int]) -> None:
    for number in numbers:
        await create_node(client, number)


async def create_node(client: Client, number: int) -> None:
    name = f"host-{number}"
    labels = {"pool": "tas", "block": "b0", "rack": f"r{number // HOSTS_PER_RACK}", "kubernetes.io/hostname": name}
    node = await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastTransitionTime": format_time(time.time()),
        "lastHeartbeatTime": format_time(time.time()),
    }
    amounts = {"cpu": "96", "memory": "256Gi", "pods": "110"}
    status = {**node.get("status", {}), "allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    await client.update(NODES, {**node, "status": status}, subresource="status")


async def create_class(load: Load, queue: str, shape: Class, start: float, pods: int, cpu: str, topology: bool) -> None:
    """The workloads of one class of one queue, each at its time."""
    for number in range(shape.count):
        late = load.apart.random() / 10 if load.apart is not None else 0.0
        delay = start + number * shape.interval + late - load.clock.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        name = f"{queue}-{shape.name}-{number}"
        load.shapes[name] = (shape, shape.cpu)
        load.created[name] = load.clock.monotonic()
        mode = MODES[number % len(MODES)] if topology else ""
        async with load.lanes:
            await load.client.create(WORKLOADS, workload(name, queue, shape, pods, cpu, mode))


async def run(name: str, scale: float, client: Client, clock: Clock, apart: Random | None = None) -> Load:
    """Put the load on a cluster until the last Workload has finished, and print how that went."""
    topology = name == "topology"
    generator = GENERATORS["baseline" if topology else name]
    classes = [
        Class(each.name, max(1, round(each.count * scale)), each.interval, each.runtime, each.priority, each.cpu)
        for each in generator.classes
    ]
    queues = await create_queues(client, generator, topology)
    total = len(queues) * sum(each.count for each in classes)
    load = Load(client, total, clock, apart=apart)
    follower = asyncio.create_task(load.follow())
    started = clock.monotonic()
    makers = []
    for queue in queues:
        for position, each in enumerate(classes):
            pods, cpu = (
                (TOPOLOGY_CLASSES[position][5], TOPOLOGY_CLASSES[position][6]) if topology else (1, str(each.cpu))
            )
            makers.append(create_class(load, queue, each, started, pods, cpu, topology))
    await asyncio.gather(*makers)
    created = clock.monotonic() - started
    await load.done.wait()
    wall = clock.monotonic() - started
    follower.cancel()
    print(f"{name}: {total} workloads in {wall:.1f} s ({total / wall:.0f}/s), created in {created:.1f} s")
    print(f"  average use {100 * load.busy / (NOMINAL * len(queues) * wall):.1f} %, {load.released} evictions")
    for each in classes:
        waits = load.waits.get(each.name) or [0.0]
        print(f"  {each.name:7s} mean time to admission {sum(waits) / len(waits):7.2f} s, worst {max(waits):7.2f} s")
    return load


async def run_served(name: str, scale: float, kubeconfig: Path) -> None:
    client = HttpClient.from_kubeconfig(kubeconfig)
    await run(name, scale, client, WallClock())
    await client.close()
    own = resource.getrusage(resource.RUSAGE_SELF)
    print(f"  load: {own.ru_utime + own.ru_stime:.1f} s CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="baseline", choices=("baseline", "large", "topology"))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--memory", action="store_true", help="no journal, to see what durability costs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state = None if options.memory else Path(folder) / "state"
        server = Process(target=serve, args=(Path(folder), state), daemon=True)
        server.start()
        kubeconfig = Path(folder) / "kubeconfig"
        while not kubeconfig.exists() and server.is_alive():
            time.sleep(0.05)
        try:
            asyncio.run(run_served(options.name, options.scale, kubeconfig))
        finally:
            if server.pid is not None:
                os.kill(server.pid, signal.SIGTERM)
            server.join()
            usage = Path(folder) / "usage"
            if usage.exists():
                cpu, memory = usage.read_text().split()
                print(f"  server: {float(cpu):.1f} s CPU, {float(memory):.0f} MiB peak")


if __name__ == "__main__":
    main()
