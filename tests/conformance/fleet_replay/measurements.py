"""Recordings of measurements: no objects, only what was placed, how far it came, in which order, and where it went.

Times are a machine's own; the order of the conditions, the counts and the clusters chosen are compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from corral.core.conditions import is_true
from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.runtime.virtual import run_virtual
from fleet_replay.mode import Mode
from fleet_replay.world import Circumstances, World

WITHIN_S = 120.0
_RESOURCES = "resources.kubernetes-fleet.io/"
_SORTERS = [
    {"weight": weight, "preference": {"propertySorter": {"name": f"{_RESOURCES}{name}", "sortOrder": "Descending"}}}
    for weight, name in ((40, "available-cpu"), (30, "available-memory"))
]
_PICK_ONE: Obj = {
    "placementType": "PickN",
    "numberOfClusters": 1,
    "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _SORTERS}},
}
_POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}


def measure(recording: dict[str, Any], mode: Mode) -> list[str]:
    """The differences between recorded measurements and a run of them."""
    found = []
    measured = False
    for output in recording["outputs"]:
        data = output.get("data")
        for what, told in data.items() if isinstance(data, dict) else ():
            if what.startswith("loadavg"):
                continue
            measured = True
            if what == "tenConfigMaps":
                found += [problem for one in told if (problem := run_virtual(lambda one=one: _order(one, mode)))]
            elif what in ("burstJobs", "burstConfigMaps"):
                found += run_virtual(lambda what=what, told=told: _burst(what, told, mode))
            else:
                found.append(f"what was measured as {what} is not known here")
    return found if measured else ["nothing was recorded: there are neither objects nor measurements"]


async def _order(seconds: dict[str, float], mode: Mode) -> str:
    """Place a namespace with ten ConfigMaps everywhere; conditions come True in the recorded order."""
    world = World(Circumstances(), mode)
    await world.start()
    try:
        client, began = world.hub.client, world.hub.clock.now()
        await client.create(NAMESPACES, {"metadata": {"name": "ten"}})
        for number in range(10):
            metadata = {"name": f"conf-{number}", "namespace": "ten"}
            await client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"k": "v"}})
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "ten"}
        body = {"metadata": {"name": "ten"}, "spec": {"resourceSelectors": [selector]}}
        await client.create(CLUSTER_RESOURCE_PLACEMENTS, body)
        reached: dict[str, float] = {}
        while len(reached) < len(seconds) and world.hub.clock.now() < began + WITHIN_S:
            await asyncio.sleep(0.001)
            placement = await client.get(CLUSTER_RESOURCE_PLACEMENTS, "ten")
            for name in seconds:
                if is_true(placement, f"ClusterResourcePlacement{name}"):
                    reached.setdefault(name, world.hub.clock.now())
    finally:
        await world.stop()
    for first, one in seconds.items():
        for second, other in seconds.items():
            if second not in reached:
                return f"condition {second} never came True"
            if one < other and reached[first] > reached[second]:
                return f"condition {second} came True before {first}"
    return ""


async def _burst(what: str, told: dict[str, Any], mode: Mode) -> list[str]:
    """Create many placements at once; all become available, on the recorded clusters."""
    world = World(Circumstances(), mode)
    await world.start()
    try:
        count = int(told["created"])
        await world.hub.client.create(NAMESPACES, {"metadata": {"name": "burst"}})
        for name in world.members:
            await world.cluster(name).client.create(NAMESPACES, {"metadata": {"name": "burst"}})
        for number in range(count):
            await _place_one(world, what, f"one-{number}")
        placements: list[Obj] = []
        for _ in range(int(WITHIN_S)):
            await asyncio.sleep(1.0)
            placements = (await world.hub.client.list(RESOURCE_PLACEMENTS, "burst")).items
            if all(is_true(one, "ResourcePlacementAvailable") for one in placements):
                break
    finally:
        await world.stop()
    done = [one for one in placements if is_true(one, "ResourcePlacementAvailable")]
    picked = Counter(entry["clusterName"] for one in done for entry in status_of(one).get("placementStatuses") or ())
    facts = {"created": (len(placements), count), "completed": (len(done), told.get("completed", count))}
    facts["picked"] = (dict(sorted(picked.items())), told.get("picked", {}))
    return [f"{what}: {name} {got}, recorded {wanted}" for name, (got, wanted) in facts.items() if got != wanted]


async def _place_one(world: World, what: str, name: str) -> None:
    client = world.hub.client
    metadata = {"name": name, "namespace": "burst"}
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": name}
    spec: Obj = {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}
    if what == "burstJobs":
        await client.create(JOBS, {"metadata": metadata, "spec": {"suspend": True, "template": {"spec": _POD}}})
        selector |= {"group": "batch", "kind": "Job"}
        spec["policy"] = _PICK_ONE
    else:
        await client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"k": "v"}})
    await client.create(RESOURCE_PLACEMENTS, {"metadata": metadata, "spec": spec})
