"""The calls that admitting a job takes, one after the other, and nothing else: `python -m bench.real.bare KUBECONFIG`.

Nobody decides anything here, no Event is written and nothing is looked up: what is left is what the API server itself costs whoever admits
jobs through Workloads, so nobody can be faster on it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.core.meta import Obj, name_of, resource_version_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS

AGENT = "bare"
NOW = "2026-01-01T00:00:00Z"


def workload_of(job: Obj) -> Obj:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(job), "uid": uid_of(job), "controller": True}
    pods = {"name": "main", "count": 1, "template": job["spec"]["template"]}
    metadata = {"name": f"job-{name_of(job)}-0", "namespace": "default", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"queueName": "queue", "podSets": [pods]}}


def admitted(workload: Obj) -> Obj:
    held = ("name", "namespace", "uid", "resourceVersion")
    usage = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "100m"}, "count": 1}
    return {
        "metadata": {name: workload["metadata"][name] for name in held},
        "status": {
            "admission": {"clusterQueue": "queue", "podSetAssignments": [usage]},
            "conditions": [true("QuotaReserved"), true("Admitted")],
        },
    }


def true(kind: str) -> Obj:
    return {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": NOW}


async def admit(client: HttpClient, job: Obj) -> None:
    workload = await client.create(WORKLOADS, workload_of(job))
    await client.apply(WORKLOADS, admitted(workload), manager="bare", subresource="status")
    await client.patch(JOBS, name_of(job), "default", {"spec": {"suspend": False}})


async def open_queue(client: HttpClient) -> None:
    async for event in client.watch(CLUSTER_QUEUES):
        if event.type == "ADDED":
            status = {"conditions": [true("Active")]}
            await client.update(CLUSTER_QUEUES, {**event.obj, "status": status}, subresource="status")
            return


async def run(path: Path) -> None:
    client = HttpClient(kubeconfig.access(kubeconfig.load(path), folder=path.parent), user_agent=AGENT)
    version = (await client.list(JOBS)).resource_version
    await open_queue(client)
    under_way = set[asyncio.Task[None]]()
    while True:
        async for event in client.watch(JOBS, resource_version=version):
            version = resource_version_of(event.obj)
            if event.type == "ADDED":
                task = asyncio.create_task(admit(client, event.obj))
                under_way.add(task)
                task.add_done_callback(under_way.discard)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
