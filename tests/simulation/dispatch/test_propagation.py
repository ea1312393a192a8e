"""What a job names goes with it, if the manager is told so: runtimes before it, ConfigMaps and Secrets with it."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, labels_of, spec_of, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, names
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

PROPAGATED = "corral.dev/propagated-by"


def runtime(name: str, namespace: str = "") -> Obj:
    container = {"name": "node", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": {"annotations": {"corral.dev/run-seconds": "5"}}, "spec": {"containers": [container]}}
    step = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {**step, "spec": {"template": pod}}}]}}
    metadata = {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "spec": {"mlPolicy": {"numNodes": 1}, "template": template}}


def train_job(kind: str) -> Obj:
    metadata = {"name": "t", "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"runtimeRef": {"name": "plain", "kind": kind}}}


def on_fleet(test: Script, *, propagate: bool) -> None:
    configuration = {
        "integrations": {"frameworks": ["batch/job", "trainer.kubeflow.org/trainjob"]},
        "multiKueue": {"gcInterval": "15s"},
        "corral": {"propagateDependencies": propagate},
    }
    run_on_fleet(test, configuration)


async def the_cluster(fleet: SimulatedFleet) -> SimulatedCluster:
    (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
    return fleet.workers[status_of(workload)["clusterName"]]


@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
def test_the_runtime_a_train_job_names_goes_ahead_of_it(kind: str) -> None:
    is_local = kind == "TrainingRuntime"
    resource, namespace = (TRAINING_RUNTIMES, "default") if is_local else (CLUSTER_TRAINING_RUNTIMES, "")

    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(resource, runtime("plain", namespace))
        await fleet.manager.client.create(TRAIN_JOBS, train_job(kind))
        await asyncio.sleep(3)
        sent = await (await the_cluster(fleet)).client.get(resource, "plain", namespace)
        assert labels_of(sent)[PROPAGATED] == "multikueue"
        await asyncio.sleep(60)
        assert conditions.is_true(await fleet.manager.client.get(TRAIN_JOBS, "t", "default"), "Complete")

    on_fleet(check, propagate=True)


def test_a_runtime_that_is_there_already_is_used_as_it_is() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain"))
        held = {
            name: uid_of(await worker.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain")))
            for name, worker in fleet.workers.items()
        }
        await fleet.manager.client.create(TRAIN_JOBS, train_job("ClusterTrainingRuntime"))
        await asyncio.sleep(60)
        assert conditions.is_true(await fleet.manager.client.get(TRAIN_JOBS, "t", "default"), "Complete")
        for name, worker in fleet.workers.items():
            found = await worker.client.get(CLUSTER_TRAINING_RUNTIMES, "plain")
            assert (uid_of(found), PROPAGATED in labels_of(found)) == (held[name], False)

    on_fleet(check, propagate=True)


def test_without_the_option_nothing_is_sent() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain"))
        await fleet.manager.client.create(TRAIN_JOBS, train_job("ClusterTrainingRuntime"))
        await asyncio.sleep(20)
        for worker in fleet.workers.values():
            with pytest.raises(NotFound):
                await worker.client.get(CLUSTER_TRAINING_RUNTIMES, "plain")

    on_fleet(check, propagate=False)


def plain_job() -> Obj:
    labels = {names.QUEUE_NAME: "team-queue", names.PRIORITY_CLASS: "urgent"}
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    pod: Obj = {"restartPolicy": "Never", "priorityClassName": "important", "containers": [container]}
    template = {"metadata": {"annotations": {"corral.dev/run-seconds": "5"}}, "spec": pod}
    return {"metadata": {"name": "j", "namespace": "team", "labels": labels}, "spec": {"template": template}}


async def set_up_a_team(manager: SimulatedCluster) -> None:
    await manager.client.create(NAMESPACES, {"metadata": {"name": "team", "labels": {"team": "a"}}})
    queue: Obj = {"metadata": {"name": "team-queue", "namespace": "team"}, "spec": {"clusterQueue": "cluster-queue"}}
    await manager.client.create(LOCAL_QUEUES, queue)
    await manager.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 100})
    await manager.client.create(PRIORITY_CLASSES, {"metadata": {"name": "important"}, "value": 10})


def test_namespace_queue_and_priority_classes_of_a_job_reach_its_workers() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await set_up_a_team(fleet.manager)
        await fleet.manager.client.create(JOBS, {**plain_job(), "spec": {**plain_job()["spec"], "suspend": True}})
        await asyncio.sleep(60)
        assert conditions.is_true(await fleet.manager.client.get(JOBS, "j", "team"), "Complete")
        for worker in fleet.workers.values():
            sent = await worker.client.get(NAMESPACES, "team")
            assert labels_of(sent).items() >= {"team": "a", PROPAGATED: "multikueue"}.items()
            for resource, name, namespace in (
                (LOCAL_QUEUES, "team-queue", "team"),
                (WORKLOAD_PRIORITY_CLASSES, "urgent", ""),
                (PRIORITY_CLASSES, "important", ""),
            ):
                assert labels_of(await worker.client.get(resource, name, namespace))[PROPAGATED] == "multikueue"

    on_fleet(check, propagate=True)


def test_a_queue_leads_to_the_only_one_a_worker_has_where_that_has_another_name() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await set_up_a_team(fleet.manager)
        flavor = {"name": "default-flavor", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]},
        }
        await fleet.manager.client.create(CLUSTER_QUEUES, {"metadata": {"name": "team-a"}, "spec": spec})
        queue: Obj = {"metadata": {"name": "of-team-a", "namespace": "team"}, "spec": {"clusterQueue": "team-a"}}
        await fleet.manager.client.create(LOCAL_QUEUES, queue)
        job = plain_job()
        job["metadata"]["labels"][names.QUEUE_NAME] = "of-team-a"
        await fleet.manager.client.create(JOBS, job)
        await asyncio.sleep(60)
        assert conditions.is_true(await fleet.manager.client.get(JOBS, "j", "team"), "Complete")
        for worker in fleet.workers.values():
            assert (
                spec_of(await worker.client.get(LOCAL_QUEUES, "of-team-a", "team"))["clusterQueue"] == "cluster-queue"
            )

    on_fleet(check, propagate=True)


def test_without_the_option_the_manager_says_that_the_namespace_is_missing() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await set_up_a_team(fleet.manager)
        await fleet.manager.client.create(JOBS, {**plain_job(), "spec": {**plain_job()["spec"], "suspend": True}})
        await asyncio.sleep(20)
        (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
        (state,) = status_of(workload)["admissionChecks"]
        assert 'namespaces "team" not found' in state["message"]

    on_fleet(check, propagate=False)
