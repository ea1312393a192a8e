"""1,000 real Jobs of `/bin/true`, end to end: created, scheduled, run as processes, counted, complete. Prints jobs/s.

python -m bench.node.real_jobs [count]
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.process_cluster import ProcessCluster

from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.node.node import NodeSpec


def job(number: int) -> Obj:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["/bin/true"],
        "resources": {"requests": {"cpu": "100m"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def run(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = NodeSpec("node1", {"cpu": "16", "memory": "64Gi", "pods": "250"})
        cluster = ProcessCluster(Path(folder) / "state", [node], network="127.79.0.0/16")
        await cluster.start()
        began = time.perf_counter()
        for number in range(count):
            await cluster.client.create(JOBS, job(number))
        created = time.perf_counter() - began
        done = 0
        while done < count:
            await asyncio.sleep(0.5)
            jobs = (await cluster.client.list(JOBS, "default")).items
            done = sum(1 for entry in jobs if (entry.get("status") or {}).get("completionTime"))
        took = time.perf_counter() - began
        await cluster.stop()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count} jobs: created in {created:.1f} s, complete in {took:.1f} s, {count / took:.0f} jobs/s, {memory} MB")


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
