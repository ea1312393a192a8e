"""Given a fleet, what is expected of it: rows of the dispatch catalogue that no other test shows. See README.md beside this."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from tests.dispatching import run_on_fleet

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, name_of, owner_ref, spec_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}


def job(name: str, *, queue: str = "user-queue", seconds: int = 1000, **labels: str) -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue, **labels}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


async def workloads(cluster: SimulatedCluster) -> list[Obj]:
    return (await cluster.client.list(WORKLOADS)).items


async def copies(fleet: SimulatedFleet) -> list[str]:
    return [name for name, worker in fleet.workers.items() if await workloads(worker)]


def check_of(workload: Obj) -> Obj:
    (state,) = status_of(workload)["admissionChecks"]
    return dict(state)


def test_a_workload_without_the_check_is_left_alone() -> None:
    async def test(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        queue = await client.get(CLUSTER_QUEUES, "cluster-queue")
        spec = {name: value for name, value in spec_of(queue).items() if name != "admissionChecksStrategy"}
        await client.create(CLUSTER_QUEUES, {"metadata": {"name": "plain"}, "spec": spec})
        local = {"metadata": {"name": "plain", "namespace": "default"}, "spec": {"clusterQueue": "plain"}}
        await client.create(LOCAL_QUEUES, local)
        await client.create(JOBS, job("here", queue="plain"))
        await asyncio.sleep(5)
        (held,) = await workloads(fleet.manager)
        assert conditions.is_true(held, "Admitted")
        assert "nominatedClusterNames" not in status_of(held)
        assert await copies(fleet) == []

    run_on_fleet(test)


@pytest.mark.parametrize(
    ("owned", "message"),
    [
        (False, 'No multikueue adapter found, Previously: "Pending"'),
        (True, 'No multikueue adapter found for owner kind "v1, Kind=ConfigMap", Previously: "Pending"'),
    ],
    ids=["nobody", "something that is no job"],
)
def test_a_workload_nobody_can_dispatch_is_rejected(owned: bool, message: str) -> None:
    async def test(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        metadata: Obj = {"name": "w", "namespace": "default"}
        if owned:
            owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "o", "namespace": "default"}})
            metadata["ownerReferences"] = [owner_ref({"apiVersion": "v1", "kind": "ConfigMap", **owner})]
        spec = {"queueName": "user-queue", "podSets": [{"name": "main", "count": 1, "template": template}]}
        await client.create(WORKLOADS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(5)
        (held,) = await workloads(fleet.manager)
        assert check_of(held)["state"] == "Rejected"
        assert check_of(held)["message"] == message
        assert await copies(fleet) == []

    run_on_fleet(test)


def test_a_copy_that_cannot_be_made_is_tried_again_and_the_others_stay() -> None:
    async def test(fleet: SimulatedFleet) -> None:
        for worker in fleet.workers.values():  # nobody admits
            await worker.client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"stopPolicy": "Hold"}})
        lost = fleet.workers["worker2"].client
        await fleet.manager.client.create(NAMESPACES, {"metadata": {"name": "later"}})
        await fleet.workers["worker1"].client.create(NAMESPACES, {"metadata": {"name": "later"}})
        local = {"metadata": {"name": "user-queue", "namespace": "later"}, "spec": {"clusterQueue": "cluster-queue"}}
        await fleet.manager.client.create(LOCAL_QUEUES, local)
        made = job("a")
        made["metadata"]["namespace"] = "later"
        await fleet.manager.client.create(JOBS, made)
        await asyncio.sleep(5)
        assert await copies(fleet) == ["worker1"]
        await lost.create(NAMESPACES, {"metadata": {"name": "later"}})
        await asyncio.sleep(60)
        assert await copies(fleet) == ["worker1", "worker2"]

    run_on_fleet(test)


def test_after_a_restart_of_the_manager_a_lost_worker_has_its_time() -> None:
    timeout = {"multiKueue": {"workerLostTimeout": "60s"}}

    async def test(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a"))
        await asyncio.sleep(5)
        (held,) = await workloads(fleet.manager)
        cluster = status_of(held)["clusterName"]
        fleet.links[cluster].set(cut=True)
        await asyncio.sleep(30)
        await fleet.manager.crash()
        await fleet.manager.start()
        await asyncio.sleep(50)
        (held,) = await workloads(fleet.manager)
        assert (check_of(held)["state"], status_of(held)["clusterName"]) == ("Ready", cluster)
        await asyncio.sleep(60)
        (held,) = await workloads(fleet.manager)
        assert status_of(held)["clusterName"] != cluster

    run_on_fleet(test, timeout)


def test_a_priority_class_changed_on_the_manager_reaches_the_copy() -> None:
    async def test(fleet: SimulatedFleet) -> None:
        for cluster in fleet.clusters:
            for name, value in (("low", 1), ("high", 10)):
                await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        label = "kueue.x-k8s.io/priority-class"
        await fleet.manager.client.create(JOBS, job("a", **{label: "low"}))
        await asyncio.sleep(5)
        (held,) = await workloads(fleet.manager)
        worker = fleet.workers[status_of(held)["clusterName"]]
        (before,) = await workloads(worker)
        await fleet.manager.client.patch(JOBS, "a", "default", {"metadata": {"labels": {label: "high"}}})
        await asyncio.sleep(5)
        (after,) = await workloads(worker)
        assert (spec_of(before)["priority"], spec_of(after)["priority"]) == (1, 10)
        assert spec_of(after)["priorityClassRef"]["name"] == "high"
        assert before["metadata"]["uid"] == after["metadata"]["uid"]

    run_on_fleet(test)


def test_a_kind_that_is_not_enabled_is_not_dispatched_and_others_are() -> None:
    async def test(fleet: SimulatedFleet) -> None:
        template = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
        spec = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, **template}, "Worker": {"replicas": 1, **template}}}
        metadata = {"name": "mpi", "namespace": "default", "labels": QUEUE}
        await fleet.manager.client.create(MPI_JOBS, {"metadata": metadata, "spec": spec})
        await fleet.manager.client.create(JOBS, job("a"))
        await asyncio.sleep(5)
        (held,) = await workloads(fleet.manager)
        assert name_of(held).startswith("job-a-")
        assert conditions.is_true(held, "Admitted")

    run_on_fleet(test, {"integrations": {"frameworks": ["batch/job"]}})


def test_a_worker_out_of_reach_is_tried_after_5_10_20_and_up_to_320_seconds() -> None:
    async def test(fleet: SimulatedFleet) -> None:
        link = fleet.links["worker1"]
        link.set(cut=True)
        times: list[float] = []
        loop = asyncio.get_running_loop()
        link.on_call = lambda: times.append(loop.time())
        await asyncio.sleep(1500)
        attempts = [time for position, time in enumerate(times) if position == 0 or time - times[position - 1] > 1]
        waits = [round(later - earlier) for earlier, later in itertools.pairwise(attempts)]
        assert waits[:8] == [5, 10, 20, 40, 80, 160, 320, 320]

    run_on_fleet(test)


def test_status_waits_until_the_managers_job_is_unsuspended() -> None:
    async def test(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", seconds=30))
        await asyncio.sleep(5)
        here = await fleet.manager.client.get(JOBS, "a", "default")
        assert spec_of(here)["suspend"] is False
        assert status_of(here)["active"] == 1
        (held,) = await workloads(fleet.manager)
        worker = fleet.workers[status_of(held)["clusterName"]]
        there = await worker.client.get(JOBS, "a", "default")
        assert annotations_of(there)["kueue.x-k8s.io/prebuilt-workload-name"] == name_of(held)
        assert "managedBy" not in spec_of(there)

    run_on_fleet(test)
