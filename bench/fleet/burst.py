"""A burst of one-Job placements on a real fleet: a hub and members over HTTPS on loopback, pods simulated:

    python bench/fleet/burst.py [--members 3] [--placements 100]

prints how long it took until every placement was available on the hub, how the jobs were spread over the members, and
the CPU time of every process: on a busy machine that is the figure to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.start.run import CORRAL, as_installed, cpu_seconds, processes, stop

from corral.client.http import HttpClient
from corral.client.kubeconfig import access, load
from corral.core.conditions import is_true
from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import NAMESPACES

CREATORS = 8


def policy() -> Obj:
    sorter = {"name": "resources.kubernetes-fleet.io/available-cpu", "sortOrder": "Descending"}
    terms = [{"weight": 100, "preference": {"propertySorter": sorter}}]
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity}


async def place_namespace(hub: HttpClient) -> None:
    await hub.create(NAMESPACES, {"metadata": {"name": "burst"}})
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "burst", "selectionScope": "NamespaceOnly"}
    body = {"metadata": {"name": "burst"}, "spec": {"resourceSelectors": [selector]}}
    await hub.create(CLUSTER_RESOURCE_PLACEMENTS, body)
    while not is_true(await hub.get(CLUSTER_RESOURCE_PLACEMENTS, "burst"), "ClusterResourcePlacementAvailable"):  # noqa: ASYNC110
        await asyncio.sleep(0.2)


async def place_job(hub: HttpClient, name: str) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "namespace": "burst"}
    await hub.create(JOBS, {"metadata": metadata, "spec": {"suspend": True, "template": template}})
    selector = {"group": "batch", "version": "v1", "kind": "Job", "name": name}
    await hub.create(
        RESOURCE_PLACEMENTS, {"metadata": metadata, "spec": {"resourceSelectors": [selector], "policy": policy()}}
    )


async def place_all(hub: HttpClient, count: int) -> None:
    names = iter([f"job{number}" for number in range(count)])

    async def create() -> None:
        for name in names:
            await place_job(hub, name)

    await asyncio.gather(*(create() for _ in range(CREATORS)))


async def all_available(hub: HttpClient, count: int) -> list[Obj]:
    """Watch until every placement is there; polling would be work for the hub too."""
    found: dict[str, Obj] = {}
    async for event in hub.watch(RESOURCE_PLACEMENTS, "burst", resource_version="0"):
        if event.type in ("ADDED", "MODIFIED") and is_true(event.obj, "ResourcePlacementAvailable"):
            found[event.obj["metadata"]["name"]] = event.obj
            if len(found) == count:
                break
    return list(found.values())


async def measure(state: Path, count: int) -> None:
    (config,) = list(state.rglob("kubeconfig"))[:1]
    hub = HttpClient(access(load(config), "corral-hub"))
    found = processes(state)
    await place_namespace(hub)
    before = {name: cpu_seconds(pid) for name, pid in found.items()}
    began = time.monotonic()
    watching = asyncio.create_task(all_available(hub, count))
    await place_all(hub, count)
    created = time.monotonic() - began
    placed = await watching
    took = time.monotonic() - began
    print(f"{count} one-Job placements, load {os.getloadavg()[0]:.1f}: created in {created:.2f} s, ", end="")
    print(f"available after {took:.2f} s = {count / took:.0f}/s (target >= 100/s)")
    clusters = Counter(one["clusterName"] for obj in placed for one in status_of(obj)["placementStatuses"])
    print("spread: " + ", ".join(f"{name} {number}" for name, number in sorted(clusters.items())))
    spent = {name: cpu_seconds(pid) - before[name] for name, pid in found.items()}
    print(
        f"CPU per placement: {sum(spent.values()) / count * 1000:.1f} ms, {spent['hub'] / count * 1000:.1f} of it the hub's"
    )
    print("CPU seconds: " + "  ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items()))
    await hub.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--placements", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as compiled, tempfile.TemporaryDirectory() as folder:
        as_installed(compiled)
        state = Path(folder, "fleet")
        arguments = ["--fleet", str(options.members), "--simulated", "--state", str(state)]
        subprocess.run([*CORRAL, "up", *arguments], check=True, stdout=subprocess.DEVNULL)
        try:
            asyncio.run(measure(state, options.placements))
        finally:
            stop(state)


if __name__ == "__main__":
    main()
