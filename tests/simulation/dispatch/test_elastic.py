"""Elastic jobs that run on a worker grow and shrink there as their owner says on the manager."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import run_on_fleet
from tests.simulation.queueing.test_job_kinds import RAY_CLUSTER

from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.adapter import prebuilt_workload
from corral.jobs.ray.kind import RAY_CLUSTERS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS, names
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet
from corral.workload import workload as wl

from .small_jobs import job

ELASTIC = {names.ELASTIC_JOB: "true"}


def ray_cluster(**annotations: str) -> Obj:
    metadata = {"name": "ray", "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": {**metadata, "annotations": {**ELASTIC, **annotations}}, "spec": RAY_CLUSTER}


async def resize(fleet: SimulatedFleet, replicas: int) -> None:
    (group,) = RAY_CLUSTER["workerGroupSpecs"]
    patch = {"spec": {"workerGroupSpecs": [{**group, "replicas": replicas}]}}
    await fleet.manager.client.patch(RAY_CLUSTERS, "ray", "default", patch)
    await asyncio.sleep(10)


async def live(cluster: SimulatedCluster) -> Obj:
    (found,) = [one for one in (await cluster.client.list(WORKLOADS)).items if not wl.is_finished(one)]
    return found


async def workers_of(cluster: SimulatedCluster) -> set[str]:
    pods = (await cluster.client.list(PODS)).items
    return {uid_of(pod) for pod in pods if labels_of(pod).get("ray.io/node-type") == "worker"}


def test_an_elastic_ray_cluster_is_resized_where_it_runs() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(RAY_CLUSTERS, ray_cluster())
        await asyncio.sleep(10)
        held = await live(fleet.manager)
        worker = fleet.workers[status_of(held)["clusterName"]]
        made = await worker.client.get(RAY_CLUSTERS, "ray", "default")
        before = await workers_of(worker)
        assert len(before) == 1
        for replicas in (3, 2):
            await resize(fleet, replicas)
            there = await worker.client.get(RAY_CLUSTERS, "ray", "default")
            assert uid_of(there) == uid_of(made)
            held = await live(fleet.manager)
            assert [pods["count"] for pods in wl.pod_sets_of(held)] == [1, replicas]
            assert prebuilt_workload(there) == name_of(held) == name_of(await live(worker))
            running = await workers_of(worker)
            assert len(running) == replicas
            assert before & running == before

    run_on_fleet(script)


@pytest.mark.parametrize("fault", ["cut", "lose_requests", "refused"])
def test_a_size_that_cannot_be_told_a_worker_is_told_it_later(fault: str) -> None:
    async def script(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(RAY_CLUSTERS, ray_cluster())
        await resize(fleet, 3)
        name = status_of(await live(fleet.manager))["clusterName"]
        worker = fleet.workers[name]
        made = await worker.client.get(RAY_CLUSTERS, "ray", "default")
        fleet.links[name].set(**{fault: True})
        await resize(fleet, 1)
        assert len(await workers_of(worker)) == 3
        fleet.links[name].set()
        await asyncio.sleep(60)
        assert len(await workers_of(worker)) == 1
        assert uid_of(await worker.client.get(RAY_CLUSTERS, "ray", "default")) == uid_of(made)

    run_on_fleet(script)


@pytest.mark.parametrize(
    ("gate", "follows"), [("MultiKueueRemoteSpecSync", True), ("ElasticJobsViaWorkloadSlices", False)]
)
def test_a_job_is_resized_under_the_gate_of_elastic_jobs_alone_and_made_anew_without(gate: str, follows: bool) -> None:
    async def script(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, small_job())
        await asyncio.sleep(10)
        worker = fleet.workers[status_of(await live(fleet.manager))["clusterName"]]
        made = await worker.client.get(JOBS, "a", "default")
        await fleet.manager.client.patch(JOBS, "a", "default", {"spec": {"parallelism": 1}})
        await asyncio.sleep(10)
        there = await worker.client.get(JOBS, "a", "default")
        assert (uid_of(there) == uid_of(made), spec_of(there)["parallelism"]) == (follows, 1)

    run_on_fleet(script, {"featureGates": {gate: False}})


def small_job() -> Obj:
    made = job()
    made["metadata"]["annotations"] = ELASTIC
    made["spec"].update(parallelism=2, completions=6)
    return made
