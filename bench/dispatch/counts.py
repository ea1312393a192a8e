"""What a dispatched job costs, in one process on virtual time: writes by kind and operation, reconciles, CPU.

    python bench/dispatch/counts.py [--workers 3] [--jobs 300] [--dispatcher all-at-once|incremental|late-binding]
    python bench/dispatch/counts.py --burst --latency 0.2 --dispatcher late-binding   # all jobs at once, to workers far away

The fleet is simulated: no HTTPS, no disk, everything in this process. So CPU per job is the controllers' and the APIs' own, and
counts do not depend on the machine. `bench/dispatch/run.py` measures a real fleet.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.counting import Counts
from bench.dispatch.run import DISPATCHERS
from bench.spread import spread

from corral.core.conditions import is_true
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.runtime.virtual import run_virtual
from corral.server.gc_tuning import calm_collector
from corral.simulate.fleet import SimulatedFleet
from corral.store import Event

BATCH = 50


class Starts:
    """When the pods of jobs began to run, on the virtual clock."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.running: dict[str, float] = {}

    def see(self, event: Event) -> None:
        if event.stored.key.resource == "pods" and (event.stored.obj.get("status") or {}).get("phase") == "Running":
            name = event.stored.obj["metadata"]["labels"]["batch.kubernetes.io/job-name"]
            self.running.setdefault(name, asyncio.get_running_loop().time())

    def __str__(self) -> str:
        taken = (self.running[name] - since for name, since in self.created.items())
        return f"create to running {spread(taken, 's', digits=2)}"


def job(name: str) -> Obj:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "1.0"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    return {"metadata": metadata, "spec": {"template": template}}


async def finished(fleet: SimulatedFleet) -> None:
    while True:
        found = (await fleet.manager.client.list(JOBS, "default")).items
        if all(is_true(one, "Complete") for one in found):
            return
        await asyncio.sleep(0.5)


async def run_jobs(
    fleet: SimulatedFleet, prefix: str, count: int, starts: Starts | None = None, batch: int = BATCH
) -> None:
    for start in range(0, count, batch):
        part = [f"{prefix}-{number}" for number in range(start, min(count, start + batch))]
        if starts is not None:
            starts.created |= dict.fromkeys(part, asyncio.get_running_loop().time())
        await asyncio.gather(*(fleet.manager.client.create(JOBS, job(name)) for name in part))
        await asyncio.sleep(0.5)
    await finished(fleet)
    await asyncio.sleep(5)


async def measure(options: argparse.Namespace) -> None:
    names = [f"worker{number + 1}" for number in range(options.workers)]
    configuration = {"multiKueue": {"dispatcherName": DISPATCHERS[options.dispatcher]}}
    latency = (lambda: options.latency) if options.latency else None
    async with SimulatedFleet(names, configuration=configuration, cpu="10000", latency=latency) as fleet:
        await fleet.introduce()
        await fleet.set_up_queues(manager_cpu="10000", worker_cpu="10000")
        await run_jobs(fleet, "warm", 10)
        counts = Counts()
        if options.count:
            counts.follow(fleet.manager.api, fleet.manager.manager, name="manager")
            for worker in fleet.workers.values():
                counts.follow(worker.api, worker.manager, name="workers")
        revisions = sum(cluster.store.revision for cluster in fleet.clusters)
        starts = Starts()
        for worker in fleet.workers.values():
            worker.store.observe(starts.see)
        begin = time.process_time()
        await run_jobs(fleet, "job", options.jobs, starts, options.jobs if options.burst else BATCH)
        took = time.process_time() - begin
        if options.count:
            counts.print(options.jobs)
        revisions = sum(cluster.store.revision for cluster in fleet.clusters) - revisions
        print(
            f"{options.workers} workers, {options.dispatcher}, {options.jobs} jobs: {revisions / options.jobs:.1f} revisions"
            f" and {took / options.jobs * 1000:.2f} ms CPU per job; {starts}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--dispatcher", choices=DISPATCHERS, default="all-at-once")
    parser.add_argument("--burst", action="store_true", help="create all jobs at once")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds each way to a worker")
    parser.add_argument("--count", action="store_true", help="print writes and reconciles of a job")
    options = parser.parse_args()
    calm_collector()
    run_virtual(lambda: measure(options))


if __name__ == "__main__":
    main()
