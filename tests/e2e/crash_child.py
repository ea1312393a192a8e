"""A control plane to be killed: runs a process cluster on a state folder until it is told, or made, to stop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.e2e.process_cluster import ProcessCluster

from corral.core.errors import AlreadyExists
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS


def job(name: str, data: str) -> Obj:
    """A job that notes each of its runs in a file of the machine."""
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "echo $NAME >> /data/started; sleep $SECONDS_TO_RUN; echo $NAME >> /data/finished"],
        "env": [
            {"name": "NAME", "value": name},
            {"name": "SECONDS_TO_RUN", "value": f"{1 + int(name.rpartition('-')[2]) % 7 / 2}"},
        ],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "data", "hostPath": {"path": data}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"backoffLimit": 0, "template": {"spec": spec}},
    }


async def main(state: Path, data: str, count: int) -> None:
    cluster = ProcessCluster(state, network="127.78.0.0/16")
    await cluster.start()
    for number in range(count):
        try:
            await cluster.client.create(JOBS, job(f"job-{number}", data))
        except AlreadyExists:
            pass
    while True:
        jobs = (await cluster.client.list(JOBS, "default")).items
        done = sum(1 for entry in jobs if (entry.get("status") or {}).get("completionTime"))
        print(done, flush=True)
        if done == count:
            break
        await asyncio.sleep(0.1)
    counters = {(entry["status"].get("succeeded"), entry["status"].get("failed")) for entry in jobs}
    print("counters", sorted(counters, key=str), flush=True)
    await cluster.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
