"""A job is not started on a second cluster while the first may still be running it, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.dispatching import run_on_fleet

from corral.core.meta import Obj, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.simulated import SimulatedKind
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.simulate.fleet import SimulatedFleet, kubeconfig_data
from corral.simulate.jobs import simulated_kinds
from corral.store.stored import Event

LOST_S = 120
STOP_S = 20
CONFIGURATION = {
    "integrations": {"frameworks": ["batch/job"]},
    "multiKueue": {"workerLostTimeout": f"{LOST_S}s", "gcInterval": "15s"},
}


def job() -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    annotations = {"corral.dev/run-seconds": "100000", "corral.dev/stop-seconds": str(STOP_S)}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": "a", "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"suspend": True, "backoffLimit": 100, "template": template}}


class Seen:
    """Where pods run, by every state of every pod, and when they ran on two clusters at once."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self.running: dict[str, set[str]] = {name: set() for name in fleet.workers}
        self.together: list[list[str]] = []
        self.on_job: Callable[[str], None] = lambda cluster: None
        for name, worker in fleet.workers.items():
            worker.store.observe(lambda event, name=name: self._changed(name, event))

    def _changed(self, cluster: str, event: Event) -> None:
        if event.stored.key.resource == JOBS.group_resource and event.type == "ADDED":
            self.on_job(cluster)
        if event.stored.key.resource != PODS.group_resource:
            return
        uid = uid_of(event.stored.obj)
        self.running[cluster].discard(uid)
        if event.type != "DELETED" and status_of(event.stored.obj).get("phase") == "Running":
            self.running[cluster].add(uid)
        if len(self.where) > 1:
            self.together.append(self.where)

    @property
    def where(self) -> list[str]:
        return [name for name, pods in self.running.items() if pods]


async def cluster_of_the_workload(fleet: SimulatedFleet) -> str:
    (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
    return str(status_of(workload).get("clusterName") or "")


async def said_of_the_workload(fleet: SimulatedFleet) -> str:
    (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
    return str(status_of(workload)["admissionChecks"][0]["message"])


async def started(fleet: SimulatedFleet, seen: Seen) -> str:
    """The worker the job runs on, once it does."""
    await fleet.manager.client.create(JOBS, job())
    await asyncio.sleep(5)
    (where,) = seen.where
    assert await cluster_of_the_workload(fleet) == where
    return where


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_worker_lost_while_the_job_is_made_there_is_waited_for(comes_back: bool) -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen, made = Seen(fleet), []

        def cut(cluster: str) -> None:
            made.append(cluster)
            if len(made) == 1:
                fleet.links[cluster].set(cut=True)  # the job is there, the answer is not

        seen.on_job = cut
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(50 if comes_back else LOST_S - 10)
        assert seen.where == [made[0]] == made
        assert f"may be running on {made[0]}, out of reach" in await said_of_the_workload(fleet)
        if comes_back:
            fleet.links[made[0]].set()
            await asyncio.sleep(LOST_S)
            assert seen.where == [made[0]] == made
            assert seen.together == []
        else:
            await asyncio.sleep(LOST_S)
            assert len(made) == 2  # it is given up: from here on it may run twice, as documented
        assert await cluster_of_the_workload(fleet) == made[-1]

    run_on_fleet(script, CONFIGURATION)


def test_a_manager_that_crashes_while_the_job_is_made_waits_for_the_worker_it_asked() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen, made, crashed = Seen(fleet), [], asyncio.Event()

        def crash(cluster: str) -> None:
            made.append(cluster)
            fleet.links[cluster].set(cut=True)
            crashed.set()

        seen.on_job = crash
        await fleet.manager.client.create(JOBS, job())
        await crashed.wait()
        await fleet.manager.crash()
        await asyncio.sleep(5)
        await fleet.manager.start()
        await asyncio.sleep(50)
        assert made == seen.where
        fleet.links[made[0]].set()
        await asyncio.sleep(2 * LOST_S)
        assert made == seen.where == [await cluster_of_the_workload(fleet)]
        assert seen.together == []

    run_on_fleet(script, CONFIGURATION)


def test_credentials_that_change_while_the_job_is_made_do_not_start_it_again() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen, made, changed = Seen(fleet), [], asyncio.Event()

        def rotate(cluster: str) -> None:
            made.append(cluster)
            changed.set()

        seen.on_job = rotate
        for link in fleet.links.values():
            link.latency = lambda: 0.2  # the answer is still on its way
        await fleet.manager.client.create(JOBS, job())
        await changed.wait()
        data = {"kubeconfig": kubeconfig_data(made[0], token="rotated")}
        await fleet.manager.client.patch(SECRETS, f"{made[0]}-secret", "kueue-system", {"data": data})
        await asyncio.sleep(2 * LOST_S)
        assert made == seen.where == [await cluster_of_the_workload(fleet)]
        assert seen.together == []

    run_on_fleet(script, CONFIGURATION)


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_job_moves_from_a_drained_worker_when_its_pods_have_ended_there(is_removed: bool) -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen = Seen(fleet)
        first = await started(fleet, seen)
        (other,) = {*fleet.workers} - {first}
        client = fleet.manager.client
        await client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": [other]}})
        if is_removed:
            await client.delete(MULTI_KUEUE_CLUSTERS, first)
            await client.delete(SECRETS, f"{first}-secret", "kueue-system")
        await asyncio.sleep(STOP_S - 5)
        assert seen.where == [first]
        await asyncio.sleep(LOST_S - 20)
        assert seen.where == [other] == [await cluster_of_the_workload(fleet)]
        assert seen.together == []
        assert not (await fleet.workers[first].client.list(JOBS)).items
        assert not (await fleet.workers[first].client.list(WORKLOADS)).items

    run_on_fleet(script, CONFIGURATION)


def test_a_job_that_is_stopped_and_started_again_waits_for_its_lost_worker() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen = Seen(fleet)
        first = await started(fleet, seen)
        fleet.links[first].set(cut=True)
        (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
        for active in (False, True):
            name = str(workload["metadata"]["name"])
            await fleet.manager.client.patch(WORKLOADS, name, "default", {"spec": {"active": active}})
            await asyncio.sleep(10)
        await asyncio.sleep(30)
        assert seen.where == [first]
        fleet.links[first].set()
        await asyncio.sleep(3 * LOST_S)
        assert seen.where == [await cluster_of_the_workload(fleet)]
        assert seen.together == []

    run_on_fleet(script, CONFIGURATION)


def test_a_job_whose_copy_is_deleted_by_hand_ends_before_it_starts_elsewhere() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen = Seen(fleet)
        first = await started(fleet, seen)
        (copy,) = (await fleet.workers[first].client.list(WORKLOADS)).items
        await fleet.workers[first].client.delete(WORKLOADS, str(copy["metadata"]["name"]), "default")
        await asyncio.sleep(2 * LOST_S)
        assert seen.where == [await cluster_of_the_workload(fleet)]
        assert seen.together == []

    run_on_fleet(script, CONFIGURATION)


def test_a_restarted_manager_waits_for_pods_that_were_told_to_stop_before() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen = Seen(fleet)
        first = await started(fleet, seen)
        (other,) = {*fleet.workers} - {first}
        await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", {"spec": {"clusters": [other]}})
        await asyncio.sleep(2)
        assert not (await fleet.workers[first].client.list(JOBS)).items
        await fleet.manager.crash()
        await fleet.manager.start()
        await asyncio.sleep(STOP_S - 7)
        assert seen.where == [first]
        await asyncio.sleep(STOP_S)
        assert seen.where == [other] == [await cluster_of_the_workload(fleet)]
        assert seen.together == []

    run_on_fleet(script, CONFIGURATION)


@pytest.mark.parametrize("kind", simulated_kinds(), ids=[kind.resource.kind for kind in simulated_kinds()])
def test_a_job_that_is_deleted_on_its_worker_ends_there_before_it_starts_elsewhere(kind: SimulatedKind) -> None:
    async def script(fleet: SimulatedFleet) -> None:
        seen = Seen(fleet)
        await fleet.manager.client.create(kind.resource, kind.make("a", 1, 100_000))
        await asyncio.sleep(5)
        (first,) = seen.where
        await fleet.workers[first].client.delete(kind.resource, "a", "default", propagation="Background")
        await asyncio.sleep(LOST_S)
        assert seen.where == [await cluster_of_the_workload(fleet)]
        assert seen.together == []

    frameworks = {"integrations": {"frameworks": [entry.framework for entry in simulated_kinds()]}}
    run_on_fleet(script, {**CONFIGURATION, **frameworks})
