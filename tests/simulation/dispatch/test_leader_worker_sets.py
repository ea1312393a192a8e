"""LeaderWorkerSets on a fleet: one Workload per replica, all on one worker, with the status back on the manager."""

from __future__ import annotations

import asyncio

from tests.dispatching import Script, run_on_fleet

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, labels_of, name_of, status_of
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS, names
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet


def groups(replicas: int = 2, size: int = 2, cpu: str = "1") -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    lasting = {"annotations": {"corral.dev/run-seconds": "100000"}}
    template = {"size": size, "workerTemplate": {"metadata": lasting, "spec": {"containers": [container]}}}
    metadata = {"name": "llm", "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}}
    return {"metadata": metadata, "spec": {"replicas": replicas, "leaderWorkerTemplate": template}}


def on_fleet(test: Script, *, dispatcher: str = "") -> None:
    multikueue = {"workerLostTimeout": "60s", "gcInterval": "15s"}
    if dispatcher:
        multikueue["dispatcherName"] = dispatcher
    frameworks = ["batch/job", "pod", "leaderworkerset.x-k8s.io/leaderworkerset"]
    configuration = {"integrations": {"frameworks": frameworks}, "multiKueue": multikueue}
    run_on_fleet(test, configuration)


async def clusters(fleet: SimulatedFleet) -> dict[str, str]:
    """Where each replica's Workload is, by its index."""
    return {
        annotations_of(workload)[names.COMPONENT_WORKLOAD_INDEX]: str(status_of(workload).get("clusterName") or "")
        for workload in (await fleet.manager.client.list(WORKLOADS)).items
    }


async def running(cluster: SimulatedCluster) -> list[str]:
    pods = (await cluster.client.list(PODS)).items
    return [name_of(pod) for pod in pods if status_of(pod).get("phase") == "Running"]


def test_all_replicas_go_to_one_worker_and_the_status_comes_back() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        await client.create(LEADER_WORKER_SETS, groups())
        await asyncio.sleep(30)
        where = await clusters(fleet)
        assert sorted(where) == ["0", "1"]
        assert len(set(where.values())) == 1
        worker = fleet.workers[where["0"]]
        assert await running(worker) == ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]
        assert await running(fleet.manager) == []
        held = await client.get(LEADER_WORKER_SETS, "llm", "default")
        assert (status_of(held)["replicas"], status_of(held)["readyReplicas"]) == (2, 2)
        assert conditions.is_true(held, "Available")
        assert conditions.is_true(held, "Dispatched")
        await client.delete(LEADER_WORKER_SETS, "llm", "default", propagation="Background")
        await asyncio.sleep(60)
        for cluster in fleet.workers.values():
            assert (await cluster.client.list(LEADER_WORKER_SETS)).items == []
            assert (await cluster.client.list(WORKLOADS)).items == []
            assert await running(cluster) == []

    for dispatcher in ("", "kueue.x-k8s.io/multikueue-dispatcher-incremental", "corral.dev/late-binding"):
        on_fleet(check, dispatcher=dispatcher)


def test_nobody_goes_before_every_replica_has_a_workload() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        queue = {"spec": {"stopPolicy": "Hold"}}
        await client.patch(CLUSTER_QUEUES, "cluster-queue", "", queue)
        await client.create(LEADER_WORKER_SETS, groups(replicas=3, size=1))
        await asyncio.sleep(5)
        last = max((await client.list(WORKLOADS)).items, key=name_of)
        assert len((await client.list(WORKLOADS)).items) == 3
        await client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"stopPolicy": "None"}})
        await asyncio.sleep(20)
        assert set((await clusters(fleet)).values()) == {(await clusters(fleet))["0"]}
        assert status_of(await client.get(WORKLOADS, name_of(last), "default"))["clusterName"]

    on_fleet(check)


def test_replicas_are_added_and_removed_on_the_worker() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        await client.create(LEADER_WORKER_SETS, groups(replicas=1, size=1))
        await asyncio.sleep(20)
        where = (await clusters(fleet))["0"]
        worker = fleet.workers[where]
        first = await worker.client.get(PODS, "llm-0", "default")
        await client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})
        await asyncio.sleep(30)
        assert await clusters(fleet) == {"0": where, "1": where, "2": where}
        assert await running(worker) == ["llm-0", "llm-1", "llm-2"]
        await client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 1}})
        await asyncio.sleep(60)
        assert await running(worker) == ["llm-0"]
        assert [name_of(copy) for copy in (await worker.client.list(WORKLOADS)).items] == [
            name_of(held) for held in (await client.list(WORKLOADS)).items
        ]
        again = await worker.client.get(PODS, "llm-0", "default")
        assert again["metadata"]["uid"] == first["metadata"]["uid"]

    on_fleet(check)


def test_a_lost_worker_gives_all_replicas_to_another() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(LEADER_WORKER_SETS, groups())
        await asyncio.sleep(20)
        first = (await clusters(fleet))["0"]
        fleet.links[first].set(cut=True)
        await asyncio.sleep(200)
        (second,) = set((await clusters(fleet)).values())
        assert second not in ("", first)
        assert await running(fleet.workers[second]) == ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]
        fleet.links[first].set()
        await asyncio.sleep(400)
        assert await running(fleet.workers[first]) == []
        origin = [labels_of(copy) for copy in (await fleet.workers[first].client.list(WORKLOADS)).items]
        assert origin == []

    on_fleet(check)
