"""Bursts of job placements: what one was promised is not promised to the next."""

from __future__ import annotations

from collections import Counter

from corral.configuration.placement import PlacementSettings
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import RESOURCE_PLACEMENTS
from corral.kinds.kubernetes.core.kinds import NAMESPACES

from .hub import Hub, on_hub


async def burst(hub: Hub, count: int, *, first: int = 0) -> Counter[str]:
    if not first:
        await hub.client.create(NAMESPACES, {"metadata": {"name": "jobs"}})
    sorter = {"name": "resources.kubernetes-fleet.io/available-cpu", "sortOrder": "Descending"}
    preferred = [{"weight": 100, "preference": {"propertySorter": sorter}}]
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    policy: Obj = {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity}
    chosen: Counter[str] = Counter()
    for number in range(first, first + count):
        name = f"job{number}"
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        job = {"metadata": {"name": name, "namespace": "jobs"}, "spec": {"suspend": True, "template": template}}
        await hub.client.create(JOBS, job)
        selector = {"group": "batch", "version": "v1", "kind": "Job", "name": name}
        await hub.place(name, "jobs", [selector], policy=policy)
        chosen.update(await hub.clusters(name, "jobs"))
    return chosen


def test_a_burst_spreads_by_what_is_free() -> None:
    async def scenario(hub: Hub) -> None:
        # 8, 12 and 16 CPUs are free, two a job: after the burst six or less are left everywhere.
        assert await burst(hub, 12) == {"cluster-3": 6, "cluster-2": 4, "cluster-1": 2}

    on_hub(scenario)


def test_upstream_sends_all_of_them_to_one_cluster() -> None:
    async def scenario(hub: Hub) -> None:
        assert await burst(hub, 12) == {"cluster-3": 12}

    on_hub(scenario, settings=PlacementSettings(reserve=False))


def test_reservations_end_when_the_member_has_had_time_to_report() -> None:
    async def scenario(hub: Hub) -> None:
        await burst(hub, 3)
        await hub.advance(120)
        await hub.client.delete(NAMESPACES, "jobs")
        await hub.advance(60)
        assert await burst(hub, 1) == {"cluster-3": 1}

    on_hub(scenario)


def test_a_reservation_ends_with_its_placement() -> None:
    async def scenario(hub: Hub) -> None:
        assert await burst(hub, 3) == {"cluster-3": 3}
        for number in range(3):
            await hub.client.delete(RESOURCE_PLACEMENTS, f"job{number}", "jobs")
        await hub.settle()
        assert await burst(hub, 3, first=3) == {"cluster-3": 3}

    on_hub(scenario)
