"""Secrets, MultiKueueClusters and configs that go and come back under running jobs: a worker that is away has the time to return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core.meta import Obj, name_of, status_of
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS
from corral.simulate.fleet import SimulatedFleet

WITHOUT_ROOM = {
    "spec": {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "0"}]}],
            }
        ]
    }
}


def job() -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "100000"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": "a", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def on_fleet(test: Script) -> None:
    multikueue = {"workerLostTimeout": "30s", "gcInterval": "15s"}
    run_on_fleet(test, {"integrations": {"frameworks": ["batch/job"]}, "multiKueue": multikueue})


async def the_workload(fleet: SimulatedFleet) -> Obj:
    (found,) = (await fleet.manager.client.list(WORKLOADS)).items
    return status_of(found)


async def the_pod(fleet: SimulatedFleet, worker: str) -> str:
    (found,) = (await fleet.workers[worker].client.list(PODS)).items
    return name_of(found)


async def taken_away(fleet: SimulatedFleet, resource: Resource, name: str) -> Callable[[], Awaitable[object]]:
    """Delete an object of the manager; how to bring it back."""
    namespace = "kueue-system" if resource == SECRETS else ""
    held = await fleet.manager.client.get(resource, name, namespace)
    await fleet.manager.client.delete(resource, name, namespace)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    again = {key: value for key, value in held.items() if key not in ("status", "metadata")}
    return lambda: fleet.manager.client.create(resource, {**again, "metadata": metadata})


@pytest.mark.parametrize(
    ("resource", "name"),
    [(SECRETS, "{}-secret"), (MULTI_KUEUE_CLUSTERS, "{}"), (MULTI_KUEUE_CONFIGS, "multikueue")],
    ids=["secret", "cluster", "config"],
)
def test_a_job_runs_on_while_what_describes_its_worker_is_away(resource: Resource, name: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(4)
        worker = str((await the_workload(fleet))["clusterName"])
        pod = await the_pod(fleet, worker)
        bring_back = await taken_away(fleet, resource, name.format(worker))
        await asyncio.sleep(20)
        assert (await the_workload(fleet))["clusterName"] == worker
        await bring_back()
        await asyncio.sleep(60)
        status = await the_workload(fleet)
        assert status["clusterName"] == worker
        assert "Evicted" not in {entry["type"] for entry in status["conditions"]}
        assert await the_pod(fleet, worker) == pod

    on_fleet(check)


@pytest.mark.parametrize(("resource", "name"), [(SECRETS, "{}-secret"), (MULTI_KUEUE_CLUSTERS, "{}")])
def test_a_job_goes_elsewhere_when_what_describes_its_worker_stays_away(resource: Resource, name: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(4)
        worker = str((await the_workload(fleet))["clusterName"])
        await taken_away(fleet, resource, name.format(worker))
        await asyncio.sleep(60)
        assert (await the_workload(fleet))["clusterName"] not in ("", worker)

    on_fleet(check)


def test_a_worker_that_returns_before_another_takes_its_job_runs_it() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(4)
        worker = str((await the_workload(fleet))["clusterName"])
        (other,) = set(fleet.workers) - {worker}
        await fleet.workers[other].client.patch(CLUSTER_QUEUES, "cluster-queue", "", WITHOUT_ROOM)
        fleet.links[worker].set(cut=True)
        await asyncio.sleep(60)
        status = await the_workload(fleet)
        assert ("clusterName" in status, status["nominatedClusterNames"]) == (False, [other])
        fleet.links[worker].set()
        await asyncio.sleep(60)
        status = await the_workload(fleet)
        assert status["clusterName"] == worker
        assert status["admissionChecks"][0]["state"] == "Ready"
        assert await the_pod(fleet, worker)
        assert (await fleet.workers[other].client.list(WORKLOADS)).items == []

    on_fleet(check)
