"""Late binding: one copy per job, on the worker that has room; moved when another has room first; reasons are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from corral.core import conditions
from corral.core.meta import Obj, name_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet, make_queue

CONFIGURATION = {
    "multiKueue": {"dispatcherName": "corral.dev/late-binding"},
    "integrations": {"frameworks": ["batch/job"]},
}


def job(name: str, *, cpu: str = "1", seconds: int = 30, annotations: dict[str, str] | None = None) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["true"], "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations or {}},
        "spec": {"suspend": True, "template": template},
    }


def on_fleet(test: Callable[[SimulatedFleet], Awaitable[None]], cpu: dict[str, str]) -> None:
    async def main() -> None:
        async with SimulatedFleet(tuple(cpu), configuration=CONFIGURATION) as fleet:
            await fleet.introduce()
            await make_queue(fleet.manager, "100", checks=["multikueue"])
            for name, amount in cpu.items():
                await make_queue(fleet.workers[name], amount)
            await asyncio.sleep(1)
            await test(fleet)

    run_virtual(main)


async def where(fleet: SimulatedFleet) -> dict[str, str]:
    found = (await fleet.manager.client.list(WORKLOADS)).items
    return {name_of(item).split("-")[1]: str(status_of(item).get("clusterName") or "") for item in found}


def test_a_burst_of_jobs_makes_one_copy_each_and_fills_every_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for number in range(8):
            await fleet.manager.client.create(JOBS, job(f"j{number}", seconds=5))
        await asyncio.sleep(2)
        placed = await where(fleet)
        assert sorted(placed.values()) == ["worker1"] * 4 + ["worker2"] * 4
        await asyncio.sleep(30)
        found = (await fleet.manager.client.list(WORKLOADS)).items
        assert all(conditions.is_true(item, "Finished") for item in found)
        copies = fleet.manager.manager.metrics.registry.get_sample_value
        made = sum(copies("corral_dispatch_copies_total", {"cluster": name}) or 0 for name in fleet.workers)
        assert made == 8

    on_fleet(check, {"worker1": "4", "worker2": "4"})


def test_a_job_goes_where_it_fits_and_the_reason_against_the_other_is_known() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("big", cpu="6"))
        await asyncio.sleep(2)
        assert await where(fleet) == {"big": "worker2"}
        told = [
            event["message"] for event in (await fleet.manager.client.list(EVENTS)).items if event["reason"] == "Bound"
        ]
        assert told == ["worker2: has room now; worker1: can never give so much cpu"]

    on_fleet(check, {"worker1": "4", "worker2": "8"})


def test_a_job_that_waits_says_what_it_waits_for_on_each_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name in ("a", "b"):
            await fleet.manager.client.create(JOBS, job(name, cpu="4", seconds=500))
        await asyncio.sleep(2)
        await fleet.manager.client.create(JOBS, job("c", cpu="4"))
        await asyncio.sleep(2)
        items = (await fleet.manager.client.list(WORKLOADS)).items
        (message,) = (
            status_of(item)["admissionChecks"][0]["message"] for item in items if not status_of(item).get("clusterName")
        )
        bound, other = sorted(message.split("; "), key=lambda part: "has to wait" in part)
        assert "couldn't assign flavors to pod set main: insufficient unused quota for cpu" in bound
        assert other.endswith(": has to wait for cpu behind 0 others")

    on_fleet(check, {"worker1": "4", "worker2": "4"})


def test_a_waiting_job_moves_to_the_worker_that_has_room_first() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", cpu="4", seconds=500))
        await fleet.manager.client.create(JOBS, job("b", cpu="4", seconds=10))
        await asyncio.sleep(2)
        placed = await where(fleet)
        assert sorted(placed.values()) == ["worker1", "worker2"]
        await fleet.manager.client.create(JOBS, job("c", cpu="4", seconds=10))
        await asyncio.sleep(2)
        assert (await where(fleet))["c"] == ""
        await asyncio.sleep(15)
        assert (await where(fleet))["c"] == placed["b"]

    on_fleet(check, {"worker1": "4", "worker2": "4"})


def test_affinity_and_tiers_decide_between_workers_with_room() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for name, labels in (
            ("worker1", {"corral.dev/tier": "2"}),
            ("worker2", {"corral.dev/tier": "1", "gpu": "a100"}),
        ):
            await fleet.manager.client.patch(MULTI_KUEUE_CLUSTERS, name, "", {"metadata": {"labels": labels}})
        await asyncio.sleep(0.5)
        await fleet.manager.client.create(JOBS, job("near"))
        await fleet.manager.client.create(
            JOBS, job("far", annotations={"corral.dev/cluster-anti-affinity": "gpu=a100"})
        )
        await asyncio.sleep(2)
        assert await where(fleet) == {"near": "worker2", "far": "worker1"}

    on_fleet(check, {"worker1": "4", "worker2": "4"})


def test_a_job_no_worker_could_ever_run_says_why_for_each() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("huge", cpu="50"))
        await asyncio.sleep(2)
        (item,) = (await fleet.manager.client.list(WORKLOADS)).items
        message = status_of(item)["admissionChecks"][0]["message"]
        assert message == "worker1, worker2: can never give so much cpu"

    on_fleet(check, {"worker1": "4", "worker2": "4"})


def gpu_group(*flavors: tuple[str, str]) -> Obj:
    resources = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "64Gi"}]}
        for name, cpu in flavors
    ]
    return {"coveredResources": ["cpu", "memory"], "flavors": resources}


async def give(fleet: SimulatedFleet, worker: str, *flavors: tuple[str, str, Obj]) -> None:
    """Replace the flavors of a worker's queue, or of the manager's."""
    client = fleet.workers[worker].client if worker in fleet.workers else fleet.manager.client
    for name, _, spec in flavors:
        await client.create(RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": spec})
    groups = [gpu_group(*((name, cpu) for name, cpu, _ in flavors))]
    await client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"resourceGroups": groups}})


def test_a_job_goes_where_one_flavor_has_room_for_it_not_where_several_have_together() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await give(fleet, "worker1", ("small-a", "3", {}), ("small-b", "3", {}))
        await asyncio.sleep(1)
        await fleet.manager.client.create(JOBS, job("a", cpu="4"))
        await asyncio.sleep(2)
        assert await where(fleet) == {"a": "worker2"}

    on_fleet(check, {"worker1": "6", "worker2": "4"})


def test_a_job_goes_where_a_flavor_has_the_nodes_it_selects() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await give(fleet, "worker1", ("a100", "8", {"nodeLabels": {"gpu": "a100"}}))
        await give(fleet, "worker2", ("h100", "8", {"nodeLabels": {"gpu": "h100"}}))
        await asyncio.sleep(1)
        selective = job("a", cpu="2")
        selective["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "h100"}
        await fleet.manager.client.create(JOBS, selective)
        await asyncio.sleep(2)
        assert await where(fleet) == {"a": "worker2"}

    on_fleet(check, {"worker1": "8", "worker2": "8"})


def test_a_job_that_asks_for_a_topology_goes_where_a_flavor_has_it() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        level = "kubernetes.io/hostname"
        levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": level}]
        topology = {"metadata": {"name": "racks"}, "spec": {"levels": levels}}
        placed: Obj = {"nodeLabels": {"example.com/pool": "gpu"}, "topologyName": "racks"}
        for cluster in (fleet.manager, fleet.workers["worker2"]):
            await cluster.client.create(TOPOLOGIES, topology)
            await give(fleet, cluster.name, ("placed", "8", placed))
        await asyncio.sleep(1)
        wanting = job("a", cpu="2")
        wanting["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] = level
        await fleet.manager.client.create(JOBS, wanting)
        await asyncio.sleep(2)
        (item,) = (await fleet.manager.client.list(WORKLOADS)).items
        assert status_of(item)["nominatedClusterNames"] == ["worker2"]
        message = status_of(item)["admissionChecks"][0]["message"]
        assert "worker1: has no flavor with the topology its pods ask for" in message

    on_fleet(check, {"worker1": "8", "worker2": "8"})


def test_a_worker_that_does_not_take_what_should_fit_is_left_for_one_that_may() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        # Its nodes are too small, which nobody can know from its queues.
        topology = {"metadata": {"name": "hosts"}, "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
        await fleet.workers["worker1"].client.create(TOPOLOGIES, topology)
        placed: Obj = {"nodeLabels": {"example.com/pool": "none"}, "topologyName": "hosts"}
        await give(fleet, "worker1", ("placed", "8", placed))
        await asyncio.sleep(1)
        await fleet.manager.client.create(JOBS, job("a", cpu="2"))
        await asyncio.sleep(5)
        assert await where(fleet) == {"a": "worker2"}
        assert (await fleet.workers["worker1"].client.list(WORKLOADS)).items == []

    on_fleet(check, {"worker1": "8", "worker2": "4"})
