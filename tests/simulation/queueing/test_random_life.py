"""Random arrivals, stops, edits and restarts: quota holds at every instant, nothing is lost, everything ends."""

from __future__ import annotations

import asyncio
import random

import pytest

from corral.core import conditions
from corral.core.errors import Conflict, NotFound
from corral.core.meta import Key, Obj, key_of, name_of, spec_of
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.jobs import workload as wl
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster

from .world import JOBS, cluster_queue, flavor, job, local_queue

QUEUES = ("a", "b", "c")
NOMINAL = 4
PREEMPTION = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


class Watcher:
    """Follows every write of a Workload and adds up what is reserved at that instant."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.held: dict[Key, int] = {}
        self.problems: list[str] = []

    async def run(self) -> None:
        async for event in self.cluster.client.watch(WORKLOADS, resource_version="0"):
            self._take(event.obj, gone=event.type == "DELETED")

    def _take(self, workload: Obj, *, gone: bool) -> None:
        key = key_of(workload)
        if gone or not wl.has_quota(workload) or wl.is_finished(workload):
            self.held.pop(key, None)
            return
        is_new = key not in self.held
        self.held[key] = _usage(workload)
        total = sum(self.held.values())
        if is_new and total > 1000 * NOMINAL * len(QUEUES):
            self.problems.append(f"{key} was admitted although {total}m are then in use")


def _usage(workload: Obj) -> int:
    """Thousandths of a CPU it holds: its assignment without the pods that are done."""
    done = {entry["name"]: entry["count"] for entry in workload["status"].get("reclaimablePods") or []}
    total = 0
    for entry in wl.admission_of(workload)["podSetAssignments"]:
        per_pod = Quantity.parse(entry["resourceUsage"]["cpu"]).milli // entry["count"]
        total += per_pod * (entry["count"] - done.get(entry["name"], 0))
    return total


async def check_running(cluster: SimulatedCluster, watcher: Watcher) -> None:
    """A job that is not suspended has quota."""
    owners = {}
    for workload in (await cluster.client.list(WORKLOADS)).items:
        for owner in workload["metadata"].get("ownerReferences") or []:
            owners[owner["name"]] = workload
    for found in (await cluster.client.list(JOBS)).items:
        if spec_of(found).get("suspend") or conditions.is_true(found, "Complete"):
            continue
        workload = owners.get(name_of(found))
        if workload is None or not (wl.has_quota(workload) or wl.is_finished(workload)):
            watcher.problems.append(f"{name_of(found)} runs without quota")


async def fill(cluster: SimulatedCluster, *objects: tuple[Resource, Obj]) -> None:
    for resource, obj in objects:
        await cluster.client.create(resource, obj)


async def set_up(cluster: SimulatedCluster) -> None:
    await fill(cluster, flavor())
    for value in (1, 10, 100):
        await fill(cluster, (WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": f"p{value}"}, "value": value}))
    for name in QUEUES:
        queue = cluster_queue(name, cpu=str(NOMINAL), cohortName="all", preemption=PREEMPTION)
        await fill(cluster, queue, local_queue(name, name))


async def disturb(cluster: SimulatedCluster, dice: random.Random, number: int) -> None:
    """One random thing somebody does."""
    choice, queue = dice.randrange(10), dice.choice(QUEUES)
    try:
        if choice < 6:
            seconds = dice.choice((3, 10, 30))
            resource, obj = job(
                f"j{number}",
                queue=queue,
                cpu=dice.choice(("500m", "1", "2")),
                labels={"kueue.x-k8s.io/priority-class": f"p{dice.choice((1, 10, 100))}"},
                parallelism=dice.choice((1, 1, 2)),
            )
            obj["spec"]["completions"] = obj["spec"]["parallelism"]
            obj["spec"]["template"]["metadata"] = {"annotations": {"corral.dev/run-seconds": str(seconds)}}
            await cluster.client.create(resource, obj)
        elif choice == 6:
            policy = dice.choice(("None", "Hold", "HoldAndDrain"))
            kind = dice.choice((CLUSTER_QUEUES, LOCAL_QUEUES))
            where = "default" if kind is LOCAL_QUEUES else ""
            await cluster.client.patch(kind, queue, where, {"spec": {"stopPolicy": policy}})
        elif choice == 7:
            jobs = (await cluster.client.list(JOBS)).items
            if jobs:
                await cluster.client.delete(JOBS, name_of(dice.choice(jobs)), "default", propagation="Background")
        elif choice == 8:
            workloads = (await cluster.client.list(WORKLOADS)).items
            if workloads:
                active = dice.random() < 0.5
                name = name_of(dice.choice(workloads))
                await cluster.client.patch(WORKLOADS, name, "default", {"spec": {"active": active}})
        else:
            await cluster.crash()
            await cluster.start()
    except (Conflict, NotFound):
        pass  # it changed or went while we looked; people see that too


async def calm(cluster: SimulatedCluster) -> None:
    """Everything is allowed again."""
    for queue in QUEUES:
        await cluster.client.patch(CLUSTER_QUEUES, queue, "", {"spec": {"stopPolicy": "None"}})
        await cluster.client.patch(LOCAL_QUEUES, queue, "default", {"spec": {"stopPolicy": "None"}})
    for workload in (await cluster.client.list(WORKLOADS)).items:
        if not wl.is_active(workload):
            await cluster.client.patch(WORKLOADS, name_of(workload), "default", {"spec": {"active": True}})


async def live(seed: int) -> list[str]:
    dice = random.Random(seed)
    nodes = [NodeSpec("node", {"cpu": "64", "memory": "64Gi", "pods": "500"}, {}, [])]
    cluster = SimulatedCluster("sim", seed=seed, nodes=nodes)
    await cluster.start()
    await set_up(cluster)
    watcher = Watcher(cluster)
    task = asyncio.create_task(watcher.run())
    for number in range(50):
        await disturb(cluster, dice, number)
        if task.done():
            task = asyncio.create_task(watcher.run())
        await asyncio.sleep(dice.choice((0.0, 0.5, 2.0)))
        if number % 5 == 0:
            await asyncio.sleep(1)
            await check_running(cluster, watcher)
    await calm(cluster)
    await asyncio.sleep(400)
    for workload in (await cluster.client.list(WORKLOADS)).items:
        if not wl.is_finished(workload):
            watcher.problems.append(f"{name_of(workload)} never ended: {workload['status'].get('conditions')}")
    task.cancel()
    await cluster.stop()
    return watcher.problems


@pytest.mark.parametrize("seed", range(4))
def test_quota_holds_and_everything_ends(seed: int) -> None:
    assert run_virtual(lambda: live(seed)) == []
