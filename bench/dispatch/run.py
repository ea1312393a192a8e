"""Jobs through one manager to N workers, all embedded clusters over HTTPS on loopback, pods simulated:

    python bench/dispatch/run.py [--workers 3] [--jobs 2000] [--dispatcher all-at-once|incremental|late-binding]
    python bench/dispatch/run.py --all        # 3 workers with every dispatcher, then 10 and 40 workers with fewer jobs

Every cluster has room for all jobs. First one job at a time, then all of them as fast as the manager takes them. This
process only creates jobs and watches: a job is admitted when a worker's copy of its Workload says so, running when its
pod on the worker runs, finished when the manager's Job is complete. Beside wall time the CPU time of every process is
printed: on a busy machine that is the figure to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.api.client import Connection
from bench.spread import spread
from bench.start.run import CORRAL, as_installed, cpu_seconds, processes, stop

from corral.client.kubeconfig import Access, access, load

DISPATCHERS = {
    "all-at-once": "kueue.x-k8s.io/multikueue-dispatcher-all-at-once",
    "incremental": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
    "late-binding": "corral.dev/late-binding",
}
ROWS = [
    (3, "all-at-once", 2000),
    (3, "incremental", 2000),
    (3, "late-binding", 2000),
    (10, "all-at-once", 500),
    (10, "incremental", 500),
    (10, "late-binding", 500),
    (40, "all-at-once", 100),
    (40, "incremental", 200),
    (40, "late-binding", 200),
]
"""Workers, dispatcher and jobs of every run of `--all`."""
TARGET_ADMITTED_MS = 100
MANY_CORES = 16
TARGET_RATES = {(3, False): 60, (3, True): 200, (40, True): 100}
"""Finished jobs per second, by workers and whether the machine has many cores; other runs have no target."""
STAGES = ("admitted", "running", "finished")
CREATORS = 8
SHOWN = 5
"""Fleets of more clusters are shown as a sum."""
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"


class Condition(msgspec.Struct):
    type: str
    status: str


class Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] = {}


class Status(msgspec.Struct):
    conditions: list[Condition] = []
    phase: str = ""

    def has(self, type_: str) -> bool:
        return any(entry.type == type_ and entry.status == "True" for entry in self.conditions)


class Object(msgspec.Struct):
    metadata: Metadata
    status: Status = msgspec.field(default_factory=Status)


class Event(msgspec.Struct):
    type: str
    object: Object


decode = msgspec.json.Decoder(Event).decode


def fleet_file(folder: Path, workers: int, jobs: int, dispatcher: str) -> Path:
    """A fleet whose every worker has room for all jobs."""
    configuration = folder / "manager.yaml"
    configuration.write_text(yaml.safe_dump({"multiKueue": {"dispatcherName": DISPATCHERS[dispatcher]}}))
    clusters: list[dict[str, object]] = [{"name": "manager", "roles": ["manager"], "config": str(configuration)}]
    for number in range(1, workers + 1):
        node = {"name": "node", "cpu": str(jobs), "memory": f"{jobs}Gi", "pods": 2 * jobs}
        clusters.append({"name": f"worker{number}", "roles": ["worker"], "runtime": "simulated", "nodes": [node]})
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump({"clusters": clusters}))
    return file


def job(name: str, seconds: float) -> bytes:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    return json.dumps(document).encode()


class Cluster:
    """One cluster of the fleet as this process talks to it."""

    def __init__(self, name: str, found: Access, pid: int) -> None:
        self.name, self.pid = name, pid
        self._port = int(found.server.rpartition(":")[2])
        self._context: ssl.SSLContext = found.ssl_context()

    async def connect(self) -> Connection:
        return await Connection(self._port, "", self._context).open()

    async def metrics(self) -> Counter[str]:
        """Requests served so far by verb, watches apart."""
        connection = await self.connect()
        _, content = await connection.request("GET", "/metrics")
        connection.close()
        counts: Counter[str] = Counter()
        for line in content.decode().splitlines():
            if line.startswith("apiserver_request_total") and 'verb="WATCH"' not in line:
                verb, resource = line.partition('verb="')[2].partition('"')[0], line.partition('resource="')[2]
                counts[f"{verb} {resource.partition(chr(34))[0]}"] += int(line.rpartition(" ")[2])
        return counts

    async def revision(self) -> int:
        connection = await self.connect()
        _, content = await connection.request("GET", "/api/v1/namespaces?limit=1")
        connection.close()
        return int(json.loads(content)["metadata"]["resourceVersion"])


class Cost(NamedTuple):
    """What one job costs a cluster."""

    milliseconds: float = 0.0
    writes: float = 0.0
    calls: float = 0.0

    def __str__(self) -> str:
        return f"{self.milliseconds:6.2f} ms CPU, {self.writes:5.2f} writes, {self.calls:5.2f} API calls"


class Observer:
    """When each job reached each stage, seen through watches."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.reached: dict[str, dict[str, float]] = {stage: {} for stage in STAGES}
        self.copies: set[str] = set()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def follow(self, manager: Cluster, workers: list[Cluster]) -> None:
        await self._watch(manager, JOBS, self._manager_job)
        for worker in workers:
            await self._watch(worker, WORKLOADS, self._copy)
            await self._watch(worker, PODS, self._pod)

    async def wait(self, stage: str, count: int, timeout: float = 300) -> None:
        async with asyncio.timeout(timeout):
            while len(self.reached[stage]) < count:
                self._news.clear()
                await self._news.wait()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _watch(self, cluster: Cluster, path: str, take: object) -> None:
        connection, ready = await cluster.connect(), asyncio.Event()

        async def read() -> None:
            async for line in connection.watch(f"{path}?watch=true", ready):
                if line:
                    take(decode(line))  # type: ignore[operator]

        self._tasks.append(asyncio.create_task(read()))
        await ready.wait()

    def _reach(self, stage: str, name: str) -> None:
        if name not in self.reached[stage]:
            self.reached[stage][name] = time.perf_counter()
            self._news.set()

    def _copy(self, event: Event) -> None:
        self.copies.add(event.object.metadata.uid)
        if event.object.status.has("Admitted"):
            # A Job's Workload is named job-NAME-HASH.
            self._reach("admitted", event.object.metadata.name.removeprefix("job-").rpartition("-")[0])

    def _pod(self, event: Event) -> None:
        if event.object.status.phase in ("Running", "Succeeded"):
            self._reach("running", event.object.metadata.labels["batch.kubernetes.io/job-name"])

    def _manager_job(self, event: Event) -> None:
        if event.object.status.has("Complete"):
            self._reach("finished", event.object.metadata.name)

    def describe(self, stage: str, names: list[str]) -> str:
        taken = (self.reached[stage][name] - self.created[name] for name in names)
        return f"create to {stage:<9} {spread(taken, 'ms', 1000)}"


async def create(observer: Observer, connection: Connection, name: str, seconds: float) -> None:
    observer.created[name] = time.perf_counter()
    status, content = await connection.request("POST", JOBS, job(name, seconds))
    if status != 201:
        raise RuntimeError(f"creating {name}: {status} {content.decode()}")


async def unloaded(observer: Observer, manager: Cluster, samples: int) -> None:
    connection = await manager.connect()
    names = [f"single-{number}" for number in range(samples + 5)]
    for number, name in enumerate(names):
        await create(observer, connection, name, 0.1)
        await observer.wait("finished", number + 1)
    connection.close()
    print(f"one at a time, {samples} jobs after 5 to warm up:")
    for stage in STAGES[:2]:
        target = f" (target p99 <= {TARGET_ADMITTED_MS} ms)" if stage == "admitted" else ""
        print("  " + observer.describe(stage, names[5:]) + target)


async def loaded(observer: Observer, manager: Cluster, clusters: list[Cluster], options: argparse.Namespace) -> None:
    names = [f"many{os.getpid()}-{number}" for number in range(options.jobs)]
    before = len(observer.reached["finished"])
    copies = len(observer.copies)
    revisions = [await cluster.revision() for cluster in clusters]
    requests = [await cluster.metrics() for cluster in clusters]
    spent = [cpu_seconds(cluster.pid) for cluster in clusters]
    began = time.perf_counter()

    async def creator(number: int) -> None:
        connection = await manager.connect()
        for name in names[number::CREATORS]:
            await create(observer, connection, name, options.run_seconds)
        connection.close()

    await asyncio.gather(*(creator(number) for number in range(CREATORS)))
    print(f"{options.jobs} jobs by {CREATORS} clients, created in {time.perf_counter() - began:.1f} s:")
    await observer.wait("finished", before + len(names))
    for stage in STAGES:
        rate = len(names) / (max(observer.reached[stage][name] for name in names) - began)
        wanted = (
            TARGET_RATES.get((options.workers, (os.cpu_count() or 1) >= MANY_CORES)) if stage == "finished" else None
        )
        target = f" (target >= {wanted})" if wanted is not None else ""
        print(f"  {observer.describe(stage, names)}   {rate:6.1f} jobs/s{target}")
    exact = " (target 1.00)" if options.dispatcher == "late-binding" else ""
    print(f"  copies per job {(len(observer.copies) - copies) / len(names):.2f}{exact}")
    calls: Counter[str] = Counter()
    total = Cost()
    for cluster, earlier, cpu, revision in zip(clusters, requests, spent, revisions, strict=True):
        served = await cluster.metrics()
        if cluster is not manager:
            calls.update(served - earlier)
        cost = Cost(
            (cpu_seconds(cluster.pid) - cpu) / len(names) * 1000,
            (await cluster.revision() - revision) / len(names),
            (served - earlier).total() / len(names),
        )
        total = Cost(*(one + other for one, other in zip(total, cost, strict=True)))
        if len(clusters) <= SHOWN or cluster is manager:
            print(f"  {cluster.name:<12} per job: {cost}")
    print(f"  all clusters per job: {total}; load {os.getloadavg()[0]:.1f}")
    listed = ", ".join(
        f"{call} {count / len(names):.2f}" for call, count in calls.most_common() if count * 20 > len(names)
    )
    print(f"  calls to workers per job: {calls.total() / len(names):.2f} ({listed})")
    own = os.times()
    print(f"  this process used {own.user + own.system:.1f} s")


async def measure(state: Path, options: argparse.Namespace) -> None:
    found = processes(state)
    names = [name for name in found if name != "supervisor"]
    clusters = [
        Cluster(name, access(load(state / "clusters" / name / "admin.kubeconfig"), ""), found[name]) for name in names
    ]
    observer = Observer()
    await observer.follow(clusters[0], clusters[1:])
    await unloaded(observer, clusters[0], options.samples)
    if options.jobs:
        await loaded(observer, clusters[0], clusters, options)
    observer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--run-seconds", type=float, default=1.0, help="how long a pod runs")
    parser.add_argument("--dispatcher", choices=DISPATCHERS, default="all-at-once")
    parser.add_argument("--all", action="store_true", help="every run there is a figure for, one after the other")
    options = parser.parse_args()
    rows = ROWS if options.all else [(options.workers, options.dispatcher, options.jobs)]
    for workers, dispatcher, jobs in rows:
        run(argparse.Namespace(**{**vars(options), "workers": workers, "dispatcher": dispatcher, "jobs": jobs}))


def run(options: argparse.Namespace) -> None:
    print(f"{options.workers} workers, {options.dispatcher}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        as_installed(str(Path(folder, "bytecode")))
        state = Path(folder, "fleet")
        file = fleet_file(Path(folder), options.workers, options.jobs + options.samples + 100, options.dispatcher)
        subprocess.run(
            [*CORRAL, "up", "--state", str(state), "-f", str(file), "--overcommit"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        try:
            asyncio.run(measure(state, options))
        finally:
            stop(state)


if __name__ == "__main__":
    main()
