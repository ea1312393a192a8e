"""The manager says why a job does not run: what workers lack, refuse, or do not know."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.small_jobs import MULTIKUEUE, QUEUE, job, on_fleet, runtime, the_workload, where

from corral.core import conditions
from corral.core.meta import spec_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.served_kinds import native_kinds
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet


async def reasons(cluster: SimulatedCluster) -> set[str]:
    return {str(event["reason"]) for event in (await cluster.client.list(EVENTS)).items}


def test_the_manager_says_what_each_worker_lacks() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(5)
        message = status_of(await the_workload(fleet.manager))["admissionChecks"][0]["message"]
        assert "worker1, worker2: couldn't assign flavors" in message
        assert "WaitingForWorker" in await reasons(fleet.manager)

    on_fleet(check)


def test_managed_by_in_a_queue_that_does_not_dispatch_is_explained() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        queue = spec_of(await client.get(CLUSTER_QUEUES, "cluster-queue"))
        plain = {name: value for name, value in queue.items() if name != "admissionChecksStrategy"}
        await client.create(CLUSTER_QUEUES, {"metadata": {"name": "plain"}, "spec": plain})
        metadata = {"name": "plain", "namespace": "default"}
        await client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": "plain"}})
        await client.create(JOBS, job(queue="plain", managedBy=MULTIKUEUE))
        await asyncio.sleep(5)
        assert spec_of(await client.get(JOBS, "a", "default"))["suspend"] is True
        assert "NotDispatched" in await reasons(fleet.manager)

    on_fleet(check)


def test_a_job_its_worker_refuses_says_why_and_goes_on_when_that_is_mended() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain"))
        metadata = {"name": "t", "namespace": "default", "labels": QUEUE}
        await fleet.manager.client.create(TRAIN_JOBS, {"metadata": metadata, "spec": {"runtimeRef": {"name": "plain"}}})
        await asyncio.sleep(300)
        message = (conditions.find(await the_workload(fleet.manager), "Evicted") or {})["message"]
        assert "worker1, worker2: refuses the TrainJob" in message
        assert "clusterTrainingRuntime must be created" in message
        assert {"RefusedByWorker", "HandedBack"} <= set(await reasons(fleet.manager))
        for worker in fleet.workers.values():
            await worker.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain"))
        await asyncio.sleep(400)
        assert await where(fleet)

    on_fleet(check, frameworks=("trainer.kubeflow.org/trainjob",))


def test_a_missing_crd_loses_that_kind_only() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        (kind,) = (kind for kind in native_kinds() if kind.kind == "TFJob")
        fleet.workers["worker2"].api.registry.remove(kind.group, kind.plural)
        fleet.links["worker2"].break_streams()
        await asyncio.sleep(30)
        fleet.links["worker1"].set(cut=True)
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(10)
        assert await where(fleet) == "worker2"

    on_fleet(check)
