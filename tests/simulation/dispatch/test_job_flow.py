"""A Job's way from the manager to a worker and back, on virtual time, and what happens when workers fail."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import run_on_fleet

from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import EVENTS, SECRETS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet, kubeconfig_data

ORIGIN = "kueue.x-k8s.io/multikueue-origin"


def job(name: str, *, cpu: str = "1", seconds: int = 5, exit_code: int = 0) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "5"], "resources": {"requests": {"cpu": cpu}}}
    annotations = {"corral.dev/run-seconds": str(seconds), "corral.dev/exit-code": str(exit_code)}
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "backoffLimit": 0, "template": template},
    }


async def workload(cluster: SimulatedCluster) -> Obj | None:
    items = (await cluster.client.list(WORKLOADS)).items
    return items[0] if items else None


async def the_workload(cluster: SimulatedCluster) -> Obj:
    found = await workload(cluster)
    assert found is not None
    return found


def test_a_job_runs_on_one_worker_and_its_status_comes_back() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a"))
        await asyncio.sleep(1)
        held = await the_workload(fleet.manager)
        cluster = status_of(held)["clusterName"]
        remote = await fleet.workers[cluster].client.get(JOBS, "a", "default")
        assert labels_of(remote)[ORIGIN] == "multikueue"
        assert "managedBy" not in spec_of(remote)
        assert spec_of(await fleet.manager.client.get(JOBS, "a", "default"))["managedBy"] == "kueue.x-k8s.io/multikueue"
        (other,) = (worker for name, worker in fleet.workers.items() if name != cluster)
        assert await workload(other) is None

        await asyncio.sleep(20)
        held = await the_workload(fleet.manager)
        finished = conditions.find(held, "Finished")
        assert finished is not None
        assert (finished["reason"], finished["status"]) == ("Succeeded", "True")
        local = await fleet.manager.client.get(JOBS, "a", "default")
        assert conditions.is_true(local, "Complete")
        for worker in fleet.workers.values():
            assert await workload(worker) is None
            with pytest.raises(NotFound):
                await worker.client.get(JOBS, "a", "default")

    run_on_fleet(check)


def test_a_failed_job_fails_on_the_manager_too() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", exit_code=1))
        await asyncio.sleep(20)
        assert (conditions.find(await the_workload(fleet.manager), "Finished") or {})["reason"] == "Failed"
        assert conditions.is_true(await fleet.manager.client.get(JOBS, "a", "default"), "Failed")

    run_on_fleet(check)


def test_the_manager_says_what_each_worker_lacks_until_one_has_room() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("big", cpu="12"))
        await asyncio.sleep(5)
        held = await the_workload(fleet.manager)
        message = status_of(held)["admissionChecks"][0]["message"]
        assert "worker1, worker2: couldn't assign flavors to pod set main" in message
        events = (await fleet.manager.client.list(EVENTS)).items
        assert any(event["reason"] == "WaitingForWorker" for event in events)

        quota = {"name": "cpu", "nominalQuota": "20"}
        flavors = [{"name": "default-flavor", "resources": [quota, {"name": "memory", "nominalQuota": "64Gi"}]}]
        patch = {"spec": {"resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]}}
        await fleet.workers["worker2"].client.patch(CLUSTER_QUEUES, "cluster-queue", "", patch)
        await asyncio.sleep(2)
        held = await the_workload(fleet.manager)
        assert status_of(held)["clusterName"] == "worker2"

    run_on_fleet(check)


def test_a_worker_lost_for_too_long_loses_the_job_to_another_and_its_stale_copy_never_wins() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", seconds=600))
        await asyncio.sleep(2)
        first = status_of(await the_workload(fleet.manager))["clusterName"]
        fleet.links[first].set(cut=True)
        await asyncio.sleep(60)
        moved = status_of(await the_workload(fleet.manager))["clusterName"]
        assert moved != first
        fleet.links[first].set()
        await asyncio.sleep(400)
        held = await the_workload(fleet.manager)
        assert status_of(held)["clusterName"] == moved
        assert await workload(fleet.workers[first]) is None, "the stale copy must be gone"
        assert await workload(fleet.workers[moved]) is not None

    run_on_fleet(check, configuration={"multiKueue": {"workerLostTimeout": "15s"}})


def test_a_worker_lost_for_a_moment_keeps_its_job() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", seconds=60))
        await asyncio.sleep(2)
        first = status_of(await the_workload(fleet.manager))["clusterName"]
        fleet.links[first].set(cut=True)
        await asyncio.sleep(10)
        fleet.links[first].set()
        await asyncio.sleep(120)
        held = await the_workload(fleet.manager)
        assert status_of(held)["clusterName"] == first
        assert (conditions.find(held, "Finished") or {})["reason"] == "Succeeded"

    run_on_fleet(check)


def test_deleting_the_job_on_the_manager_removes_everything_on_the_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", seconds=600))
        await asyncio.sleep(2)
        await fleet.manager.client.delete(JOBS, "a", "default", propagation="Background")
        await asyncio.sleep(5)
        for cluster in fleet.clusters:
            assert await workload(cluster) is None, cluster.name
            assert (await cluster.client.list(JOBS)).items == [], cluster.name

    run_on_fleet(check)


def test_a_job_deleted_while_its_worker_is_away_is_collected_when_it_returns() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", seconds=6000))
        await asyncio.sleep(2)
        first = status_of(await the_workload(fleet.manager))["clusterName"]
        fleet.links[first].set(cut=True)
        await asyncio.sleep(5)
        await fleet.manager.client.delete(JOBS, "a", "default", propagation="Background")
        await asyncio.sleep(5)
        fleet.links[first].set()
        await asyncio.sleep(120)
        assert await workload(fleet.workers[first]) is None
        assert (await fleet.workers[first].client.list(JOBS)).items == []

    run_on_fleet(check)


def test_a_job_of_the_same_name_on_a_worker_is_never_touched_and_the_manager_says_so() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.workers["worker1"].client.create(JOBS, {**job("a", seconds=6000), "spec": {**job("a")["spec"], "suspend": False}, "metadata": {"name": "a", "namespace": "default"}})  # fmt: skip
        await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": ["worker1"]}})
        await asyncio.sleep(1)
        await fleet.manager.client.create(JOBS, job("a"))
        await asyncio.sleep(3)
        own = await fleet.workers["worker1"].client.get(JOBS, "a", "default")
        assert ORIGIN not in labels_of(own)
        message = status_of(await the_workload(fleet.manager))["admissionChecks"][0]["message"]
        assert message.startswith("worker1: Job default/a already exists there and was not created by this manager")

    run_on_fleet(check)


def test_credentials_are_rotated_without_a_restart() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(refused=True)
        await asyncio.sleep(1)
        cluster = await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, "worker1")
        assert conditions.is_false(cluster, "Active")
        fleet.links["worker1"].set()
        fresh = {"data": {"kubeconfig": kubeconfig_data("worker1", "another")}}
        await fleet.manager.client.patch(SECRETS, "worker1-secret", "kueue-system", fresh)
        await asyncio.sleep(0.5)
        cluster = await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, "worker1")
        assert conditions.is_true(cluster, "Active"), name_of(cluster)

    run_on_fleet(check)


def test_a_cluster_taken_out_of_the_config_is_cleaned_up_and_its_job_moves() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job("a", seconds=600))
        await asyncio.sleep(2)
        first = status_of(await the_workload(fleet.manager))["clusterName"]
        left = [name for name in fleet.workers if name != first]
        await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": left}})
        await asyncio.sleep(10)
        assert status_of(await the_workload(fleet.manager))["clusterName"] == left[0]
        assert await workload(fleet.workers[first]) is None
        assert (await fleet.workers[first].client.list(JOBS)).items == []

    run_on_fleet(check)
