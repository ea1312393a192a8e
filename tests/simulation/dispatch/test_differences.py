"""What Corral does where MultiKueue does something nobody wants: one test per row of `docs/differences.md`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, name_of, spec_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.served_kinds import native_kinds
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, MULTI_KUEUE_CONFIGS, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
FOREVER = 100_000


def job(name: str = "a", *, cpu: str = "1", seconds: int = FOREVER, queue: str = "user-queue", **spec: object) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sleep"], "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"suspend": True, "backoffLimit": 0, "template": template, **spec},
    }


def on_fleet(test: Script, multikueue: Obj | None = None, *, frameworks: tuple[str, ...] = ("batch/job",)) -> None:
    configuration = {
        "integrations": {"frameworks": list(frameworks)},
        "multiKueue": {"workerLostTimeout": "30s", "gcInterval": "15s", **(multikueue or {})},
    }
    run_on_fleet(test, configuration)


async def the_workload(cluster: SimulatedCluster) -> Obj:
    (found,) = (await cluster.client.list(WORKLOADS)).items
    return found


async def where(fleet: SimulatedFleet) -> str:
    return str(status_of(await the_workload(fleet.manager)).get("clusterName") or "")


async def holds(cluster: SimulatedCluster) -> tuple[int, int]:
    """How many copies and jobs a worker has."""
    return len((await cluster.client.list(WORKLOADS)).items), len((await cluster.client.list(JOBS)).items)


async def reasons(cluster: SimulatedCluster) -> set[str]:
    return {str(event["reason"]) for event in (await cluster.client.list(EVENTS)).items}


def other(cluster: str) -> str:
    return "worker2" if cluster == "worker1" else "worker1"


def test_every_row_names_a_test_that_exists() -> None:
    root = Path(__file__).parents[3]
    text = (root / "docs" / "differences.md").read_text()
    named = [row.split("`")[-2] for row in text.splitlines() if row.startswith("| ") and row.endswith("` |")]
    assert len(named) > 10
    written = {
        name for path in (root / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert [name for name in named if name not in written and not (root / name).is_file()] == []


def test_a_stale_copy_on_a_returning_worker_never_beats_the_live_run() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        fleet.links[first].set(cut=True)
        await asyncio.sleep(60)
        second = await where(fleet)
        assert second == other(first)
        assert await holds(fleet.workers[first]) == (1, 1)
        fleet.links[first].set()
        await asyncio.sleep(120)
        assert await where(fleet) == second
        assert await holds(fleet.workers[second]) == (1, 1)
        assert await holds(fleet.workers[first]) == (0, 0)

    on_fleet(check)


def test_the_worker_that_admitted_first_wins_within_one_second() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(delay=0.2)
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(5)
        assert await where(fleet) == "worker2"

    on_fleet(check)


def test_no_copies_are_made_before_an_eviction_is_over() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        made: list[str] = []

        async def follow(worker: SimulatedCluster) -> None:
            async for event in worker.client.watch(WORKLOADS):
                if event.type == "ADDED":
                    held = await the_workload(fleet.manager)
                    made.append("too early" if conditions.is_true(held, "Evicted") else "in time")

        tasks = [asyncio.ensure_future(follow(worker)) for worker in fleet.workers.values()]
        await asyncio.sleep(0.1)
        made.clear()
        (remote,) = (await fleet.workers[await where(fleet)].client.list(JOBS)).items
        await fleet.workers[await where(fleet)].client.delete(
            JOBS, name_of(remote), "default", propagation="Background"
        )
        await asyncio.sleep(20)
        assert set(made) == {"in time"}
        for task in tasks:
            task.cancel()

    on_fleet(check)


def test_an_eviction_ends_although_no_worker_can_report() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        for link in fleet.links.values():
            link.set(cut=True)
        await asyncio.sleep(60)
        held = await the_workload(fleet.manager)
        assert conditions.is_false(held, "QuotaReserved")
        assert await where(fleet) == ""
        assert spec_of(await fleet.manager.client.get(JOBS, "a", "default"))["suspend"] is True

    on_fleet(check)


def test_a_deleted_workload_is_dispatched_again() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        old = await the_workload(fleet.manager)
        await fleet.manager.client.delete(WORKLOADS, name_of(old), "default")
        await asyncio.sleep(10)
        new = await the_workload(fleet.manager)
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert await holds(fleet.workers[await where(fleet)]) == (1, 1)
        assert await holds(fleet.workers[other(await where(fleet))]) == (0, 0)

    on_fleet(check)


def test_a_job_on_a_cluster_that_left_the_config_is_cleaned_up() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        patch = {"spec": {"clusters": [other(first)]}}
        await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", patch)
        await asyncio.sleep(20)
        assert await where(fleet) == other(first)
        assert await holds(fleet.workers[first]) == (0, 0)

    on_fleet(check)


def test_a_job_whose_copy_was_deleted_by_hand_is_removed() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        await fleet.workers[first].client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"stopPolicy": "Hold"}})
        copy = await the_workload(fleet.workers[first])
        await fleet.workers[first].client.delete(WORKLOADS, name_of(copy), "default")
        await asyncio.sleep(20)
        assert await where(fleet) == other(first)
        assert await holds(fleet.workers[first]) == (0, 0)

    on_fleet(check)


@pytest.mark.parametrize("manager", ["somebody", "kueue-admission"])
def test_a_plain_status_patch_of_an_external_dispatcher_is_enough(manager: str) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        held = await the_workload(fleet.manager)
        assert await holds(fleet.workers["worker2"]) == (0, 0)
        patch = {"status": {"nominatedClusterNames": ["worker2"]}}
        await fleet.manager.client.patch(
            WORKLOADS, name_of(held), "default", patch, subresource="status", manager=manager
        )
        await asyncio.sleep(5)
        held = await the_workload(fleet.manager)
        assert (await where(fleet), conditions.is_true(held, "Admitted")) == ("worker2", True)
        assert "nominatedClusterNames" not in status_of(held)

    on_fleet(check, {"dispatcherName": "example.com/own"})


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


def runtime(name: str) -> Obj:
    node = {"containers": [{"name": "node", "image": "pytorch"}]}
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    replicated = {"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": {"spec": node}}}}
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [replicated]}}}
    return {"metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}}, "spec": spec}


def test_the_trainer_honours_managed_by() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(CLUSTER_TRAINING_RUNTIMES, runtime("plain"))
        spec = {"runtimeRef": {"name": "plain"}, "managedBy": MULTIKUEUE, "suspend": False}
        await fleet.manager.client.create(TRAIN_JOBS, {"metadata": {"name": "t", "namespace": "default"}, "spec": spec})
        await asyncio.sleep(5)
        assert (await fleet.manager.client.list(JOB_SETS)).items == []
        assert status_of(await fleet.manager.client.get(TRAIN_JOBS, "t", "default")) == {}

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


def test_the_managers_job_shows_running_when_the_remote_one_does() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(3)
        local = await fleet.manager.client.get(JOBS, "a", "default")
        assert spec_of(local)["suspend"] is False
        assert status_of(local)["active"] == 1

    on_fleet(check)


def test_pods_of_a_deployment_stay_together() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        labels = {"app": "web"}
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": "web", "namespace": "default", "labels": QUEUE}
        await fleet.manager.client.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(20)
        found = (await fleet.manager.client.list(WORKLOADS)).items
        assert len(found) == 4
        assert len({status_of(item)["clusterName"] for item in found}) == 1
        pods = (await fleet.manager.client.list(PODS)).items
        assert all(annotations_of(pod)["kueue.x-k8s.io/pod-suspending-parent"] == "deployment" for pod in pods)
        web = await fleet.manager.client.get(DEPLOYMENTS, "web", "default")
        assert status_of(web)["availableReplicas"] == 4

    on_fleet(check, frameworks=("batch/job", "pod", "deployment"))
