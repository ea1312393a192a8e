"""How fast a hub places: many members, many placements, everything in one process and the members' part scripted.

    python bench/fleet/placements.py [--members 100] [--placements 1000]

prints seconds of CPU time: one placement to all members, a burst of one-Job placements, and a resync of all of them
after the hub's controllers were restarted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "simulation" / "placement"))

from bench.counting import Counts
from hub import Hub

from corral.core.conditions import is_true
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual


def policy() -> Obj:
    sorters = [
        {
            "weight": weight,
            "preference": {
                "propertySorter": {"name": f"resources.kubernetes-fleet.io/available-{what}", "sortOrder": "Descending"}
            },
        }
        for weight, what in ((40, "cpu"), (30, "memory"))
    ]
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": sorters}}
    return {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity}


async def place_jobs(hub: Hub, count: int) -> None:
    await hub.client.create(NAMESPACES, {"metadata": {"name": "jobs"}})
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    for number in range(count):
        name = f"job{number}"
        job = {"metadata": {"name": name, "namespace": "jobs"}, "spec": {"suspend": True, "template": template}}
        await hub.client.create(JOBS, job)
        selector = {"group": "batch", "version": "v1", "kind": "Job", "name": name}
        spec = {"resourceSelectors": [selector], "policy": policy()}
        await hub.client.create(RESOURCE_PLACEMENTS, {"metadata": {"name": name, "namespace": "jobs"}, "spec": spec})


async def all_available(hub: Hub) -> None:
    while True:
        found = (await hub.client.list(RESOURCE_PLACEMENTS)).items
        if all(is_true(one, "ResourcePlacementAvailable") for one in found):
            return
        await asyncio.sleep(0.05)


async def restart(hub: Hub) -> None:
    """Start the hub's controllers again on what is stored."""
    await hub.cluster.manager.stop()
    hub.cluster.manager = Manager(hub.client, hub.cluster.clock, hub.cluster.random)
    for register in (hub._set_up, hub.members.setup):
        register(hub.cluster.manager)
    await hub.cluster.manager.start()
    await hub.settle()


async def measure(members: int, placements: int, *, count: bool) -> None:
    hub = Hub()
    async with hub.cluster:
        begin = time.process_time()
        await hub.join(*(f"member-{number:04}" for number in range(members)))
        print(f"{members} members join: {time.process_time() - begin:.2f} s")
        await hub.namespace("app", **{f"conf{number}": {"a": "1"} for number in range(10)})
        begin = time.process_time()
        await hub.place("app")
        assert (await hub.conditions("app"))["Available"][0] == "True"
        target = " (target 1 s)" if members == 100 else ""
        print(f"one placement of 10 ConfigMaps to {members} members: {time.process_time() - begin:.2f} s{target}")
        counts = Counts()
        if count:
            counts.follow(hub.cluster.api, hub.cluster.manager)
        begin = time.process_time()
        await place_jobs(hub, placements)
        await all_available(hub)
        took = time.process_time() - begin
        if count:
            counts.print(placements)
        print(f"{placements} one-Job placements: {took:.2f} s = {placements / took:.0f}/s (target 500/s)")
        begin = time.process_time()
        await restart(hub)
        print(f"resync of {placements + 1} placements: {time.process_time() - begin:.2f} s (target 30 s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--placements", type=int, default=1000)
    parser.add_argument("--count", action="store_true", help="print writes and reconciles of a one-Job placement")
    arguments = parser.parse_args()
    run_virtual(lambda: measure(arguments.members, arguments.placements, count=arguments.count))


if __name__ == "__main__":
    main()
