"""Queueing and dispatch over real API servers, Corral's controllers and Kueue's own manager in the same run:

    KUBE_TOOLS=~/.cache/corral/kube/bin python -m bench.real.beside_kueue [queueing|dispatch ...] [--jobs 200] [--single 20] [--calls]

Each side gets API servers of its own, started alike one after the other: etcd, kube-apiserver and kube-controller-manager, no nodes.
Jobs come suspended (and, where they are dispatched, with `managedBy`), so that neither side needs webhooks. A job is admitted when its
Workload says so, on a worker where jobs are dispatched. First one job at a time, then all at once from 8 creators. "The calls alone"
are those that admitting takes, by `bench/real/bare.py`, which decides nothing. Calls are counted
by user agent in the audit logs of all API servers, with `--calls` also by cluster, verb and kind; CPU and memory are those of all controllers of a side together."""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "kubernetes"))

from cluster import AUDIT, ControlPlane, eventually, programs
from real_kueue import RealKueue, program

from bench.real.audit import calls_of
from bench.real.sizing import start, used
from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.clusters.definitions import established, install
from corral.core import conditions
from corral.core.meta import Obj, name_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import NAMESPACES, SECRETS
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from corral.runtime.clock import WallClock

CREATORS = 8
PATIENCE_S = 600.0
QUIET_S, QUIET_CALLS = 5.0, 5
RARE = 0.02
"""Calls fewer than this for each job are not listed."""
AGENT = "bench"
CLIENT_LIMITS = {"as shipped": (50, 100), "limits lifted": (2000, 4000)}
"""Kueue's own limits of its calls: those of its manifests, and so many that they do not matter."""
CALLS_ALONE = "the calls alone"
"""Of queueing: what nobody can be faster than."""
SIDE_BY_SIDE = {
    "Job.batch": 5,
    "Workload.kueue.x-k8s.io": 5,
    "LocalQueue.kueue.x-k8s.io": 1,
    "ClusterQueue.kueue.x-k8s.io": 1,
}
"""How many objects Kueue's manifests let it work on at once."""


@dataclass
class Side:
    """One of both: how its controllers are started over a cluster, and how they call themselves."""

    name: str
    agents: str
    start: Callable[[ControlPlane, Path, bool], subprocess.Popen[bytes] | RealKueue]


def start_corral(plane: ControlPlane, folder: Path, dispatches: bool) -> subprocess.Popen[bytes]:
    config = folder / "configuration.yaml"
    config.write_text("integrations: {frameworks: [batch/job]}")
    roles = "queueing,dispatch" if dispatches else "queueing"
    return start(folder / "log", [f"--roles={roles}", f"--kubeconfig={plane.kubeconfig}", f"--config={config}"])


def start_bare(plane: ControlPlane, folder: Path, dispatches: bool) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.real.bare", str(plane.kubeconfig)])


def start_kueue(limits: str) -> Callable[[ControlPlane, Path, bool], RealKueue]:
    def started(plane: ControlPlane, folder: Path, dispatches: bool) -> RealKueue:
        qps, burst = CLIENT_LIMITS[limits]
        more = {"clientConnection": {"qps": qps, "burst": burst}, "controller": {"groupKindConcurrency": SIDE_BY_SIDE}}
        made = RealKueue(plane, folder, ["batch/job"], more)
        made.start()
        return made

    return started


SIDES = [
    *(Side(f"Kueue, {limits}", "kueue", start_kueue(limits)) for limits in CLIENT_LIMITS),
    Side("Corral", "corral", start_corral),
    Side(CALLS_ALONE, "bare", start_bare),
]


@dataclass
class Measured:
    """What came of one side in one test."""

    latencies: list[float] = field(default_factory=list)
    per_second: float = 0.0
    calls: float = 0.0
    cpu_ms: float = 0.0
    mib: float = 0.0
    by_kind: dict[str, float] = field(default_factory=dict)
    """Calls for each job, by cluster, verb and kind."""

    def line(self, name: str) -> str:
        p50, worst = statistics.median(self.latencies) * 1000, max(self.latencies) * 1000
        return f"| {name} | {p50:.0f}, {worst:.0f} ms | {self.per_second:.1f} | {self.calls:.1f} | {self.cpu_ms:.1f} ms | {self.mib:.0f} MiB |"


class Run:
    """One side over its own API servers: one that queues, or a manager and its workers."""

    def __init__(self, folder: Path, side: Side, workers: int) -> None:
        binaries = programs()
        assert binaries is not None
        self._side, self._folder = side, folder
        names = ["manager", *(f"worker{number + 1}" for number in range(workers))]
        self.planes = {name: ControlPlane(name, folder / name, binaries) for name in names}
        self.workers = names[1:]
        self.controllers: list[subprocess.Popen[bytes] | RealKueue] = []
        self.clients: dict[str, HttpClient] = {}
        self.admitted: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Run:
        for name, plane in self.planes.items():
            (self._folder / name).mkdir(parents=True)
            policy = self._folder / name / "audit.yaml"
            policy.write_text(yaml.safe_dump(AUDIT))
            plane.start(
                options=(f"--audit-policy-file={policy}", f"--audit-log-path={self._folder / name / 'audit.log'}")
            )
            access = kubeconfig.access(kubeconfig.load(plane.kubeconfig), "", folder=plane.folder)
            client = self.clients[name] = HttpClient(access, user_agent=AGENT)
            made = await install(client)
            assert not await established(client, WallClock(), made.created)
            await eventually(lambda client=client: client.get(NAMESPACES, "default"))
            folder = self._folder / f"{name}-controllers"
            folder.mkdir()
            self.controllers.append(self._side.start(plane, folder, bool(self.workers) and name == "manager"))
        if self.workers:
            await self._introduce()
        for name, client in self.clients.items():
            await self._make_queue(client, dispatches=bool(self.workers) and name == "manager")
        for client in self.clients.values():
            await eventually(lambda client=client: _is_active(client))
        for name in self.workers or ["manager"]:
            self._watching.append(asyncio.ensure_future(self._watch(self.clients[name])))
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for client in self.clients.values():
            await client.close()
        for each in self.controllers:
            if isinstance(each, RealKueue):
                each.stop()
            else:
                each.terminate()
                each.wait(60)
        for plane in self.planes.values():
            plane.stop()

    async def _introduce(self) -> None:
        manager = self.clients["manager"]
        for name in self.workers:
            text = yaml.safe_dump(kubeconfig.load(self.planes[name].kubeconfig)).encode()
            data = {"kubeconfig": base64.b64encode(text).decode()}
            await manager.create(SECRETS, {"metadata": {"name": name, "namespace": "kueue-system"}, "data": data})
            source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
            await manager.create(MULTI_KUEUE_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterSource": source}})
        await manager.create(MULTI_KUEUE_CONFIGS, {"metadata": {"name": "all"}, "spec": {"clusters": self.workers}})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        await manager.create(ADMISSION_CHECKS, {"metadata": {"name": "multikueue"}, "spec": spec})

    async def _make_queue(self, client: HttpClient, *, dispatches: bool) -> None:
        await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
        flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "100k"}]}
        spec: Obj = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}
        if dispatches:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "multikueue"}]}
        await client.create(CLUSTER_QUEUES, {"metadata": {"name": "queue"}, "spec": spec})
        queue = {"metadata": {"name": "queue", "namespace": "default"}, "spec": {"clusterQueue": "queue"}}
        await client.create(LOCAL_QUEUES, queue)

    async def _watch(self, client: HttpClient) -> None:
        while True:
            async for event in client.watch(WORKLOADS):
                if event.type != "DELETED" and conditions.is_true(event.obj, "Admitted"):
                    self.admitted.setdefault(_job_of(name_of(event.obj)), time.monotonic())
                    self._changed.set()

    # measuring

    async def create(self, name: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
        spec: Obj = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
        if self.workers:
            spec["managedBy"] = "kueue.x-k8s.io/multikueue"
        await self.clients["manager"].create(JOBS, {"metadata": metadata, "spec": spec})

    async def until(self, names: set[str]) -> None:
        """Return once all of these are admitted."""
        async with asyncio.timeout(PATIENCE_S):
            while not names <= self.admitted.keys():
                self._changed.clear()
                await self._changed.wait()

    async def measure(self, single: int, jobs: int) -> Measured:
        found = Measured()
        await self.create("first")
        await self.until({"first"})
        for number in range(single):
            began = time.monotonic()
            await self.create(f"single-{number}")
            await self.until({f"single-{number}"})
            found.latencies.append(self.admitted[f"single-{number}"] - began)
        before, calls = self._used(), self._calls()
        names = [f"many-{number}" for number in range(jobs)]
        began, gate = time.monotonic(), asyncio.Semaphore(CREATORS)

        async def one(name: str) -> None:
            async with gate:
                await self.create(name)

        await asyncio.gather(*(one(name) for name in names))
        await self.until(set(names))
        found.per_second = jobs / (max(self.admitted[name] for name in names) - began)
        await self._quiet()  # what follows an admission belongs to its price
        after = self._used()
        found.by_kind = {what: count / jobs for what, count in (self._calls() - calls).most_common()}
        found.calls = sum(found.by_kind.values())
        found.cpu_ms, found.mib = (after[1] - before[1]) / jobs * 1000, after[0]
        return found

    async def _quiet(self) -> None:
        """Return when next to no calls are made any more: until then jobs are still being started where they were admitted."""
        before = self._calls()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await asyncio.sleep(QUIET_S)
                after = self._calls()
                if (after - before).total() < QUIET_CALLS:
                    return
                before = after

    def _used(self) -> tuple[float, float]:
        """Resident MiB and CPU seconds of all controllers."""
        each = [used(controller) for controller in self.controllers]
        return sum(memory for memory, _ in each), sum(cpu for _, cpu in each)

    def _calls(self) -> Counter[str]:
        """The calls so far; those of all workers together."""
        found: Counter[str] = Counter()
        for name in self.planes:
            where = "worker" if name in self.workers else "manager"
            for what, count in calls_of(self._folder / name / "audit.log", self._side.agents).items():
                found[f"{where}: {what}"] += count
        return found


def _job_of(workload: str) -> str:
    """Workloads of jobs are called job-NAME-HASH, on workers too."""
    return re.sub(r"^job-(.*)-[0-9a-f]+$", r"\1", workload)


async def _is_active(client: HttpClient) -> bool:
    return conditions.is_true(await client.get(CLUSTER_QUEUES, "queue"), "Active")


async def compare(test: str, options: argparse.Namespace, folder: Path) -> None:
    workers = options.workers if test == "dispatch" else 0
    print(
        f"\n{test}: {options.single} jobs one at a time, then {options.jobs} at once, {workers} workers, load {os.getloadavg()[0]:.1f}"
    )
    print(
        "| | create to admitted: p50, slowest | jobs/s | calls/job | CPU/job | memory |\n|---|---|---|---|---|---|",
        flush=True,
    )
    found: dict[str, Measured] = {}
    for number, side in enumerate(SIDES):
        if side.name not in options.sides or (program() is None and side.agents == "kueue"):
            continue
        if side.name == CALLS_ALONE and workers:
            continue
        async with Run(folder / f"{test}-{number}", side, workers) as run:
            found[side.name] = await run.measure(options.single, options.jobs)
        print(found[side.name].line(side.name), flush=True)
        if options.calls:
            calls = found[side.name].by_kind.items()
            print("\n".join(f"    {count:5.2f} {what}" for what, count in calls if count >= RARE), flush=True)
    corral = found.get("Corral")
    if corral is None:
        return
    for name, other in found.items():
        if name != "Corral":
            faster = corral.per_second / other.per_second
            latency = statistics.median(corral.latencies) / statistics.median(other.latencies)
            print(
                f"{test}, Corral against {name}: {faster:.1f} times the jobs per second, {latency:.2f} of the latency",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["queueing", "dispatch"])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--single", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sides", nargs="*", default=[side.name for side in SIDES], help="which of the sides")
    parser.add_argument("--calls", action="store_true", help="list the calls for each job by cluster, verb and kind")
    options = parser.parse_args()
    if programs() is None:
        raise SystemExit("no real kube-apiserver here; `make kube-tools` builds one, KUBE_TOOLS says where it is")
    if program() is None:
        print("no Kueue manager here (`make kueue` builds one): Corral by itself")
    with tempfile.TemporaryDirectory(prefix="corral-beside-", ignore_cleanup_errors=True) as name:
        for test in options.tests:
            asyncio.run(compare(test, options, Path(name)))


if __name__ == "__main__":
    main()
